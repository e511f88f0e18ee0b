"""Spline calibration of the top class: a smooth curve, while isotonic regression has steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import warn_if_worse
from driftcal.calibrators.export_maps.export_map import ExportMap, TopCurve
from driftcal.calibrators.export_maps.lookup import curve_table
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.nonparametric.kernels.tied_scores import begins_log_odds_group
from driftcal.calibrators.parameters import check_whole
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exact, exp, kernel, row_argmax
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Points of the stored curve, which is straight between them. The error is far below that of the samples.
N_POINTS = 1_024
#: The top class stays more likely than the second by at least this share.
MIN_LEAD = 1e-6
#: A penalty towards a straight line (one accuracy for all), for knots that the samples do not determine.
RIDGE = 1e-9
#: The limits of the confidence count at most this many samples: with more, 1 − 1/(n + 2) would round to 1.
MAX_COUNT = 1e15


class SplineCalibration(LogitCalibrator):
    """The accuracy of the top class as the derivative of a spline; other classes share the rest in proportion.

    Tuning samples are ordered by the confidence of their top class. h(t) is the weight of correct predictions among the
    first share t of all samples. A natural cubic spline on `n_knots` even knots with h(0) = 0 is fitted to it by least
    squares. Its derivative at the position of a sample is the new confidence. The log-odds of the top class give the
    position, so that scores that round to 1 still differ.

    The predicted class stays the same: the confidence of the top class is raised until it is just above the second. The
    confidence is between 1/(n + 2) and (n + 1)/(n + 2), where n is the sum of the weights, so that the likelihood stays
    finite. Gupta et al. 2021 (Calibration of neural networks using splines), section 4.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.uniform(0.5, 1, 4000)
    >>> y = np.where(rng.random(4000) < 0.25 + confidence / 2, 0, 1)  # over-confident
    >>> spline = SplineCalibration().fit(np.log(np.stack([confidence, 1 - confidence], axis=1)), y)
    >>> spline.predict_proba(np.log([[0.9, 0.1]]))[0].round(1)
    array([0.7, 0.3])
    """

    keeps_accuracy = True
    uses_sample_count = True
    fitted = {"spline_scores_": FittedArray("points"), "spline_values_": FittedArray("points", low=0, high=1)}

    def __init__(self, *, n_knots: int = 6, classes: Sequence[Any] | None = None) -> None:
        self.n_knots = n_knots
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        tops = _distinct_scores(data.map_samples(_top_class, 3))
        weights, cumulative = tops.weights, np.cumsum(tops.weights)
        total = cumulative[-1]
        share_correct = np.cumsum(tops.correct) / total
        knots = np.linspace(0, 1, int(self.n_knots))
        values, _ = natural_spline(knots, cumulative / total)
        line = share_correct[-1] * knots[1:]
        basis = values[:, 1:]  # the first knot is fixed at 0
        shares = weights / total
        gram = basis.T @ (basis * shares[:, None]) + RIDGE * np.eye(len(line))
        heights = np.append(0.0, np.linalg.solve(gram, basis.T @ (shares * share_correct) + RIDGE * line))
        positions = (cumulative - weights / 2) / total  # equal scores are in the middle of their share
        kept = np.unique(np.searchsorted(positions, np.linspace(positions[0], positions[-1], N_POINTS)))
        least = 1 / (min(data.effective_n_samples, MAX_COUNT) + 2)
        accuracy = natural_spline(knots, positions[kept])[1] @ heights
        self.spline_scores_ = tops.scores[kept]
        self.spline_values_ = np.clip(accuracy, least, 1 - least)
        before, after = data.reduce_sum(_top_brier, 2, self.spline_scores_, self.spline_values_) / data.total_weight
        loss = "squared error of the top class"
        warnings = warn_if_worse(loss, float(before), float(after))
        return FitReport(loss, float(before), float(after), 2, warnings=warnings)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        _spline_kernel(logits, self.spline_scores_, self.spline_values_, out)

    def export_map(self) -> ExportMap:
        """A curve for the top class' log-odds; the others share the rest."""
        points = self.spline_scores_
        return ExportMap(TopCurve(curve_table(points, self.spline_values_, np.array([0, len(points)]))))

    def _check_params(self) -> None:
        check_whole("n_knots", self.n_knots, 2, 6)


