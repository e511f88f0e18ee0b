"""Temperature scaling, with the exact optimum for any T."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap, Scaled
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.parameters import is_positive, shown
from driftcal.calibrators.scaling.first_pass import FLAT, check_nll_optimum, first_pass
from driftcal.calibrators.scaling.minimise_in_beta import minimise_in_beta
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, differences, exp, kernel, log_softmax_into, row_max, softmax_into, with_small
from driftcal.errors import DidNotConverge, InputError
from driftcal.types import Float64, Labels, Logits, Weights

#: On a subsample the search ends with a relative step this small, after at most this many passes: it is only a start.
SUBSAMPLE_TOLERANCE, SUBSAMPLE_PASSES = 1e-2, 30


class TemperatureScaling(LogitCalibrator):
    """One scalar for all classes: q = softmax(z / T), with T > 0 minimising the negative log-likelihood.

    The loss is convex in beta = 1/T, so Newton's method in a bracket finds the one optimum, of any size. There is no
    optimum if all tuning samples are classified correctly (T -> 0) or no better than chance (T -> infinity). The fit
    then raises `NoFiniteOptimum`; `t_max` caps the temperature in the second case. `t_max=5` reproduces the code of
    Tomani et al. 2021. Guo et al. 2017, section 4.2.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])  # confidence 0.9, accuracy 0.75
    >>> ts = TemperatureScaling().fit(logits, [0, 0, 1, 1])
    >>> ts.predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    keeps_accuracy = True
    fitted = {"temperature_": FittedArray(positive=True)}

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        beta, report = fit_nll(data, self.t_max)
        self.temperature_ = float(1 / beta)
        return report

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_into(logits, 1 / self.temperature_, out)

    def _log_proba_into(self, logits: Logits, out: Float64) -> None:
        log_softmax_into(logits, 1 / self.temperature_, out)

    def export_map(self) -> ExportMap:
        """softmax(z / T)."""
        return ExportMap(Scaled(1 / self.temperature_))

    def _check_params(self) -> None:
        min_beta(self.t_max)


@kernel
def exponential_moments(row: Any, top: float, beta: float) -> tuple[float, float, float]:
    """Σe, Σe·d and Σe·d² with e = exp(beta·d), d = z − top and the largest logit `top`."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    for c in range(row.shape[0]):
        d = max(np.float64(row[c]) - top, MASKED)
        e = exp(beta * d)
        s0 += e
        s1 += e * d
        s2 += e * d * d
    return s0, s1, s2


def _small_nll_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    used = np.flatnonzero(weights > 0)
    logits, labels, w = logits[used], labels[used], weights[used]
    d, top = differences(logits)
    e = np.exp(beta * d)
    s0, mean = e.sum(axis=1), (e * d).sum(axis=1)
    mean /= s0
    d_true = logits[np.arange(len(labels)), labels].astype(np.float64) - top[:, 0]
    sums[0] += w @ (np.log(s0) - beta * d_true)
    sums[1] += w @ (mean - d_true)
    sums[2] += w @ ((e * d * d).sum(axis=1) / s0 - mean * mean)


@with_small(_small_nll_sums)
def nll_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add weighted sums of the loss log Σ exp(beta·z) − beta·z_y, its gradient and its curvature in beta."""
    loss = 0.0
    gradient = 0.0
    curvature = 0.0
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        s0, s1, s2 = exponential_moments(row, top, beta)
        d_true = np.float64(row[labels[i]]) - top
        mean = s1 / s0
        w = weights[i]
        if w > 0:  # a sample of weight 0 may hold anything, even an infinite loss
            loss += w * (math.log(s0) - beta * d_true)
            gradient += w * (mean - d_true)
            curvature += w * (s2 / s0 - mean * mean)
    sums[0] += loss
    sums[1] += gradient
    sums[2] += curvature


def fit_nll(data: LabelledLogits, t_max: float | None = None) -> tuple[float, FitReport]:
    """beta = 1/T that minimises the negative log-likelihood of `data`, and the report."""
    lowest = min_beta(t_max)
    first = first_pass(data)
    check_nll_optimum(first, t_max)

    def loss(beta: float, stride: int = 1) -> Sequence[float]:
        return [float(part) for part in data.reduce_sum(nll_sums, 3, beta, stride=stride) / data.total_weight]

    start = max(lowest, 1 / first.top_minus_mean if first.top_minus_mean > FLAT else 1.0)
    if data.subsample_stride > 1:
        # a subsample that is separable or no better than chance does not change the start
        with contextlib.suppress(DidNotConverge):
            start = minimise_in_beta(
                lambda beta: loss(beta, data.subsample_stride),
                start,
                lowest,
                tolerance=SUBSAMPLE_TOLERANCE,
                max_calls=SUBSAMPLE_PASSES,
            ).beta
    best = minimise_in_beta(loss, start, lowest)
    if lowest < 1:  # the search includes beta = 1, the uncalibrated model
        certify("nll", first.nll, best.value)
    return best.beta, FitReport("nll", first.nll, best.value, best.passes + 1)


def min_beta(t_max: float | None) -> float:
    """The smallest beta = 1/T that `t_max` allows; 0 without a cap."""
    if t_max is None:
        return 0.0
    if not is_positive(t_max):
        raise InputError(
            f"t_max must be a positive number or None; it is {shown(t_max)}. Leave it out for the exact optimum."
        )
    return 1 / float(t_max)
