"""Calibration metrics: additive statistics, the errors computed from them, bootstrap intervals, reliability data.

The order of arguments is ``(y_true, scores)``. ``METRICS`` lists every metric that is one number. :func:`evaluate`
computes all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from driftcal.metrics.additive_statistics import BrierDecomposition, Statistics
from driftcal.metrics.calibration_errors import (
    calibration_gap,
    classwise_calibration_error,
    debiased_calibration_error,
    equal_mass_calibration_error,
    expected_calibration_error,
    ks_calibration_error,
    maximum_calibration_error,
    null_ece,
    smooth_calibration_error,
    sweep_calibration_error,
)
from driftcal.metrics.evaluation import Evaluation, difference, evaluate
from driftcal.metrics.intervals import Interval
from driftcal.metrics.proper_scores import (
    accuracy,
    area_under_risk_coverage,
    brier_decomposition,
    brier_score,
    error_auroc,
    negative_log_likelihood,
    predictive_entropy,
)
from driftcal.metrics.reliability import Reliability, prepare_reliability

#: name in :class:`Evaluation` -> function of (y_true, probabilities, *, sample_weight) that computes it
METRICS: dict[str, Callable[..., float]] = {
    "accuracy": accuracy,
    "nll": negative_log_likelihood,
    "brier": brier_score,
    "entropy": predictive_entropy,
    "calibration_gap": calibration_gap,
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
    "Statistics",
    "accuracy",
    "area_under_risk_coverage",
    "brier_decomposition",
    "brier_score",
    "calibration_gap",
    "classwise_calibration_error",
    "debiased_calibration_error",
    "difference",
    "equal_mass_calibration_error",
    "error_auroc",
    "evaluate",
    "expected_calibration_error",
    "ks_calibration_error",
    "maximum_calibration_error",
    "negative_log_likelihood",
    "null_ece",
    "predictive_entropy",
    "prepare_reliability",
    "smooth_calibration_error",
    "sweep_calibration_error",
]
