"""Ensemble temperature scaling, and the temperature by squared error it rests on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.export_maps.export_map import Blended, ExportMap
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.normalise import normalise
from driftcal.calibrators.scaling.temperature import (
    FLAT,
    BetaMinimum,
    FirstPass,
    certify,
    checked_first_pass,
    min_beta,
    minimise_in_beta,
    no_better_than_chance,
)
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max, softmax_kernel
from driftcal.errors import DidNotConverge, NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights

#: Neighbouring temperatures of the coarse search differ by a factor 2: then each follows from the last by squaring.
GRID = 16
#: The coarse search starts where logits differ by 1/64 on average (almost uniform) and ends where they differ by 512.
GRID_START = 2.0**-6
#: Squared errors that differ by less than this share are equal.
EQUAL = 1e-15


class EnsembleTemperatureScaling(LogitCalibrator):
    """A weighted mean of the scaled model, the uncalibrated model and a uniform prediction: w1·softmax(z/T) + w2·softmax(z) + w3/C.

    T minimises the squared error of the scaled model alone: a coarse search over all sizes, since the loss is not known to be
    convex, then Newton's method. The weights on the simplex then minimise the squared error exactly, from their 3×3 Gram
    matrix. Masked classes (-inf) get nothing of w3. Zhang, Kailkhura and Han 2020 (Mix-n-Match), section 3.2.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])  # confidence 0.9, accuracy 0.75
    >>> EnsembleTemperatureScaling().fit(logits, [0, 0, 1, 1]).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    keeps_accuracy = True
    fitted = {"temperature_": FittedArray(positive=True), "weights_": FittedArray(3)}

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        first = checked_first_pass(data, self.t_max)
        moments = _Moments(data)
        best = fit_brier(data, first, self.t_max, moments)
        (pp, p_y, pq), more = moments.at(best.beta)
        self.temperature_ = float(1 / best.beta)
        gram = np.array([[pp, pq, first.uniform], [pq, first.sum_of_squares, first.uniform], [first.uniform] * 3])
        self.weights_, after = _best_weights(gram, np.array([p_y, first.true_class, first.uniform]))
        certify("squared error", first.brier, after)
        return FitReport("brier", first.brier, after, best.passes + more + 1)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        scaled, uncalibrated, uniform = self.weights_
        probs = np.empty_like(out)
        softmax_kernel(logits, 1 / self.temperature_, out)
        softmax_kernel(logits, 1.0, probs)
        out *= scaled
        out += uncalibrated * probs
        out += uniform / np.isfinite(logits).sum(axis=1, keepdims=True)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """The blend of three distributions."""
        scaled, uncalibrated, uniform = (float(weight) for weight in self.weights_)
        return ExportMap(Blended(1 / self.temperature_, (scaled, uncalibrated, uniform)))

    def _check_params(self) -> None:
        min_beta(self.t_max)


@kernel
def _grid_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add the squared error at beta, 2·beta, 4·beta, …: exp(2·beta·d) is the square of exp(beta·d)."""
    powers = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        for c in range(row.shape[0]):
            powers[c] = exp(beta * max(np.float64(row[c]) - top, MASKED))
        for k in range(sums.shape[0]):
            s0 = 0.0
            q0 = 0.0
            true_class = powers[labels[i]]
            for c in range(row.shape[0]):
                e = powers[c]
                square = e * e
                s0 += e
                q0 += square
                powers[c] = square
            sums[k] += weights[i] * (q0 / (s0 * s0) - 2.0 * true_class / s0 + 1.0)


@kernel
def _brier_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add the squared error, its gradient and its curvature in beta.

    With p = softmax(beta·d), m = Σp·d and v = Σp·d² − m²: p' = p(d − m) and p'' = p((d − m)² − v).
    """
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        q0 = 0.0
        q1 = 0.0
        q2 = 0.0
        for c in range(row.shape[0]):
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(beta * d)
            e_d = e * d
            s0 += e
            s1 += e_d
            s2 += e_d * d
            q0 += e * e
            q1 += e * e_d
            q2 += e_d * e_d
        mean = s1 / s0
        variance = s2 / s0 - mean * mean
        a = q0 / (s0 * s0)
        b = q1 / (s0 * s0)
        squares = q2 / (s0 * s0) - 2.0 * mean * b + mean * mean * a
        true_class = max(np.float64(row[labels[i]]) - top, MASKED)
        p = exp(beta * true_class) / s0
        deviation = true_class - mean
        w = weights[i]
        if w > 0:
            sums[0] += w * (a - 2.0 * p + 1.0)
            sums[1] += w * (2.0 * (b - mean * a) - 2.0 * p * deviation)
            sums[2] += w * (4.0 * squares - 2.0 * variance * a - 2.0 * p * (deviation * deviation - variance))


