"""Isotonic regression: one curve per class (IR), one for all (IRM), and after a temperature (TS-IR)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.calibrators.base import Calibrator, FitReport, finish
from driftcal.calibrators.nonparametric.kernels.isotonic_fit import apply_curves, fit_curves
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.temperature import certify, survey
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import softmax_kernel
from driftcal.types import Float64, Logits

#: Added to IRM's curve times the score, so that it rises strictly and keeps the order of the classes.
STRICT = 1e-9


class IsotonicRegression(Calibrator):
    """One monotone curve per class, from the class' softmax score to how often it was right; rows are normalised.

    The curve is the exact least-squares fit, linear between its steps and flat outside as scikit-learn's, and can
    change which class is on top. A class without tuning labels gets probability 0.
    Zadrozny and Elkan 2002, section 3.3.

    >>> import numpy as np
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    >>> ir = IsotonicRegression().fit(np.log(p), [0, 1, 0, 1])
    >>> ir.predict_proba(np.log(p)).round(3)
    array([[1. , 0. ],
           [0.5, 0.5],
           [0.5, 0.5],
           [0. , 1. ]])
    """

    keeps_accuracy = False
    fitted = ("curve_scores_", "curve_values_", "curve_starts_")

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        curves, report = fit_curves(rows, rows.n_classes)
        self.curve_scores_, self.curve_values_, self.curve_starts_ = curves
        return report

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)
        apply_curves(out, self.curve_scores_, self.curve_values_, self.curve_starts_, 0.0)
        finish(logits, out)


class TemperatureIsotonicRegression(Calibrator):
    """Isotonic regression per class on softmax(z / T), with T by squared error.

    Zhang, Kailkhura and Han 2020 (Mix-n-Match), section 3.3; `t_max` as in temperature scaling.
    """

    keeps_accuracy = False
    fitted = ("temperature_", "curve_scores_", "curve_values_", "curve_starts_")

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        seen = survey(rows, self.t_max)
        beta, _, passes = fit_brier(rows, seen, self.t_max)
        self.temperature_ = float(1 / beta)
        curves, report = fit_curves(rows, rows.n_classes, 1 / self.temperature_)
        self.curve_scores_, self.curve_values_, self.curve_starts_ = curves
        certify("squared error", seen.brier, report.after, bound=self.t_max is None)
        return FitReport("brier", seen.brier, report.after, passes + 1 + report.passes)

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1 / self.temperature_, out)
        apply_curves(out, self.curve_scores_, self.curve_values_, self.curve_starts_, 0.0)
        finish(logits, out)


class IsotonicRegressionMulticlass(Calibrator):
    """One monotone curve for all classes, which keeps the order of the classes and so the accuracy.

    The curve f is fitted to all n·C pairs (score, is the true class) at once; a row becomes f(p) + 1e-9·p, normalised.
    Zhang, Kailkhura and Han 2020 (Mix-n-Match), section 3.3.

    >>> import numpy as np
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    >>> irm = IsotonicRegressionMulticlass().fit(np.log(p), [0, 1, 0, 1])
    >>> irm.predict_proba(np.log(p)).round(3)
    array([[1.   , 0.   ],
           [0.667, 0.333],
           [0.667, 0.333],
           [0.333, 0.667]])
    """

    keeps_accuracy = True
    fitted = ("curve_scores_", "curve_values_", "curve_starts_")

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        curves, report = fit_curves(rows, 1)
        self.curve_scores_, self.curve_values_, self.curve_starts_ = curves
        return report

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)
        apply_curves(out, self.curve_scores_, self.curve_values_, self.curve_starts_, STRICT)
        finish(logits, out)
