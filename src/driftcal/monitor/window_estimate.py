"""The accuracy of a window without labels, by the monitor's estimator, with an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from driftcal.calibrators.windowed.window_ts import WindowedTemperatureScaling
from driftcal.drift.estimators import (
    ABOVE_THRESHOLD,
    CALIBRATED_CONFIDENCE,
    CONFIDENCE,
    ESTIMATORS,
    NEGATIVE_ENTROPY,
    WINDOW_TS,
)
from driftcal.drift.reference import DriftReference
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator
from driftcal.monitor.window_sums import WindowSums

_Z_95 = float(norm.isf(0.025))


@dataclass(frozen=True)
class WindowEstimate:
    """The estimated accuracy of a window.

    Parameters
    ----------
    estimator : the name of the estimator.
    accuracy, interval : its estimate, and an interval for the accuracy of the window.
    by_estimator : the accuracy by each estimator.
    extrapolates : whether the window is unlike all shifts that the estimator was fitted on.
    windowed_confidence : mean confidence of the windowed form, with this window as its window; None without that form.
    accepted_accuracy : the estimated accuracy of the accepted predictions; None without a threshold or if there are none.
    """

    estimator: str
    accuracy: float
    interval: tuple[float, float]
    by_estimator: dict[str, float]
    extrapolates: bool = False
    windowed_confidence: float | None = None
    accepted_accuracy: float | None = None


def estimate_window(monitored: MonitoredCalibrator, sums: WindowSums, estimator: str | None) -> WindowEstimate | None:
    """The estimate for a window; None if the calibrator has neither a drift reference nor a windowed form.

    By default the regression of the windowed form estimates; without one, the estimator that the drift reference names.
    """
    reference, windowed = monitored.drift_reference, monitored.windowed
    name = estimator or monitored.default_estimator
    regression = None if windowed is None else windowed.accuracy_at(sums.window_statistics)
    by_estimator = {} if reference is None else {other: reference.estimate(other, sums.means) for other in ESTIMATORS}
    if regression is not None:
        by_estimator[WINDOW_TS] = regression.accuracy
    if regression is not None and name == WINDOW_TS:
        interval, extrapolates = (regression.low, regression.high), regression.extrapolates
        if extrapolates:  # its interval holds for shifts like those of the fit: it is widened to all other estimates
            interval = min(interval[0], *by_estimator.values()), max(interval[1], *by_estimator.values())
    elif reference is not None and name in by_estimator:
        # clean samples alone do not say how far an estimate errs under a shift
        is_known = reference.n_levels > 1
        interval = _assumed_interval(reference, sums, by_estimator, name) if is_known else (0.0, 1.0)
        extrapolates = False
    else:
        return None
    accuracy = by_estimator[name]
    return WindowEstimate(
        name,
        accuracy,
        interval,
        by_estimator,
        extrapolates,
        None if windowed is None else _windowed_confidence(windowed, sums),
        _accepted_accuracy(windowed, sums, accuracy) if sums.n_accepted else None,
    )


def _windowed_confidence(windowed: WindowedTemperatureScaling, sums: WindowSums) -> float:
    """The mean confidence of the windowed form, with this window as its window."""
    statistics, window = windowed.statistics, sums.window_statistics
    return statistics.confidence_at(statistics.confidences(window), float(windowed.temperature_at(window)))


def _accepted_accuracy(windowed: WindowedTemperatureScaling | None, sums: WindowSums, accuracy: float) -> float:
    """The accuracy of the accepted predictions, if that of all is `accuracy`.

    With a windowed form: their mean confidence at the temperature at which the mean confidence of all is `accuracy`
    (expectation consistency). Otherwise: their mean confidence, changed by the factor from mean confidence to accuracy.
    """
    if windowed is None:
        confidence = max(float(sums.means[CALIBRATED_CONFIDENCE]), 1e-12)
        return min(1.0, float(sums.accepted_confidences[0]) * accuracy / confidence)
    temperature = windowed.statistics.consistent_temperature(sums.window_statistics, np.asarray(accuracy))
    return windowed.statistics.confidence_at(sums.accepted_confidences[1:], float(temperature))


def _assumed_interval(
    reference: DriftReference, sums: WindowSums, estimates: Mapping[str, float], estimator: str
) -> tuple[float, float]:
    """The range of the estimates under two extreme assumptions (ATC, level matching), widened by sampling errors."""
    errors = {
        "confidence": float(sums.standard_errors[CALIBRATED_CONFIDENCE]),
        "doc": float(sums.standard_errors[CONFIDENCE]),
        "atc": float(sums.standard_errors[ABOVE_THRESHOLD]),
        "level-matching": float(sums.standard_errors[NEGATIVE_ENTROPY]) * reference.accuracy_gradient(sums.means),
    }
    errors["atc-level-mean"] = (errors["atc"] + errors["level-matching"]) / 2
    # the accuracy of a window varies around its expected value
    window_error = math.sqrt(estimates[estimator] * (1 - estimates[estimator]) / sums.n_samples)
    # each estimator starts from the clean accuracy, which has the sampling error of the validation samples
    clean = reference.accuracies[0]
    clean_error = math.sqrt(clean * (1 - clean) / reference.n_samples)
    margins = {
        name: _Z_95 * math.hypot(errors[name], window_error, clean_error)
        for name in ("atc", "level-matching", estimator)
    }
    low = min(estimates[name] - margin for name, margin in margins.items())
    high = max(estimates[name] + margin for name, margin in margins.items())
    return max(0.0, low), min(1.0, high)
