"""The network of PTS and DAC-PTS: two hidden layers of tanh units from the inputs of a sample to g, with T = T₀·exp(g).

Its weights are one array: for each unit of the first layer its weights and its constant, then those of the second
layer, then those of the output. Training minimises the squared error of softmax(z / T) plus a penalty on the distance
from the start.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.parameters import check_positive, check_whole
from driftcal.calibrators.samplewise.sample_scaling import moments
from driftcal.calibrators.scaling.temperature import fit_nll
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max
from driftcal.core.optimize import Loss, Minimum
from driftcal.core.random import as_seed
from driftcal.errors import DidNotConverge, NoFiniteOptimum
from driftcal.types import Float64

#: The largest |g|. Trained networks stay far below; it prevents overflow.
MAX_LOG_FACTOR = 50.0
#: Samples whose curvature is added at once: the matrix of sums is larger than a core's first cache.
GROUP = 8
#: A temperature this many times smaller than that of temperature scaling saturates the softmax: the squared error then
#: has no gradient. Training begins at the temperature of temperature scaling as well.
SATURATED = 4.0


def check_network_params(top: Any, hidden: Any, decay: Any, tol: Any) -> None:
    """Refuse unusable sizes and training parameters."""
    check_whole("top", top, 2, 10)
    check_whole("hidden", hidden, 1, 5)
    check_positive("decay", decay, 1.0)
    check_positive("tol", tol, 1e-4)


def network_size(width: int, hidden: int) -> int:
    """The number of weights: two layers of `hidden` units and the output, each with constants."""
    return (width + 1) * hidden + (hidden + 1) * hidden + hidden + 1


def initial_network(width: int, hidden: int, random_state: int) -> Float64:
    """Random weights in both hidden layers, 0 in the output: g = 0 at the start."""
    rng = np.random.default_rng(as_seed(random_state, "random_state"))
    first = np.concatenate([rng.normal(size=(hidden, width)) / math.sqrt(width), rng.normal(size=(hidden, 1))], axis=1)
    second = np.concatenate(
        [rng.normal(size=(hidden, hidden)) / math.sqrt(hidden), rng.normal(size=(hidden, 1))], axis=1
    )
    return np.concatenate([first.ravel(), second.ravel(), np.zeros(hidden + 1)])


def network_layers(network: Float64, width: int, hidden: int) -> tuple[tuple[Float64, Float64], ...]:
    """The weights (inputs, units) and the constants of each layer."""
    end_of_first = (width + 1) * hidden
    end_of_second = end_of_first + (hidden + 1) * hidden
    layers = (
        network[:end_of_first].reshape(hidden, width + 1),
        network[end_of_first:end_of_second].reshape(hidden, hidden + 1),
        network[None, end_of_second:],
    )
    return tuple((np.ascontiguousarray(layer[:, :-1].T), layer[:, -1].copy()) for layer in layers)


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network, the 1/T₀ of its training, its squared error without the penalty, and the passes taken."""

    network: Float64
    beta: float
    loss: float
    passes: int


def starting_betas(data: LabelledLogits, beta: float) -> tuple[list[float], int]:
    """The values of 1/T₀ to train from, and the passes taken.

    They are `beta`, the best by squared error, and that of temperature scaling if `beta` saturates the softmax.
    """
    with contextlib.suppress(NoFiniteOptimum, DidNotConverge):
        nll_beta, report = fit_nll(data)
        return [float(beta), *([float(nll_beta)] if beta > SATURATED * nll_beta else [])], report.passes
    return [float(beta)], 0


def train_from_each(
    betas: Iterable[float],
    train: Callable[[float], Minimum],
    start: Float64,
    decay: float,
) -> TrainedNetwork:
    """The best network of those trained from each 1/T₀; `decay` is the weight of ‖network − start‖² in the loss."""
    trained = [(train(beta), beta) for beta in betas]
    best, beta = min(trained, key=lambda pair: pair[0].value)
    deviation = best.x - start
    passes = sum(minimum.n_calls for minimum, _ in trained)
    return TrainedNetwork(best.x, beta, best.value - decay * float(deviation @ deviation), passes)


def network_loss(sums_of: Callable[[Float64], Float64], start: Float64, decay: float) -> Loss:
    """The penalised squared error with gradient and curvature, from the sums of `add_sample` for a network.

    `decay` is the factor of ‖network − start‖², which is added to the summed squared error.
    """
    size = len(start)

    def loss(network: Float64) -> tuple[float, Float64, Float64]:
        sums = sums_of(network)
        weight = max(float(sums[1, 0]), 1e-300)
        deviation = network - start
        curvature = (sums[1:, 1:] + np.triu(sums[1:, 1:], 1).T) / weight
        curvature[np.diag_indices(size)] += 2 * decay / weight
        value = (float(sums[0, 0]) + decay * float(deviation @ deviation)) / weight
        return value, (sums[0, 1:] + 2 * decay * deviation) / weight, curvature

    return loss


