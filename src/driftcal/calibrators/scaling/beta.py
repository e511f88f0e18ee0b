"""Beta calibration, one against rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import BetaCurves, ExportMap, Sigmoids
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.normalise import normalise
from driftcal.calibrators.parameters import check_positive
from driftcal.calibrators.per_class import LOG_ODDS, ClassScores, for_each_class
from driftcal.calibrators.scaling.platt import sigmoid
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log_odds_row
from driftcal.core.optimize import minimise_newton
from driftcal.types import Float64, Labels, Logits, Weights

#: The curve that changes nothing.
IDENTITY = np.array([1.0, 1.0, 0.0])
#: The candidates for s, the value of a and b that the penalty is centred at.
SCALES: Float64 = 2.0 ** np.arange(-8.0, 2.0)
#: (a, b, c) = matrix @ parameters: three parameters, or two where a = b.
_FREE, _TIED = np.eye(3), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])


class BetaCalibration(LogitCalibrator):
    """A beta curve per class against the rest: σ(a·ln p − b·ln(1 − p) + c) with a, b ≥ 0, normalised.

    a, b and c minimise the negative log-likelihood of "is the class" plus (`decay`/n)·((a − s)² + (b − s)² + c²). This
    prior has the weight of about one sample. It matters for a class without samples, or if a threshold separates the
    samples of a class. s is the power of two with the lowest loss as a = b = s for all classes. n is the sum of the
    weights.

    Unlike Platt's, the curve can be steep or flat at 0 and at 1 independently, and can be the identity. A coefficient
    that would be negative is 0. A class with fewer than `tied_below` samples gets a = b, because few samples cannot
    distinguish them (the authors' family "am"). Kull, Silva Filho and Flach 2017 (Beta calibration), section 4.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1]] * 4 + [[0.6, 0.4]] * 4)
    >>> BetaCalibration(decay=1e-6).fit(logits, [0, 0, 0, 1, 0, 0, 1, 1]).predict_proba(logits[[0, 4]]).round(3)
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """

    keeps_accuracy = False
    uses_sample_count = True
    fitted = {"curves_": FittedArray("classes", 3)}

    def __init__(self, *, decay: float = 1.0, tied_below: float = 100, classes: Sequence[Any] | None = None) -> None:
        self.decay = decay
        self.tied_below = tied_below
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        penalty = self.decay / data.effective_n_samples
        is_tied = data.class_weights * (data.effective_n_samples / data.total_weight) < self.tied_below
        scale_losses, passes = for_each_class(data, LOG_ODDS, _scale_losses)
        centre = SCALES[int(np.argmin(np.sum(scale_losses, axis=0)))] * IDENTITY

        def fit(column: ClassScores) -> _Curve:
            return _fit_curve(column, penalty, data.total_weight, _TIED if is_tied[column.column] else _FREE, centre)

        curves, fit_passes = for_each_class(data, LOG_ODDS, fit)
        self.curves_ = np.array([curve.abc for curve in curves])
        before = math.fsum(curve.before for curve in curves)
        after = math.fsum(curve.after for curve in curves)
        certify("negative log-likelihood", before, after)
        return FitReport("nll one against rest, summed over classes", before, after, passes + fit_passes)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        _beta_kernel(logits, self.curves_, out)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """σ(a·ln p − b·ln(1 − p) + c) per class, normalised; with a = b everywhere it is Platt scaling."""
        a, b, c = (column.copy() for column in self.curves_.T)
        return ExportMap(Sigmoids(a, c) if (a == b).all() else BetaCurves(a, b, c), last_step="normalise")

    def _check_params(self) -> None:
        check_positive("decay", self.decay, 1.0)
        check_positive("tied_below", self.tied_below, 100)


@dataclass(frozen=True)
class _Curve:
    """a, b and c of one class, and its loss before and after."""

    abc: Float64
    before: float
    after: float


def _scale_losses(column: ClassScores) -> Float64:
    """The loss of one class for each of SCALES."""
    return _scale_sums(column.scores, column.labels, column.weights, column.column, SCALES)


def _fit_curve(column: ClassScores, penalty: float, weight: float, basis: Float64, centre: Float64) -> _Curve:
    """Fit a, b and c of one class, (a, b, c) = `basis` @ parameters, with a penalty on their deviation from `centre`.

    Coefficients that would be negative are fixed at 0.
    """

    def sums(curve: Float64) -> Float64:
        return _curve_sums(column.scores, column.labels, column.weights, column.column, curve) / weight

    while True:

        def loss(x: Float64, basis: Float64 = basis) -> tuple[float, Float64, Float64]:
            curve = basis @ x
            (value, ga, gb, gc, aa, ab, ac, bb, bc, cc), deviation = sums(curve), curve - centre
            curvature = np.array([[aa, ab, ac], [ab, bb, bc], [ac, bc, cc]])
            curvature += 2 * penalty * np.eye(3)
            gradient = np.array([ga, gb, gc]) + 2 * penalty * deviation
            return float(value + penalty * deviation @ deviation), basis.T @ gradient, basis.T @ curvature @ basis

        start = np.append(np.full(basis.shape[1] - 1, centre[0]), 0.0)
        best = minimise_newton(loss, start, f"beta calibration of class number {column.column}").x
        if (best[:-1] >= 0).all():
            curve = basis @ best
            return _Curve(curve, float(sums(IDENTITY)[0]), float(sums(curve)[0]))
        basis = np.delete(basis, np.argmin(best[:-1]), axis=1)


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
        if abs(x[i]) >= -MASKED:  # the class is masked or the only one: its curve is not used
            continue
        signed = -x[i] if labels[i] == c else x[i]
        for k in range(scales.shape[0]):
            m = scales[k] * signed
            sums[k] += weights[i] * (max(m, 0.0) + math.log1p(exp(max(-abs(m), MASKED))))
    return sums


@kernel
def _curve_sums(x: Float64, labels: Labels, weights: Weights, c: int, curve: Float64) -> Float64:
    """The negative log-likelihood, its gradient in a, b and c, and its curvatures aa, ab, ac, bb, bc, cc."""
    sums = np.zeros(10)
    for i in range(x.shape[0]):
        if abs(x[i]) >= -MASKED:  # the class is masked or the only one: its curve is not used
            continue
        w = weights[i]
        u, v = _logs(x[i])
        m = curve[0] * u + curve[1] * v + curve[2]
        e = exp(max(-abs(m), MASKED))
        share = 1.0 / (1.0 + e)
        hit = 1.0 if labels[i] == c else 0.0
        residual = w * ((share if m >= 0 else e * share) - hit)
        curvature = w * e * share * share
        # max(m, 0) − hit·m would have no digits left for a confident and correct sample
        sums[0] += w * (max(-m if hit > 0 else m, 0.0) + math.log1p(e))
        sums[1] += residual * u
        sums[2] += residual * v
        sums[3] += residual
        sums[4] += curvature * u * u
        sums[5] += curvature * u * v
        sums[6] += curvature * u
        sums[7] += curvature * v * v
        sums[8] += curvature * v
        sums[9] += curvature
    return sums


@kernel
def _beta_kernel(logits: Logits, curves: Float64, out: Float64) -> None:
    """Write σ(a·ln p − b·ln(1 − p) + c) for every class, not yet normalised."""
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