def natural_spline(knots: Float64, at: Float64) -> tuple[Float64, Float64]:
    """Values and derivatives at `at` of the natural cubic splines that are 1 at one knot and 0 at the others.

    The knots are evenly spaced.

    >>> values, derivatives = natural_spline(np.array([0.0, 0.5, 1.0]), np.array([0.5, 0.75]))
    >>> bool(np.allclose(values @ [1, 2, 3], [2, 2.5])), bool(np.allclose(derivatives @ [1, 2, 3], 2))
    (True, True)
    """
    n, h = len(knots), knots[1] - knots[0]
    curvatures = np.zeros((n, n))  # second derivatives at the knots, 0 at both ends
    if n > 2:
        system = (np.diag(np.full(n - 2, 4.0)) + np.diag(np.ones(n - 3), 1) + np.diag(np.ones(n - 3), -1)) * h / 6
        second = (np.eye(n - 2, n) - 2 * np.eye(n - 2, n, 1) + np.eye(n - 2, n, 2)) / h
        curvatures[1:-1] = np.linalg.solve(system, second)
    k = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, n - 2)
    b = ((at - knots[k]) / h)[:, None]
    a, at_knots = 1 - b, np.eye(n)
    cubic = (a**3 - a) * curvatures[k] + (b**3 - b) * curvatures[k + 1]
    values = a * at_knots[k] + b * at_knots[k + 1] + cubic * h * h / 6
    cubic_derivative = (3 * b**2 - 1) * curvatures[k + 1] - (3 * a**2 - 1) * curvatures[k]
    return values, (at_knots[k + 1] - at_knots[k]) / h + cubic_derivative * h / 6


@dataclass(frozen=True, eq=False)
class _DistinctScores:
    """The distinct scores of top classes in order, the weight of the correct samples of each, and its whole weight."""

    scores: Float64
    correct: Float64
    weights: Float64


def _distinct_scores(table: Float64) -> _DistinctScores:
    """Merge the scores of a table that are equal up to rounding; its columns are score, correct and weight."""
    score, correct, weight = table[table[:, 2] > 0].T
    order = np.argsort(score, kind="stable")
    score, correct, weight = score[order], correct[order], weight[order]
    first = np.flatnonzero(begins_log_odds_group(score))
    return _DistinctScores(
        score[first], correct=np.add.reduceat(correct * weight, first), weights=np.add.reduceat(weight, first)
    )


@exact
def _others(row: Any, powers: Float64) -> tuple[int, float, float]:
    """The top class, the sum of the other exponentials relative to the second class, and the log-odds of the top class.

    The exponentials are left in `powers`. Relative to the second class they do not underflow, so the other classes keep
    their proportions. If all other classes are masked, the sum is 0.
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
def _top_class(logits: Logits, labels: Labels, weights: Weights, out: Float64) -> None:
    """Write the log-odds of the top class, whether it is the true class, and the weight."""
    scratch = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        best, _, odds = _others(logits[i], scratch)
        out[i, 0] = odds
        out[i, 1] = 1.0 if best == labels[i] else 0.0
        out[i, 2] = weights[i]


@kernel
def _curve(odds: float, scores: Array, values: Array) -> float:
    """The curve at `odds`: straight between its points, constant outside."""
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
    """The new confidence of the top class, high enough to stay above the second class, whose exponential is 1."""
    return max(_curve(odds, scores, values), (1.0 + MIN_LEAD) / (1.0 + MIN_LEAD + total)) if total > 0 else 1.0


@kernel
def _spline_kernel(logits: Logits, scores: Array, values: Array, out: Float64) -> None:
    """Give the top class its new confidence; the other classes share the rest in their old proportions."""
    for i in range(logits.shape[0]):
        row = out[i]
        best, total, odds = _others(logits[i], row)
        top = _confidence(total, odds, scores, values)
        for c in range(row.shape[0]):
            row[c] = min(row[c] / max(total, 1.0) * (1.0 - top), top)
        row[best] = top
