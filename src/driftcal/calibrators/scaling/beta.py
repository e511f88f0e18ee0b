"""Beta calibration, one against rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport, finish
from driftcal.calibrators.kernels.class_columns import LOG_ODDS, Column, for_each_column
from driftcal.calibrators.scaling.platt import sigmoid
from driftcal.calibrators.scaling.temperature import certify
from driftcal.calibrators.scaling.vector import positive
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log_odds_row
from driftcal.core.optimize import descend
from driftcal.types import Float64, Labels, Logits, Weights

#: The curve of a model that is right as it is.
AS_IT_IS = np.array([1.0, 1.0, 0.0])
#: One of them, as a and b of all classes, is what curves are pulled to.
SCALES: Float64 = 2.0 ** np.arange(-8.0, 2.0)
#: a, b and c from the numbers that are sought: three, or two where a = b.
_FREE, _TIED = np.eye(3), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


class BetaCalibration(Calibrator):
    """A beta curve per class against the rest: σ(a·ln p − b·ln(1 − p) + c) with a, b ≥ 0, normalised.

    a, b and c minimise the negative log-likelihood of "is the class" plus (`decay`/n)·((a − s)² + (b − s)² + c²): a prior
    worth about a row, which decides where a threshold separates a class' rows or there are none. s, a power of two, is what
    suits all classes best as their only number.
    Unlike Platt's, the curve can bend both ways at 0 and at 1 and can be the identity. A coefficient that would be
    negative is 0. A class that has fewer than `tied_below` rows of its own gets a = b, which few rows cannot tell apart
    (the authors' family "am"). Weights count rows: n is their sum. Kull, Silva Filho and Flach 2017 (Beta calibration),
    section 4.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 4)
    >>> BetaCalibration(decay=1e-6).fit(logits, [0, 0, 0, 1, 0, 0, 1, 1]).predict_proba(logits[[0, 4]]).round(3)
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """

    keeps_accuracy = False
    counts_rows = True
    fitted = ("curves_",)

    def __init__(self, *, decay: float = 1.0, tied_below: float = 100, classes: Sequence[Any] | None = None) -> None:
        self.decay = decay
        self.tied_below = tied_below
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        pull = positive(self.decay, "decay", 1.0) / rows.count
        few = rows.class_weights * (rows.count / rows.weight) < positive(self.tied_below, "tied_below", 100)
        tried, passes = for_each_column(rows, LOG_ODDS, _scale_losses)
        centre = SCALES[int(np.argmin(np.sum(tried, axis=0)))] * AS_IT_IS

        def fit(column: Column) -> _Curve:
            return _fit_curve(column, pull, rows.weight, _TIED if few[column.number] else _FREE, centre)

        found, more = for_each_column(rows, LOG_ODDS, fit)
        self.curves_ = np.array([curve.numbers for curve in found])
        before, after = (math.fsum(getattr(curve, name) for curve in found) for name in ("before", "after"))
        certify("negative log-likelihood", before, after)
        return FitReport("nll one against rest, summed over classes", before, after, passes + more)

    def _map(self, logits: Logits, out: Float64) -> None:
        _beta_kernel(logits, self.curves_, out)
        finish(logits, out)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"curves_": (self.n_features_in_, 3)}


@dataclass(frozen=True)
class _Curve:
    numbers: Float64
    before: float
    after: float


def _scale_losses(column: Column) -> Float64:
    """The loss of one class for each of SCALES."""
    return _scale_sums(column.scores, column.labels, column.weights, column.number, SCALES)


def _fit_curve(column: Column, pull: float, weight: float, basis: Float64, centre: Float64) -> _Curve:
    """a, b and c of one class, `basis` @ what is sought, pulled to `centre`; coefficients that would be negative are held at 0."""

    def sums(curve: Float64) -> Float64:
        return _curve_sums(column.scores, column.labels, column.weights, column.number, curve) / weight

    while True:

        def surface(part: Float64, basis: Float64 = basis) -> tuple[float, Float64, Float64]:
            curve = basis @ part
            found, away = sums(curve), curve - centre
            bend = np.array(
                [[found[4], found[5], found[6]], [found[5], found[7], found[8]], [found[6], found[8], found[9]]]
            )
            bend += 2 * pull * np.eye(3)
            slope = found[1:4] + 2 * pull * away
            return float(found[0] + pull * away @ away), basis.T @ slope, basis.T @ bend @ basis

        start = np.append(np.full(basis.shape[1] - 1, centre[0]), 0.0)
        part, _, _ = descend(surface, start, f"beta calibration of class number {column.number}")
        if (part[:-1] >= 0).all():
            curve = basis @ part
            return _Curve(curve, float(sums(AS_IT_IS)[0]), float(sums(curve)[0]))
        basis = np.delete(basis, np.argmin(part[:-1]), axis=1)


@kernel
def _logs(x: float) -> tuple[float, float]:
    """ln p and −ln(1 − p) from the log-odds x."""
    small = math.log1p(exp(max(-abs(x), MASKED)))
    return (-small, x + small) if x >= 0 else (x - small, small)


@kernel
def _scale_sums(x: Float64, labels: Labels, weights: Weights, c: int, scales: Float64) -> Float64:
    """The negative log-likelihood of σ(scale·x) for each scale."""
    sums = np.zeros(scales.shape[0])
    for i in range(x.shape[0]):
        if abs(x[i]) >= -MASKED:  # masked, or the only class: not a curve's business
            continue
        against = -x[i] if labels[i] == c else x[i]
        for k in range(scales.shape[0]):
            m = scales[k] * against
            sums[k] += weights[i] * (max(m, 0.0) + math.log1p(exp(max(-abs(m), MASKED))))
    return sums


@kernel
def _curve_sums(x: Float64, labels: Labels, weights: Weights, c: int, curve: Float64) -> Float64:
    """The negative log-likelihood, its three slopes, and its curvatures aa, ab, ac, bb, bc, cc."""
    sums = np.zeros(10)
    for i in range(x.shape[0]):
        if abs(x[i]) >= -MASKED:  # masked, or the only class: not this curve's business
            continue
        w = weights[i]
        u, v = _logs(x[i])
        m = curve[0] * u + curve[1] * v + curve[2]
        e = exp(max(-abs(m), MASKED))
        share = 1.0 / (1.0 + e)
        hit = 1.0 if labels[i] == c else 0.0
        off = w * ((share if m >= 0 else e * share) - hit)
        bend = w * e * share * share
        # not max(m, 0) − hit·m, where a sure and right row would lose all its digits
        sums[0] += w * (max(-m if hit > 0 else m, 0.0) + math.log1p(e))
        sums[1] += off * u
        sums[2] += off * v
        sums[3] += off
        sums[4] += bend * u * u
        sums[5] += bend * u * v
        sums[6] += bend * u
        sums[7] += bend * v * v
        sums[8] += bend * v
        sums[9] += bend
    return sums


@kernel
def _beta_kernel(logits: Logits, curves: Float64, out: Float64) -> None:
    """Write σ(a·ln p − b·ln(1 − p) + c) for every class; rows are not normalised yet."""
    for i in range(logits.shape[0]):
        x = out[i]
        log_odds_row(logits[i], x)
        for c in range(x.shape[0]):
            if x[c] >= -MASKED:
                x[c] = 1.0
            elif x[c] <= MASKED:
                x[c] = 0.0
            else:
                u, v = _logs(x[c])
                x[c] = sigmoid(curves[c, 0] * u + curves[c, 1] * v + curves[c, 2])