@kernel
def network_value(x: Float64, hidden: int, network: Float64, first: Float64, second: Float64) -> float:
    """g for inputs `x`; the values of both hidden layers are left in `first` and `second`."""
    width = x.shape[0]
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
    return float(min(max(g, -MAX_LOG_FACTOR), MAX_LOG_FACTOR))


@kernel
def network_values(inputs: Float64, hidden: int, network: Float64, out: Float64) -> None:
    """Write g for the inputs of every sample."""
    first = np.empty(hidden)
    second = np.empty(hidden)
    for i in range(inputs.shape[0]):
        out[i] = network_value(inputs[i], hidden, network, first, second)


@kernel
def network_gradient(
    hidden: int, network: Float64, x: Float64, first: Float64, second: Float64, gradient: Float64
) -> None:
    """The gradient of g in every weight."""
    width, size = x.shape[0], network.shape[0]
    last = size - hidden - 1
    middle = last - hidden * (hidden + 1)
    gradient[size - 1] = 1.0
    for j in range(hidden):
        gradient[last + j] = second[j]
        back = network[last + j] * (1.0 - second[j] * second[j])
        at = middle + j * (hidden + 1)
        for i in range(hidden):
            gradient[at + i] = back * first[i]
        gradient[at + hidden] = back
    for i in range(hidden):
        back = 0.0
        for j in range(hidden):
            back += network[middle + j * (hidden + 1) + i] * gradient[middle + j * (hidden + 1) + hidden]
        back *= 1.0 - first[i] * first[i]
        at = i * (width + 1)
        for k in range(width):
            gradient[at + k] = back * x[k]
        gradient[at + width] = back


@kernel
def add_sample(
    row: Any,
    label: int,
    w: float,
    beta: float,
    x: Float64,
    hidden: int,
    network: Float64,
    first: Float64,
    second: Float64,
    gradients: Float64,
    curvatures: Float64,
    held: int,
    sums: Float64,
) -> int:
    """Add one sample to `sums`: squared error at [0, 0], its gradient in the rest of row 0, the weight at [1, 0].

    With p = softmax(x), x = e^s·beta·d, s = −g and m = Σp·x: dp/ds = p(x − m). The curvature is that of Gauss and
    Newton, 2·|dp|², which is never negative. It is collected in groups of `GROUP` samples before it is added. `held` is
    the number of samples in the current group; the new number is returned.
    """
    size = network.shape[0]
    g = network_value(x, hidden, network, first, second)
    scale = beta * math.exp(-g)
    s0, s1, q0, q1, q2 = moments(row, scale)
    m = s1 / s0
    a = q0 / (s0 * s0)
    b = q1 / (s0 * s0)
    x_true = max(scale * (np.float64(row[label]) - row_max(row)), MASKED)
    p = exp(x_true) / s0
    derivative = -2.0 * w * (b - m * a - p * (x_true - m))
    curvatures[held] = 2.0 * w * max(q2 / (s0 * s0) - 2.0 * m * b + m * m * a, 0.0)
    network_gradient(hidden, network, x, first, second, gradients[held])
    sums[0, 0] += w * (a - 2.0 * p + 1.0)
    sums[1, 0] += w
    for r in range(size):
        sums[0, 1 + r] += derivative * gradients[held, r]
    held += 1
    if held == GROUP:
        add_outer_products(gradients, curvatures, sums)
        held = 0
    return held


@kernel
def add_outer_products(gradients: Float64, curvatures: Float64, sums: Float64) -> None:
    """Add curvature·gradient·gradientᵀ of a group of samples to the upper half of the curvature in `sums`.

    The loop over the group is written out, so that each entry of the matrix is loaded and stored once per group.
    """
    size = gradients.shape[1]
    for r in range(size):
        v0, v1 = curvatures[0] * gradients[0, r], curvatures[1] * gradients[1, r]
        v2, v3 = curvatures[2] * gradients[2, r], curvatures[3] * gradients[3, r]
        v4, v5 = curvatures[4] * gradients[4, r], curvatures[5] * gradients[5, r]
        v6, v7 = curvatures[6] * gradients[6, r], curvatures[7] * gradients[7, r]
        for c in range(r, size):
            sums[1 + r, 1 + c] += (
                v0 * gradients[0, c]
                + v1 * gradients[1, c]
                + v2 * gradients[2, c]
                + v3 * gradients[3, c]
                + v4 * gradients[4, c]
                + v5 * gradients[5, c]
                + v6 * gradients[6, c]
                + v7 * gradients[7, c]
            )
