"""Ensemble temperature scaling, and the temperature by squared error it rests on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport, finish
from driftcal.calibrators.scaling.temperature import (
    FLAT,
    FirstPass,
    beta_floor,
    certify,
    newton,
    no_better_than_chance,
    survey,
)
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max, softmax_kernel
from driftcal.errors import DidNotConverge, NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights

#: Neighbouring temperatures of the coarse search differ by a factor 2: then each follows from the last by squaring.
GRID = 16
#: The coarse search starts where logits differ by 1/64 on average (almost uniform) and ends where they differ by 512.
GRID_START = 2.0**-6


class EnsembleTemperatureScaling(Calibrator):
    """A blend of the scaled model, the model itself and pure doubt: w1·softmax(z/T) + w2·softmax(z) + w3/C.

    T minimises the squared error by itself: a coarse search over all sizes, since the loss is not known to be convex,
    then Newton's method. The weights on the simplex then minimise it exactly, from their 3×3 Gram matrix. Masked
    classes (-inf) take no part in w3. Zhang, Kailkhura and Han 2020 (Mix-n-Match), section 3.2.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])  # 90 % sure, right 3 times out of 4
    >>> EnsembleTemperatureScaling().fit(logits, [0, 0, 1, 1]).predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    keeps_accuracy = True
    fitted = ("temperature_", "weights_")

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        seen = survey(rows, self.t_max)
        asked = _Moments(rows)
        beta, _, passes = fit_brier(rows, seen, self.t_max, asked)
        (pp, p_own, pq), more = asked.at(beta)
        self.temperature_ = float(1 / beta)
        gram = np.array([[pp, pq, seen.doubt], [pq, seen.square, seen.doubt], [seen.doubt] * 3])
        self.weights_, after = _best_weights(gram, np.array([p_own, seen.own, seen.doubt]))
        certify("squared error", seen.brier, after)
        return FitReport("brier", seen.brier, after, passes + more + 1)

    def _map(self, logits: Logits, out: Float64) -> None:
        scaled, plain, doubt = self.weights_
        own = np.empty_like(out)
        softmax_kernel(logits, 1 / self.temperature_, out)
        softmax_kernel(logits, 1.0, own)
        out *= scaled
        out += plain * own
        out += doubt / np.isfinite(logits).sum(axis=1, keepdims=True)
        finish(logits, out)


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
            own = powers[labels[i]]
            for c in range(row.shape[0]):
                e = powers[c]
                square = e * e
                s0 += e
                q0 += square
                powers[c] = square
            sums[k] += weights[i] * (q0 / (s0 * s0) - 2.0 * own / s0 + 1.0)


@kernel
def _brier_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add the squared error, its slope and its curvature in beta.

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
        spread = q2 / (s0 * s0) - 2.0 * mean * b + mean * mean * a
        off = max(np.float64(row[labels[i]]) - top, MASKED)
        p = exp(beta * off) / s0
        off -= mean
        w = weights[i]
        if w > 0:
            sums[0] += w * (a - 2.0 * p + 1.0)
            sums[1] += w * (2.0 * (b - mean * a) - 2.0 * p * off)
            sums[2] += w * (4.0 * spread - 2.0 * variance * a - 2.0 * p * (off * off - variance))


@kernel
def _moment_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add p·p, p_y and p·q, each with its slope and its curvature in beta; p = softmax(beta·z), q = softmax(z).

    What q alone gives, the survey has.
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
        spread = q2 / (s0 * s0) - 2.0 * mean * b + mean * mean * a
        off = max(np.float64(row[labels[i]]) - top, MASKED)
        p = exp(beta * off) / s0
        off -= mean
        shared = r0 / (s0 * t)
        shared_d = r1 / (s0 * t)
        w = weights[i]
        if w > 0:
            sums[0] += w * a
            sums[1] += w * 2.0 * (b - mean * a)
            sums[2] += w * (4.0 * spread - 2.0 * variance * a)
            sums[3] += w * p
            sums[4] += w * p * off
            sums[5] += w * p * (off * off - variance)
            sums[6] += w * shared
            sums[7] += w * (shared_d - mean * shared)
            sums[8] += w * (r2 / (s0 * t) - 2.0 * mean * shared_d + (mean * mean - variance) * shared)


class _Moments:
    """The squared error as `fit_brier` asks for it; near the minimum the same passes see what the weights need."""

    def __init__(self, rows: LabelledLogits) -> None:
        self.rows = rows
        self.beta = math.nan  # where all rows were asked last
        self.found: Float64 | None = None  # (p·p, p_y, p·q) × (value, slope, curvature) there

    def __call__(self, beta: float, every: int = 1) -> Sequence[float]:
        """Value, slope and curvature of the squared error at `beta`."""
        near = abs(beta - self.beta) < 0.02 * beta
        if every > 1 or not near:
            if every == 1:
                self.beta, self.found = beta, None
            return brier(self.rows, beta, every)
        square, own, _ = self._ask(beta)
        loss: list[float] = (square - 2 * own + [1, 0, 0]).tolist()
        return loss

    def at(self, beta: float) -> tuple[list[float], int]:
        """The means of p·p, p_y and p·q at `beta`, and the passes taken.

        They are read off the last pass where that is so near that 1e-10 is left.
        """
        found, step = self.found, beta - self.beta
        if found is None or abs(step) > 5e-4 * beta:
            return self._ask(beta)[:, 0].tolist(), 1
        return (found @ [1, step, step * step / 2]).tolist(), 0

    def _ask(self, beta: float) -> Float64:
        found = (self.rows.reduce_sum(_moment_sums, 9, beta) / self.rows.weight).reshape(3, 3)
        self.beta, self.found = beta, found
        return found


