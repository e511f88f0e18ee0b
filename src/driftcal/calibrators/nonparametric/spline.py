"""Spline calibration of the top class: a smooth curve where isotonic regression has steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exact, exp, kernel, row_argmax
from driftcal.errors import InputError
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Points kept of the curve. Between neighbours it is a straight line in log-odds: far closer than the rows can tell.
POINTS = 1_024
#: By this share the top class stays more likely than the second, however little the curve gives it.
AHEAD = 1e-6
#: Pulls the spline to a straight line, one accuracy for all, where rows do not tell its knots apart.
RIDGE = 1e-9


class SplineCalibration(Calibrator):
    """How often the top class is right, as the slope of a smooth curve; the other classes share the rest as before.

    Tuning rows are ordered by their top class' confidence. h(t), the weight of right answers among the first share t of
    all rows, is fitted by least squares with a natural cubic spline on `n_knots` even knots and h(0) = 0; its slope at a
    row's place is the new confidence. Places are found by the log-odds of the top class, so that scores which round to 1
    still differ. The answer stays the same: a confidence too low for the top class is raised until it is just ahead of the
    second. It is kept between 1/(n + 2) and (n + 1)/(n + 2), so that no mistake costs an infinite likelihood. Weights count
    rows: n is their sum. Gupta et al. 2021 (Calibration of neural networks using splines), section 4.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sure = rng.uniform(0.5, 1, 4000)
    >>> y = np.where(rng.random(4000) < 0.25 + sure / 2, 0, 1)  # right less often than it says
    >>> spline = SplineCalibration().fit(np.log(np.stack([sure, 1 - sure], axis=1)), y)
    >>> spline.predict_proba(np.log([[0.9, 0.1]]))[0].round(1)
    array([0.7, 0.3])
    """

    keeps_accuracy = True
    counts_rows = True
    fitted = ("spline_scores_", "spline_values_")

    def __init__(self, *, n_knots: int = 6, classes: Sequence[Any] | None = None) -> None:
        self.n_knots = n_knots
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        if isinstance(self.n_knots, bool) or not isinstance(self.n_knots, (int, np.integer)) or self.n_knots < 2:
            raise InputError(f"n_knots must be a whole number of at least 2; it is {self.n_knots!r}. The default is 6.")
        scores, right, weights = _merged(rows.map_samples(_top_rows, 3))
        end = np.cumsum(weights)
        place = end / end[-1]
        reached = np.cumsum(right) / end[-1]
        knots = np.linspace(0, 1, int(self.n_knots))
        values, _ = natural_spline(knots, place)
        line = reached[-1] * knots[1:]
        basis = values[:, 1:]  # the first knot is held at 0
        share = weights / end[-1]
        gram = basis.T @ (basis * share[:, None]) + RIDGE * np.eye(len(line))
        heights = np.append(0.0, np.linalg.solve(gram, basis.T @ (share * reached) + RIDGE * line))
        middle = (end - weights / 2) / end[-1]  # rows with the same score stand in the middle of their share
        kept = np.unique(np.searchsorted(middle, np.linspace(middle[0], middle[-1], POINTS)))
        least = 1 / (min(rows.count, 1e15) + 2)
        slope = natural_spline(knots, middle[kept])[1] @ heights
        self.spline_scores_ = scores[kept]
        self.spline_values_ = np.clip(slope, least, 1 - least)
        before, after = rows.reduce_sum(_top_brier, 2, self.spline_scores_, self.spline_values_) / rows.weight
        return FitReport("squared error of the top class", float(before), float(after), 2)

    def _map(self, logits: Logits, out: Float64) -> None:
        _spline_kernel(logits, self.spline_scores_, self.spline_values_, out)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("spline_scores_", "spline_values_"), (len(np.atleast_1d(self.spline_scores_)),))


def natural_spline(knots: Float64, at: Float64) -> tuple[Float64, Float64]:
    """The values and slopes at `at` of the natural cubic splines that are 1 at one of the even `knots` and 0 at the others.

    >>> values, slopes = natural_spline(np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.75]))
    >>> bool(np.allclose(values @ [1, 2, 3], [2, 2.5])), bool(np.allclose(slopes @ [1, 2, 3], 2))
    (True, True)
    """
    n, h = len(knots), knots[1] - knots[0]
    bends = np.zeros((n, n))  # second derivatives at the knots, 0 at both ends
    if n > 2:
        system = (np.diag(np.full(n - 2, 4.0)) + np.diag(np.ones(n - 3), 1) + np.diag(np.ones(n - 3), -1)) * h / 6
        second = (np.eye(n - 2, n) - 2 * np.eye(n - 2, n, 1) + np.eye(n - 2, n, 2)) / h
        bends[1:-1] = np.linalg.solve(system, second)
    k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, n - 2)
    b = ((at - knots[k]) / h)[:, None]
    a, one = 1 - b, np.eye(n)
    values = a * one[k] + b * one[k + 1] + ((a**3 - a) * bends[k] + (b**3 - b) * bends[k + 1]) * h * h / 6
    slopes = (one[k + 1] - one[k]) / h + ((3 * b**2 - 1) * bends[k + 1] - (3 * a**2 - 1) * bends[k]) * h / 6
    return values, slopes


def _merged(table: Float64) -> tuple[Float64, Float64, Float64]:
    """Distinct scores in order, with the weight of right answers and all weight of each."""
    table = table[table[:, 2] > 0]
    scores, where = np.unique(table[:, 0], return_inverse=True)
    right: Float64 = np.bincount(where, table[:, 1] * table[:, 2], len(scores)).astype(float)
    weights: Float64 = np.bincount(where, table[:, 2], len(scores)).astype(float)
    return scores, right, weights


@exact
def _others(row: Any, powers: Float64) -> tuple[int, float, float]:
    """The top class, the others' sum of exponentials relative to the second, and the top's log-odds.

    Leaves the exponentials in `powers`: however far below the top, the others keep their proportions. A class that is
    alone has a sum of 0.
    """
    best = row_argmax(row)
    second = -np.inf
    for c in range(row.shape[0]):
        if c != best:
            second = max(second, np.float64(row[c]))
    if second == -np.inf:
        powers[:] = 0.0
        return best, 0.0, -MASKED
    for c in range(row.shape[0]):
        powers[c] = exp(min(max(np.float64(row[c]) - second, MASKED), 0.0))
    powers[best] = 0.0
    total = 0.0
    for c in range(row.shape[0]):
        total += powers[c]
    return best, total, (np.float64(row[best]) - second) - math.log(total)


@kernel
def _top_rows(logits: Logits, labels: Labels, weights: Weights, out: Float64) -> None:
    """The log-odds of the top class, whether it is the true one, and the weight."""
    scratch = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        best, _, odds = _others(logits[i], scratch)
        out[i, 0] = odds
        out[i, 1] = 1.0 if best == labels[i] else 0.0
        out[i, 2] = weights[i]


@kernel
def _curve(odds: float, scores: Array, values: Array) -> float:
    """The curve at `odds`: straight between its points, flat outside."""
    n = scores.shape[0]
    if odds <= scores[0]:
        return float(values[0])
    if odds >= scores[n - 1]:
        return float(values[n - 1])
    k = np.searchsorted(scores, odds)
    share = (odds - scores[k - 1]) / (scores[k] - scores[k - 1])
    return float(values[k - 1] + share * (values[k] - values[k - 1]))


@kernel
def _top_brier(logits: Logits, labels: Labels, weights: Weights, sums: Float64, scores: Array, values: Array) -> None:
    """Add the squared error of the top class' confidence, before and after."""
    scratch = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        best, total, odds = _others(logits[i], scratch)
        hit = 1.0 if best == labels[i] else 0.0
        sums[0] += weights[i] * (1.0 / (1.0 + exp(max(-odds, MASKED))) - hit) ** 2
        sums[1] += weights[i] * (_confidence(total, odds, scores, values) - hit) ** 2


@kernel
def _confidence(total: float, odds: float, scores: Array, values: Array) -> float:
    """The new confidence of the top class, no less than what keeps it ahead of the second, whose exponential is 1."""
    return max(_curve(odds, scores, values), (1.0 + AHEAD) / (1.0 + AHEAD + total)) if total > 0 else 1.0


@kernel
def _spline_kernel(logits: Logits, scores: Array, values: Array, out: Float64) -> None:
    """The top class gets its new confidence, the others share what is left in their old proportions."""
    for i in range(logits.shape[0]):
        row = out[i]
        best, total, odds = _others(logits[i], row)
        top = _confidence(total, odds, scores, values)
        for c in range(row.shape[0]):
            row[c] = min(row[c] / max(total, 1.0) * (1.0 - top), top)
        row[best] = top