@kernel
def _moment_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add p·p, p_y and p·q, each with its gradient and its curvature in beta; p = softmax(beta·z), q = softmax(z).

    What q alone gives, the first pass has.
    """
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        q0 = 0.0
        q1 = 0.0
        q2 = 0.0
        t = 0.0
        r0 = 0.0
        r1 = 0.0
        r2 = 0.0
        for c in range(row.shape[0]):
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(beta * d)
            f = exp(d)
            e_d = e * d
            s0 += e
            s1 += e_d
            s2 += e_d * d
            q0 += e * e
            q1 += e * e_d
            q2 += e_d * e_d
            t += f
            r0 += e * f
            r1 += e_d * f
            r2 += e_d * d * f
        mean = s1 / s0
        variance = s2 / s0 - mean * mean
        a = q0 / (s0 * s0)
        b = q1 / (s0 * s0)
        squares = q2 / (s0 * s0) - 2.0 * mean * b + mean * mean * a
        true_class = max(np.float64(row[labels[i]]) - top, MASKED)
        p = exp(beta * true_class) / s0
        deviation = true_class - mean
        shared = r0 / (s0 * t)
        shared_d = r1 / (s0 * t)
        w = weights[i]
        if w > 0:
            sums[0] += w * a
            sums[1] += w * 2.0 * (b - mean * a)
            sums[2] += w * (4.0 * squares - 2.0 * variance * a)
            sums[3] += w * p
            sums[4] += w * p * deviation
            sums[5] += w * p * (deviation * deviation - variance)
            sums[6] += w * shared
            sums[7] += w * (shared_d - mean * shared)
            sums[8] += w * (r2 / (s0 * t) - 2.0 * mean * shared_d + (mean * mean - variance) * shared)


class _Moments:
    """The squared error as `fit_brier` needs it; near the minimum the same passes also give what the weights need."""

    def __init__(self, data: LabelledLogits) -> None:
        self.data = data
        self.beta = math.nan  # of the last pass over all samples
        self.at_beta: Float64 | None = None  # (p·p, p_y, p·q) × (value, gradient, curvature) at `beta`

    def __call__(self, beta: float, stride: int = 1) -> Sequence[float]:
        """Value, gradient and curvature of the squared error at `beta`."""
        near = abs(beta - self.beta) < 0.02 * beta
        if stride > 1 or not near:
            if stride == 1:
                self.beta, self.at_beta = beta, None
            return brier(self.data, beta, stride)
        square, true_class, _ = self._pass(beta)
        loss: list[float] = (square - 2 * true_class + [1, 0, 0]).tolist()
        return loss

    def at(self, beta: float) -> tuple[list[float], int]:
        """The means of p·p, p_y and p·q at `beta`, and the passes taken.

        They are extrapolated from the last pass where it is so near that the error is below 1e-10.
        """
        at_beta, step = self.at_beta, beta - self.beta
        if at_beta is None or abs(step) > 5e-4 * beta:
            return self._pass(beta)[:, 0].tolist(), 1
        return (at_beta @ [1, step, step * step / 2]).tolist(), 0

    def _pass(self, beta: float) -> Float64:
        moments = (self.data.reduce_sum(_moment_sums, 9, beta) / self.data.total_weight).reshape(3, 3)
        self.beta, self.at_beta = beta, moments
        return moments


def brier(data: LabelledLogits, beta: float, stride: int = 1) -> Sequence[float]:
    """The mean squared error of softmax(beta·z), its gradient and its curvature."""
    return [float(part) for part in data.reduce_sum(_brier_sums, 3, beta, stride=stride) / data.total_weight]


def fit_brier(
    data: LabelledLogits, first: FirstPass, t_max: float | None, loss: Callable[..., Sequence[float]] | None = None
) -> BetaMinimum:
    """Minimise the squared error of softmax(beta·z), beta = 1/T.

    `loss` replaces :func:`brier` of `data` where a caller needs more of the same passes.
    """
    loss = partial(brier, data) if loss is None else loss
    floor = min_beta(t_max)
    if first.top_minus_mean < FLAT:  # every sample is flat: all temperatures are the same, and the caller has set a cap
        return BetaMinimum(max(1.0, floor), first.brier, 0)
    try:
        best = _search(data, first, floor, max(floor, GRID_START / first.top_minus_mean), loss)
    except NoFiniteOptimum:
        if floor > 1 or first.brier >= 1 - 1 / data.n_classes:
            raise
        best = BetaMinimum(floor, math.inf, 1)
    if best.value <= first.brier + 1e-12 or floor > 1:
        return best
    # Logits of very different sizes have several local minima, and beta = 1 is lower than this one: search around it.
    other = _search(data, first, floor, max(floor, 2.0 ** -(GRID // 2)), loss)
    return BetaMinimum(other.beta, other.value, best.passes + other.passes)


def _search(
    data: LabelledLogits, first: FirstPass, floor: float, start: float, loss: Callable[..., Sequence[float]]
) -> BetaMinimum:
    """The lowest squared error near the lowest point of a grid that begins at `start`; the grid moves if that is its end."""
    stride = data.subsample_stride  # a subsample of a large array, unless its lowest point is an end of the grid
    for passes in (0, 1, 2, 3):
        grid = data.reduce_sum(_grid_sums, GRID, start, stride=stride)
        # where sharper temperatures change nothing beyond rounding, the highest of them
        best = int(np.flatnonzero(grid <= grid.min() * (1 + EQUAL))[0])
        if stride > 1 and best in (0, GRID - 1):
            stride = 1
            continue
        if best == 0 and start > floor and not first.better_than_chance:
            raise no_better_than_chance()  # the loss only rises from beta = 0, and no larger beta undercuts it
        if best == GRID - 1:
            start *= 2.0 ** (GRID - 2)
        elif best == 0 and start > floor:
            start = max(floor, start / 2.0 ** (GRID - 2))
        else:
            reach = 1 if stride == 1 else 2  # the minimum of all samples may lie a little beside that of a subsample
            low = floor if best == 0 else max(floor, start * 2.0 ** (best - reach))
            high = start * 2.0 ** (best + reach)

            middle = start * 2.0**best
            if data.subsample_stride > 1:
                # First few samples, then more, so that the passes over all of them start nearby.
                with contextlib.suppress(DidNotConverge):
                    for part, tolerance in ((data.subsample_stride, 0.1), (-(-data.subsample_stride // 4), 0.05)):
                        middle = minimise_in_beta(
                            partial(loss, stride=part), middle, low, high, tolerance=tolerance
                        ).beta
            # A product of steps of 1e-5 leaves 1e-10 of beta: far less than the squared error can tell apart.
            minimum = minimise_in_beta(loss, middle, low, high, product=1e-5)
            n_passes = passes + minimum.passes + (stride == 1)  # a subsample is not a pass
            return BetaMinimum(minimum.beta, minimum.value, n_passes)
    if best == 0:
        raise no_better_than_chance()
    raise NoFiniteOptimum(
        "the best temperature by squared error is 0: a lower temperature always lowers it on these tuning samples. "
        "Tune on more samples or on perturbed ones, or use plain temperature scaling (method 'ts')."
    )


def _best_weights(gram: Float64, true_class: Float64) -> tuple[Float64, float]:
    """The weights w on the simplex with the least squared error w·G·w − 2w·r + 1, and that error.

    The loss is quadratic, so its minimum over the simplex is the stationary point of one of the seven faces. Faces
    come smallest first and must be lower by more than rounding: where T = 1 makes two parts equal, the first is kept.
    """
    best, least = np.array([1.0, 0.0, 0.0]), math.inf
    for size in (1, 2, 3):
        for face in combinations(range(3), size):
            weights = _stationary(gram, true_class, list(face))
            if weights is None:
                continue
            loss = float(weights @ gram @ weights - 2 * weights @ true_class + 1)
            if loss < least - 1e-15:
                best, least = weights, loss
    return best, least


def _stationary(gram: Float64, true_class: Float64, face: list[int]) -> Float64 | None:
    """Minimise w·G·w − 2w·r on one face with weights that sum to 1; None where it lies outside or is not unique."""
    first, rest = face[0], face[1:]
    weights = np.zeros(3)
    weights[first] = 1.0
    if rest:
        edges = np.zeros((len(rest), 3))  # directions along the face, from its first corner
        edges[:, first] = -1.0
        edges[np.arange(len(rest)), rest] = 1.0
        curvature = edges @ gram @ edges.T
        negative_gradient = edges @ (true_class - gram @ weights)
        if np.linalg.cond(curvature) > 1e12:
            return None
        weights = weights + np.linalg.solve(curvature, negative_gradient) @ edges
    return weights if (weights >= 0).all() else None
