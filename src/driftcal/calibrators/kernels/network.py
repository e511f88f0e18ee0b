"""A network with two hidden layers of tanh units on a row's gaps, its slopes, and sums of their squares."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np

from driftcal.calibrators.kernels.margins import write_gaps
from driftcal.calibrators.scaling.temperature import fit_nll
from driftcal.core.dataset import LabelledLogits
from driftcal.core.images import as_seed
from driftcal.core.numerics import kernel
from driftcal.errors import DidNotConverge, InputError, NoFiniteOptimum
from driftcal.types import Float64

#: The network may change the temperature by this power of e at most; what it really needs stays far below.
LARGEST = 50.0
#: Rows whose curvature is added at once: the matrix of sums is larger than a core's first cache.
GROUP = 8
#: A temperature so many times smaller than the likeliest one leaves rows so sure that the squared error has no slope: the
#: likeliest one is then a second start.
SATURATED = 4.0


def check_settings(top: Any, hidden: Any, decay: Any, tol: Any) -> None:
    """What a calibrator with such a network is told: how many logits it sees, how many units it has, how it is trained."""
    for name, value, least in (("top", top, 2), ("hidden", hidden, 1)):
        if not isinstance(value, (int, np.integer)) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}; it is {value!r}.")
    for name, value, usual in (("decay", decay, 1), ("tol", tol, 1e-4)):
        if not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
            raise InputError(f"{name} must be a positive number; it is {value!r}. The default is {usual}.")


def network_size(width: int, hidden: int) -> int:
    """How many weights the network has: two layers of `hidden` units and the output, each with its constants."""
    return (width + 1) * hidden + (hidden + 1) * hidden + hidden + 1


def network_start(width: int, hidden: int, seed: int) -> Float64:
    """Random directions in both hidden layers, nothing in the output: the network starts as the constant 0."""
    rng = np.random.default_rng(as_seed(seed))
    first = np.concatenate([rng.normal(size=(hidden, width)) / math.sqrt(width), rng.normal(size=(hidden, 1))], axis=1)
    second = np.concatenate(
        [rng.normal(size=(hidden, hidden)) / math.sqrt(hidden), rng.normal(size=(hidden, 1))], axis=1
    )
    return np.concatenate([first.ravel(), second.ravel(), np.zeros(hidden + 1)])


def first_betas(rows: LabelledLogits, beta: float) -> tuple[list[float], int]:
    """1/T to start training from, and the passes it took to find them: `beta`, the best by squared error, and the likeliest where it is needed."""
    with contextlib.suppress(NoFiniteOptimum, DidNotConverge):  # a second start where there is one
        likely, report = fit_nll(rows)
        return [float(beta), *([float(likely)] if beta > SATURATED * likely else [])], report.passes
    return [float(beta)], 0


@kernel
def network_value(
    row: Any,
    scale: float,
    low: Float64,
    high: Float64,
    mean: Float64,
    spread: Float64,
    hidden: int,
    network: Float64,
    x: Float64,
    first: Float64,
    second: Float64,
) -> float:
    """g of one row; leaves its inputs and the values of both hidden layers in `x`, `first` and `second`."""
    width = x.shape[0]
    write_gaps(row, x)
    for j in range(width):
        x[j] = (min(max(math.log1p(x[j] / scale), low[j]), high[j]) - mean[j]) / spread[j]
    at = 0
    for h in range(hidden):
        a = network[at + width]
        for j in range(width):
            a += network[at + j] * x[j]
        first[h] = math.tanh(a)
        at += width + 1
    for h in range(hidden):
        a = network[at + hidden]
        for j in range(hidden):
            a += network[at + j] * first[j]
        second[h] = math.tanh(a)
        at += hidden + 1
    g = network[at + hidden]
    for h in range(hidden):
        g += network[at + h] * second[h]
    return float(min(max(g, -LARGEST), LARGEST))


@kernel
def network_slopes(hidden: int, network: Float64, x: Float64, first: Float64, second: Float64, slope: Float64) -> None:
    """The slope of g in every weight."""
    width, size = x.shape[0], network.shape[0]
    last = size - hidden - 1
    middle = last - hidden * (hidden + 1)
    slope[size - 1] = 1.0
    for j in range(hidden):
        slope[last + j] = second[j]
        back = network[last + j] * (1.0 - second[j] * second[j])
        at = middle + j * (hidden + 1)
        for i in range(hidden):
            slope[at + i] = back * first[i]
        slope[at + hidden] = back
    for i in range(hidden):
        back = 0.0
        for j in range(hidden):
            back += network[middle + j * (hidden + 1) + i] * slope[middle + j * (hidden + 1) + hidden]
        back *= 1.0 - first[i] * first[i]
        at = i * (width + 1)
        for k in range(width):
            slope[at + k] = back * x[k]
        slope[at + width] = back


@kernel
def add_squares(slopes: Float64, bends: Float64, sums: Float64) -> None:
    """Add bend·slope·slopeᵀ of a group of rows to the upper half of the curvature."""
    size = slopes.shape[1]
    for r in range(size):
        v0, v1 = bends[0] * slopes[0, r], bends[1] * slopes[1, r]
        v2, v3 = bends[2] * slopes[2, r], bends[3] * slopes[3, r]
        v4, v5 = bends[4] * slopes[4, r], bends[5] * slopes[5, r]
        v6, v7 = bends[6] * slopes[6, r], bends[7] * slopes[7, r]
        for c in range(r, size):
            sums[1 + r, 1 + c] += (
                v0 * slopes[0, c]
                + v1 * slopes[1, c]
                + v2 * slopes[2, c]
                + v3 * slopes[3, c]
                + v4 * slopes[4, c]
                + v5 * slopes[5, c]
                + v6 * slopes[6, c]
                + v7 * slopes[7, c]
            )
