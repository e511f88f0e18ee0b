"""How honest a classifier's confidence is: additive statistics, the errors read from them, bootstrap intervals.

``METRICS`` names every metric that gives one number; :func:`evaluate` gives them all at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from driftcal.metrics.bootstrap import Interval
from driftcal.metrics.diagram import Reliability, draw_reliability, plot_reliability, prepare_reliability
from driftcal.metrics.evaluation import Evaluation, difference, evaluate, evaluate_probabilities
from driftcal.metrics.functions import (
    accuracy,
    area_under_risk_coverage,
    brier_decomposition,
    brier_score,
    classwise_calibration_error,
    debiased_calibration_error,
    ece_floor,
    equal_mass_calibration_error,
    error_auroc,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
    predictive_entropy,
    signed_gap,
    smooth_calibration_error,
    sweep_calibration_error,
)
from driftcal.metrics.scores import Scores
from driftcal.metrics.statistics import BrierDecomposition, Statistics

#: name in :class:`Evaluation` -> function of (y_true, probabilities, *, sample_weight) that gives the same number
METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "nll": negative_log_likelihood,
    "brier": brier_score,
    "entropy": predictive_entropy,
    "gap": signed_gap,
    "ece": expected_calibration_error,
    "mce": maximum_calibration_error,
    "equal_mass_ece": equal_mass_calibration_error,
    "sweep_ece": sweep_calibration_error,
    "debiased_ece": debiased_calibration_error,
    "smooth_ece": smooth_calibration_error,
    "ks": ks_calibration_error,
    "aurc": area_under_risk_coverage,
    "error_auroc": error_auroc,
    "classwise_ece": classwise_calibration_error,
    "marginal_debiased_ece": partial(debiased_calibration_error, kind="marginal"),
}

__all__ = [
    "METRICS",
    "BrierDecomposition",
    "Evaluation",
    "Interval",
    "Reliability",
    "Scores",
    "Statistics",
    "accuracy",
    "area_under_risk_coverage",
    "brier_decomposition",
    "brier_score",
    "classwise_calibration_error",
    "debiased_calibration_error",
    "difference",
    "draw_reliability",
    "ece_floor",
    "equal_mass_calibration_error",
    "error_auroc",
    "evaluate",
    "evaluate_probabilities",
    "expected_calibration_error",
    "ks_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "plot_reliability",
    "predictive_entropy",
    "prepare_reliability",
    "signed_gap",
    "smooth_calibration_error",
    "sweep_calibration_error",
]
