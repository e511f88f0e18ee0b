"""Ensemble temperature scaling, and the best temperature by squared error, which it uses."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import Blended, ExportMap
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.normalise import normalise_small_too
from driftcal.calibrators.scaling.first_pass import FLAT, FirstPass, checked_first_pass, no_better_than_chance
from driftcal.calibrators.scaling.minimise_in_beta import BetaMinimum, minimise_in_beta
from driftcal.calibrators.scaling.temperature import min_beta
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, differences, exp, row_max, softmax_into, with_small
from driftcal.errors import DidNotConverge, NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights

#: The temperatures of the coarse search. Neighbours differ by a factor of 2: each one follows from the last by
#: squaring.
GRID = 16
#: The coarse search begins where logits differ by 1/64 on average (almost uniform) and ends where they differ by 512.
GRID_START = 2.0**-6
#: The most grids of the coarse search, each 14 factors of 2 further than the last.
MAX_GRIDS = 4
#: Squared errors that differ by less than this share are equal: they are rounded by as much.
EQUAL = 1e-15
#: A pass at a beta this close to the last one also collects the moments for the weights: the search ends there.
NEAR = 0.02
#: Moments are extrapolated over a step this small relative to beta: the error is then below 1e-10.
MAX_EXTRAPOLATION = 5e-4
#: Tolerances of the search on a small and on a larger subsample, so that the passes over all samples start nearby.
SUBSAMPLE_TOLERANCES = (0.1, 0.05)


class EnsembleTemperatureScaling(LogitCalibrator):
    """Scaled model, uncalibrated model and uniform prediction, weighted: w1·softmax(z/T) + w2·softmax(z) + w3/C.

    T minimises the squared error of the scaled model alone. The loss may not be convex, so a coarse search over all
    sizes comes before Newton's method. The weights on the simplex then minimise the squared error exactly, from their
    3×3 Gram matrix. Masked classes (-inf) have no share in w3. Zhang, Kailkhura and Han 2020 (Mix-n-Match), section
    3.2.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])  # confidence 0.9, accuracy 0.75
    >>> EnsembleTemperatureScaling().fit(logits, [0, 0, 1, 1]).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    keeps_accuracy = True
    fitted = {"temperature_": FittedArray(positive=True), "weights_": FittedArray(3, low=0, high=1)}

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        first = checked_first_pass(data, self.t_max)
        moments = _Moments(data)
        best = fit_brier(data, first, self.t_max, moments)
        self.temperature_ = float(1 / best.beta)
        at_best = moments.at(best.beta)
        pp, pq, uniform = at_best.p_squared, at_best.p_times_q, first.uniform
        gram = np.array([[pp, pq, uniform], [pq, first.sum_of_squares, uniform], [uniform] * 3])
        true_class = np.array([at_best.p_true_class, first.true_class_probability, uniform])
        self.weights_, after = _best_weights(gram, true_class)
        certify("squared error", first.brier, after)
        return FitReport("brier", first.brier, after, best.passes + at_best.passes + 1)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        scaled, uncalibrated, uniform = self.weights_
        probs = np.empty_like(out)
        softmax_into(logits, 1 / self.temperature_, out)
        softmax_into(logits, 1.0, probs)
        out *= scaled
        out += uncalibrated * probs
        out += uniform / np.isfinite(logits).sum(axis=1, keepdims=True)
        normalise_small_too(logits, out)

    def export_map(self) -> ExportMap:
        """The blend of three distributions."""
        scaled, uncalibrated, uniform = (float(weight) for weight in self.weights_)
        return ExportMap(Blended(1 / self.temperature_, (scaled, uncalibrated, uniform)))

    def _check_fitted(self) -> None:
        if abs(self.weights_.sum() - 1) > 1e-6:
            raise ValueError(f"weights_ must sum to 1; the sum is {self.weights_.sum()}")

    def _check_params(self) -> None:
        min_beta(self.t_max)


def _small_grid_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    powers = np.exp(beta * differences(logits)[0])
    true = np.arange(len(labels)), labels
    for k in range(len(sums)):
        e_true, square = powers[true], powers * powers
        s0, q0 = powers.sum(axis=1), square.sum(axis=1)
        sums[k] += weights @ (q0 / (s0 * s0) - 2.0 * e_true / s0 + 1.0)
        powers = square