def brier(rows: LabelledLogits, beta: float, every: int = 1) -> Sequence[float]:
    """The mean squared error of softmax(beta·z), its slope and its curvature."""
    return [float(part) for part in rows.reduce_sum(_brier_sums, 3, beta, every=every) / rows.weight]


def fit_brier(
    rows: LabelledLogits, seen: FirstPass, t_max: float | None, loss: Callable[..., Sequence[float]] | None = None
) -> tuple[float, float, int]:
    """beta = 1/T that minimises the squared error of softmax(beta·z), its value, and the passes taken.

    `loss` stands in for :func:`brier` of these rows where a caller wants to see more of its passes.
    """
    loss = partial(brier, rows) if loss is None else loss
    floor = beta_floor(t_max)
    if seen.spread < FLAT:  # every row is flat: all temperatures are the same, and the caller has set a cap
        return max(1.0, floor), seen.brier, 0
    try:
        beta, value, passes = _search(rows, seen, floor, max(floor, GRID_START / seen.spread), loss)
    except NoFiniteOptimum:
        if floor > 1 or seen.brier >= 1 - 1 / rows.n_classes:
            raise
        beta, value, passes = floor, math.inf, 1
    if value <= seen.brier + 1e-12 or floor > 1:
        return beta, value, passes
    # Logits of very different sizes have several valleys, and the model as it is lies deeper: look around it.
    beta, value, more = _search(rows, seen, floor, max(floor, 2.0 ** -(GRID // 2)), loss)
    return beta, value, passes + more


def _search(
    rows: LabelledLogits, seen: FirstPass, floor: float, start: float, loss: Callable[..., Sequence[float]]
) -> tuple[float, float, int]:
    """The least squared error from a grid on that begins at `start`; where the least of the grid lies at its end, it moves."""
    every = rows.preview  # of a large array some blocks show where to look; where they do not, all rows are asked
    for passes in (0, 1, 2, 3):
        grid = rows.reduce_sum(_grid_sums, GRID, start, every=every)
        best = int(np.argmin(grid))
        if every > 1 and best in (0, GRID - 1):
            every = 1
            continue
        if best == 0 and start > floor and not seen.better_than_chance:
            raise no_better_than_chance()  # the loss only rises from beta = 0, and no larger beta undercuts it
        if best == GRID - 1:
            start *= 2.0 ** (GRID - 2)
        elif best == 0 and start > floor:
            start = max(floor, start / 2.0 ** (GRID - 2))
        else:
            reach = 1 if every == 1 else 2  # all rows may have their minimum a little beside that of some
            low = floor if best == 0 else max(floor, start * 2.0 ** (best - reach))
            high = start * 2.0 ** (best + reach)

            middle = start * 2.0**best
            if rows.preview > 1:
                # First few rows, then more, so that the passes over all of them start close by.
                with contextlib.suppress(DidNotConverge):
                    for part, tolerance in ((rows.preview, 0.1), (-(-rows.preview // 4), 0.05)):
                        middle, _, _ = newton(partial(loss, every=part), middle, low, high, tolerance=tolerance)
            # What is left of a product of steps of 1e-5 is 1e-10 of beta: far less than the error shows.
            beta, value, asked = newton(loss, middle, low, high, product=1e-5)
            return beta, value, passes + asked + (every == 1)  # a preview is not a pass
    if best == 0:
        raise no_better_than_chance()
    raise NoFiniteOptimum(
        "the best temperature by squared error is 0: sharpening the tuning rows without end keeps lowering it. "
        "Tune on more rows or on perturbed ones, or use plain temperature scaling (method 'ts')."
    )


def _best_weights(gram: Float64, own: Float64) -> tuple[Float64, float]:
    """The weights w on the simplex with the least squared error w·G·w − 2w·r + 1, and that error.

    The loss is quadratic, so its minimum over the simplex is the stationary point of one of the seven faces. Faces
    come smallest first and must win by more than rounding: where T = 1 makes two parts equal, the first is kept.
    """
    best, least = np.array([1.0, 0.0, 0.0]), math.inf
    for size in (1, 2, 3):
        for face in combinations(range(3), size):
            weights = _stationary(gram, own, list(face))
            if weights is None:
                continue
            loss = float(weights @ gram @ weights - 2 * weights @ own + 1)
            if loss < least - 1e-15:
                best, least = weights, loss
    return best, least


def _stationary(gram: Float64, own: Float64, face: list[int]) -> Float64 | None:
    """Minimise w·G·w − 2w·r on one face with weights that sum to 1; None where it lies outside or is not unique."""
    first, rest = face[0], face[1:]
    weights = np.zeros(3)
    weights[first] = 1.0
    if rest:
        edges = np.zeros((len(rest), 3))  # directions along the face, away from its first corner
        edges[:, first] = -1.0
        edges[np.arange(len(rest)), rest] = 1.0
        curvature = edges @ gram @ edges.T
        slope = edges @ (own - gram @ weights)
        if np.linalg.cond(curvature) > 1e12:
            return None
        weights = weights + np.linalg.solve(curvature, slope) @ edges
    return weights if (weights >= 0).all() else None
