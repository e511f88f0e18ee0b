"""Isotonic regression: one curve per class (IR), one for all (IRM), and after a temperature (TS-IR)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap, Scaled
from driftcal.calibrators.export_maps.lookup import isotonic_table
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.nonparametric.kernels.isotonic_fit import apply_curves, fit_curves
from driftcal.calibrators.normalise import normalise
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.first_pass import checked_first_pass
from driftcal.calibrators.scaling.temperature import min_beta
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import softmax_kernel
from driftcal.types import Array, Float64, Logits

#: This times the score is added to IRM's curve, so that it rises strictly and keeps the order of the classes.
ADDED_SLOPE = 1e-9

_CURVES = {
    "curve_scores_": FittedArray("points"),
    "curve_values_": FittedArray("points", low=0, high=1),
    "curve_starts_": FittedArray("bounds", dtype=np.int64),
}


def check_starts(name: str, starts: Array, n_curves: int, n_points: int) -> None:
    """Raise `ValueError` unless `starts` cut the points into one non-empty part per curve.

    >>> check_starts("curve_starts_", np.array([0, 2, 5]), 2, 5)
    """
    if len(starts) != n_curves + 1 or starts[0] != 0 or starts[-1] != n_points or not (np.diff(starts) > 0).all():
        raise ValueError(f"{name} must rise from 0 to {n_points}, one step per curve; it is {starts.tolist()[:5]} …")


class IsotonicRegression(LogitCalibrator):
    """One monotone curve per class, from the softmax score of the class to its frequency, then normalised.

    The curve is the exact least-squares fit, linear between its steps and constant outside, as in scikit-learn. It can
    change the predicted class. A class without tuning labels gets probability 0. Zadrozny and Elkan 2002, section 3.3.

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
    fitted = _CURVES

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        curves, report = fit_curves(data, data.n_classes)
        self.curve_scores_, self.curve_values_, self.curve_starts_ = curves.scores, curves.values, curves.starts
        return report

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)
        apply_curves(out, self.curve_scores_, self.curve_values_, self.curve_starts_, 0.0)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """softmax(z), then a curve per class, normalised."""
        curves = isotonic_table(self.curve_scores_, self.curve_values_, self.curve_starts_)
        return ExportMap(Scaled(), curves, "normalise")

    def _check_fitted(self) -> None:
        check_starts("curve_starts_", self.curve_starts_, self.n_features_in_, len(self.curve_scores_))


class TemperatureIsotonicRegression(LogitCalibrator):
    """Isotonic regression per class on softmax(z / T), where T has the lowest squared error.

    `t_max` is as in temperature scaling. Zhang, Kailkhura and Han 2020 (Mix-n-Match), section 3.3.
    """

    keeps_accuracy = False
    fitted = {"temperature_": FittedArray(positive=True), **_CURVES}

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        first = checked_first_pass(data, self.t_max)
        best = fit_brier(data, first, self.t_max)
        self.temperature_ = float(1 / best.beta)
        curves, report = fit_curves(data, data.n_classes, 1 / self.temperature_)
        self.curve_scores_, self.curve_values_, self.curve_starts_ = curves.scores, curves.values, curves.starts
        if self.t_max is None:  # a cap may exclude the uncalibrated model
            certify("squared error", first.brier, report.after)
        return FitReport("brier", first.brier, report.after, best.passes + 1 + report.passes)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1 / self.temperature_, out)
        apply_curves(out, self.curve_scores_, self.curve_values_, self.curve_starts_, 0.0)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """softmax(z / T), then a curve per class, normalised."""
        curves = isotonic_table(self.curve_scores_, self.curve_values_, self.curve_starts_)
        return ExportMap(Scaled(1 / self.temperature_), curves, "normalise")

    def _check_fitted(self) -> None:
        check_starts("curve_starts_", self.curve_starts_, self.n_features_in_, len(self.curve_scores_))

    def _check_params(self) -> None:
        min_beta(self.t_max)


class IsotonicRegressionMulticlass(LogitCalibrator):
    """One monotone curve for all classes, which keeps the order of the classes and so the accuracy.

    The curve f is fitted to all n·C pairs (score, is the true class) at once. p becomes f(p) + 1e-9·p, normalised.
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
    fitted = _CURVES

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        curves, report = fit_curves(data, 1)
        self.curve_scores_, self.curve_values_, self.curve_starts_ = curves.scores, curves.values, curves.starts
        return report

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)
        apply_curves(out, self.curve_scores_, self.curve_values_, self.curve_starts_, ADDED_SLOPE)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """softmax(z), then one curve for all classes, normalised."""
        curves = isotonic_table(self.curve_scores_, self.curve_values_, self.curve_starts_, ADDED_SLOPE)
        return ExportMap(Scaled(), curves, "normalise")

    def _check_fitted(self) -> None:
        check_starts("curve_starts_", self.curve_starts_, 1, len(self.curve_scores_))