@with_small(_small_grid_sums)
def _grid_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add the squared error at beta, 2·beta, 4·beta, …, where exp(2·beta·d) is the square of exp(beta·d)."""
    powers = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        for c in range(row.shape[0]):
            powers[c] = exp(beta * max(np.float64(row[c]) - top, MASKED))
        for k in range(sums.shape[0]):
            s0 = 0.0
            q0 = 0.0
            e_true = powers[labels[i]]
            for c in range(row.shape[0]):
                e = powers[c]
                square = e * e
                s0 += e
                q0 += square
                powers[c] = square
            sums[k] += weights[i] * (q0 / (s0 * s0) - 2.0 * e_true / s0 + 1.0)


class _SmallMoments:
    """Weights, and for p = softmax(beta·d): Σp², p of the true class, m = Σp·d, v = Σp·d² − m², in numpy."""

    def __init__(self, logits: Logits, labels: Labels, weights: Weights, beta: float) -> None:
        used = np.flatnonzero(weights > 0)
        self.w, self.d = weights[used], differences(logits[used])[0]
        p = np.exp(beta * self.d)
        p /= p.sum(axis=1, keepdims=True)
        p_d = p * self.d
        self.p, self.p_d, self.p_d_d = p, p_d, p_d * self.d
        self.mean = p_d.sum(axis=1)
        self.variance = self.p_d_d.sum(axis=1) - self.mean * self.mean
        true = np.arange(len(used)), labels[used]
        self.p_true, self.deviation = p[true], self.d[true] - self.mean
        self.a, self.b = (p * p).sum(axis=1), (p * p_d).sum(axis=1)
        self.squares = (p_d * p_d).sum(axis=1) - 2.0 * self.mean * self.b + self.mean * self.mean * self.a


def _small_brier_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    m = _SmallMoments(logits, labels, weights, beta)
    sums[0] += m.w @ (m.a - 2.0 * m.p_true + 1.0)
    sums[1] += m.w @ (2.0 * (m.b - m.mean * m.a) - 2.0 * m.p_true * m.deviation)
    second = 4.0 * m.squares - 2.0 * m.variance * m.a - 2.0 * m.p_true * (m.deviation * m.deviation - m.variance)
    sums[2] += m.w @ second


@with_small(_small_brier_sums)
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
        d_true = max(np.float64(row[labels[i]]) - top, MASKED)
        p = exp(beta * d_true) / s0
        deviation = d_true - mean
        w = weights[i]
        if w > 0:
            sums[0] += w * (a - 2.0 * p + 1.0)
            sums[1] += w * (2.0 * (b - mean * a) - 2.0 * p * deviation)
            sums[2] += w * (4.0 * squares - 2.0 * variance * a - 2.0 * p * (deviation * deviation - variance))


def _small_moment_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    m = _SmallMoments(logits, labels, weights, beta)
    q = np.exp(m.d)
    q /= q.sum(axis=1, keepdims=True)
    shared, shared_d, shared_d_d = ((part * q).sum(axis=1) for part in (m.p, m.p_d, m.p_d_d))
    columns = (
        m.a, 2.0 * (m.b - m.mean * m.a), 4.0 * m.squares - 2.0 * m.variance * m.a,
        m.p_true, m.p_true * m.deviation, m.p_true * (m.deviation * m.deviation - m.variance),
        shared, shared_d - m.mean * shared,
        shared_d_d - 2.0 * m.mean * shared_d + (m.mean * m.mean - m.variance) * shared,
    )  # fmt: skip
    for k, column in enumerate(columns):
        sums[k] += m.w @ column


@with_small(_small_moment_sums)
def _moment_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add p·p, p_y and p·q, each with its gradient and its curvature in beta; p = softmax(beta·z), q = softmax(z).

    The loop repeats that of `_brier_sums`: one loop over the classes is faster than two.
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
        d_true = max(np.float64(row[labels[i]]) - top, MASKED)
        p = exp(beta * d_true) / s0
        deviation = d_true - mean
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


@dataclass(frozen=True)
class _MomentsAtBeta:
    """The means of p·p, p of the true class and p·q at one beta, and the passes taken; q is the uncalibrated model."""

    p_squared: float
    p_true_class: float
    p_times_q: float
    passes: int


class _Moments:
    """The squared error for `fit_brier`; near the minimum the same passes also collect the moments for the weights."""

    def __init__(self, data: LabelledLogits) -> None:
        self.data = data
        self.beta = math.nan  # of the last pass over all samples
        self.at_beta: Float64 | None = None  # (p·p, p_y, p·q) × (value, gradient, curvature) at `beta`

    def __call__(self, beta: float, stride: int = 1) -> Sequence[float]:
        """Value, gradient and curvature of the squared error at `beta`."""
        is_near = abs(beta - self.beta) < NEAR * beta
        if stride > 1 or not is_near:
            if stride == 1:
                self.beta, self.at_beta = beta, None
            return brier(self.data, beta, stride)
        p_squared, p_true_class, _ = self._pass(beta)
        loss: list[float] = (p_squared - 2 * p_true_class + [1, 0, 0]).tolist()
        return loss

    def at(self, beta: float) -> _MomentsAtBeta:
        """The moments at `beta`, extrapolated from the last pass if that is near enough."""
        at_beta, step = self.at_beta, beta - self.beta
        passes = 0
        if at_beta is None or abs(step) > MAX_EXTRAPOLATION * beta:
            at_beta, step, passes = self._pass(beta), 0.0, 1
        p_squared, p_true_class, p_times_q = (at_beta @ [1, step, step * step / 2]).tolist()
        return _MomentsAtBeta(p_squared, p_true_class, p_times_q, passes)

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

    `loss` replaces :func:`brier` of `data` if a caller needs further sums from the same passes.
    """
    loss = partial(brier, data) if loss is None else loss
    lowest_beta = min_beta(t_max)
    if first.top_minus_mean < FLAT:  # all temperatures give the same probabilities, and the caller has set a cap
        return BetaMinimum(max(1.0, lowest_beta), first.brier, 0)
    try:
        best = _search(data, first, lowest_beta, max(lowest_beta, GRID_START / first.top_minus_mean), loss)
    except NoFiniteOptimum:
        if lowest_beta > 1 or first.brier >= 1 - 1 / data.n_classes:
            raise
        best = BetaMinimum(lowest_beta, math.inf, 1)
    if best.value <= first.brier + 1e-12 or lowest_beta > 1:  # 1e-12 is rounding
        return best
    # logits of very different sizes have several local minima, and beta = 1 is lower than this one: search around it
    other = _search(data, first, lowest_beta, max(lowest_beta, 2.0 ** -(GRID // 2)), loss)
    return BetaMinimum(other.beta, other.value, best.passes + other.passes)


def _search(
    data: LabelledLogits, first: FirstPass, lowest_beta: float, start: float, loss: Callable[..., Sequence[float]]
) -> BetaMinimum:
    """The minimum near the lowest point of a grid that begins at `start`; if that is an end, the grid moves.

    A subsample of a large array serves for the grid if its answer is that of all samples. Where its lowest point is an
    end of the grid, or a second minimum is almost as low, which samples are in it may decide: all are read then.
    """
    stride = data.subsample_stride
    for n_grids in range(MAX_GRIDS):
        grid = data.reduce_sum(_grid_sums, GRID, start, stride=stride)
        # the first of equal errors: the highest temperature if lower ones change nothing beyond rounding
        best = int(np.flatnonzero(grid <= grid.min() * (1 + EQUAL))[0])
        if stride > 1 and (best in (0, GRID - 1) or _has_second_minimum(grid, best, data, stride)):
            stride = 1
            continue
        if best == 0 and start > lowest_beta and not first.better_than_chance:
            raise no_better_than_chance()  # the loss rises from beta = 0 on, and no larger beta has a lower one
        if best == GRID - 1:
            start *= 2.0 ** (GRID - 2)
        elif best == 0 and start > lowest_beta:
            start = max(lowest_beta, start / 2.0 ** (GRID - 2))
        else:
            n_steps = 1 if stride == 1 else 2  # the minimum of all samples may differ from that of a subsample
            low = lowest_beta if best == 0 else max(lowest_beta, start * 2.0 ** (best - n_steps))
            high = start * 2.0 ** (best + n_steps)
            middle = start * 2.0**best
            if data.subsample_stride > 1:
                strides = (data.subsample_stride, -(-data.subsample_stride // 4))
                with contextlib.suppress(DidNotConverge):
                    for part, tolerance in zip(strides, SUBSAMPLE_TOLERANCES, strict=True):
                        subsample_loss = partial(loss, stride=part)
                        middle = minimise_in_beta(subsample_loss, middle, low, high, tolerance=tolerance).beta
            # a product of 1e-5 leaves an error of 1e-10 in beta, which the squared error cannot resolve
            minimum = minimise_in_beta(loss, middle, low, high, max_step_product=1e-5)
            n_passes = n_grids + minimum.passes + (stride == 1)  # a grid on a subsample is not a pass
            return BetaMinimum(minimum.beta, minimum.value, n_passes)
    if best == 0:
        raise no_better_than_chance()
    raise NoFiniteOptimum(
        "the best temperature by squared error is 0: a lower temperature always lowers it on these tuning samples. "
        "Tune on more samples or on perturbed ones, or use plain temperature scaling (method 'ts')."
    )


def _has_second_minimum(grid: Float64, best: int, data: LabelledLogits, stride: int) -> bool:
    """Whether the grid of a subsample has another minimum that the one of all samples may be.

    The squared error of a sample is at most 2, so the mean of n samples is off by about 2/√n at most.
    """
    grid = grid * stride / data.total_weight
    is_minimum = np.diff(np.sign(np.diff(grid)), prepend=2, append=2) > 0
    is_minimum[best] = False
    return bool((grid[is_minimum] <= grid[best] + 2 * math.sqrt(stride / data.n_samples)).any())


def _best_weights(gram: Float64, true_class: Float64) -> tuple[Float64, float]:
    """The weights w on the simplex with the least squared error w·G·w − 2w·r + 1, and that error; r is `true_class`.

    The loss is quadratic, so its minimum over the simplex is the stationary point of one of the seven faces. Small
    faces are tried first, and a later one must be lower by more than rounding. So if T = 1 makes two parts equal, the
    first one gets the weight.
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
    """The minimum of w·G·w − 2w·r on one face with Σw = 1; None if it is outside the face or not unique."""
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
