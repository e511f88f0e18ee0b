"""The report of one window: estimated accuracy, position between the perturbation levels, state."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm

from driftcal.drift.estimators import (
    ABOVE_THRESHOLD,
    CALIBRATED_CONFIDENCE,
    CONFIDENCE,
    ESTIMATORS,
    NEGATIVE_ENTROPY,
)
from driftcal.drift.reference import DriftReference
from driftcal.monitor.alarm_rule import UNKNOWN, window_state
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.monitor_settings import MonitorSettings
from driftcal.monitor.window_sums import WindowSums

_Z_95 = float(norm.isf(0.025))


@dataclass(frozen=True)
class WindowReport:
    """One window of samples. Without a drift reference, the fields that need it are None.

    Parameters
    ----------
    window : index of the window.
    begin, end : its first and last moment: times, or sample numbers.
    n_samples : samples in the window.
    state, reason : see `alarm_rule`.
    confidence : mean calibrated confidence.
    low_confidence_share : share of predictions with low confidence.
    class_shares : share of each class among the predictions.
    accuracy, accuracy_interval : accuracy estimated without labels, and its interval.
    estimator, estimates : the estimator of `accuracy`, and the accuracy by each estimator.
    overconfidence : `confidence` minus the estimated accuracy, the calibration gap.
    level, nearest_level : position between the perturbation levels, 0 is clean; the nearest level as text.
    class_distance : total variation distance between `class_shares` and those of the clean validation samples.
    labelled : accuracy and ECE of the labelled samples; None without labels.
    """

    window: int
    begin: float
    end: float
    n_samples: int
    state: str
    reason: str
    confidence: float
    low_confidence_share: float
    class_shares: tuple[float, ...] = field(repr=False)
    accuracy: float | None = None
    accuracy_interval: tuple[float, float] | None = None
    estimator: str | None = None
    estimates: dict[str, float] = field(default_factory=dict, repr=False)
    overconfidence: float | None = None
    level: float | None = None
    nearest_level: str | None = None
    class_distance: float | None = None
    labelled: LabelMetrics | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def report_window(
    window: int, sums: WindowSums, reference: DriftReference | None, settings: MonitorSettings
) -> WindowReport:
    """The report of a window from its sums."""
    means = sums.means
    confidence = float(means[CALIBRATED_CONFIDENCE])
    label_free: dict[str, Any] = {
        "window": window,
        "begin": window * settings.window_size,
        "end": (window + 1) * settings.window_size,
        "n_samples": sums.n_samples,
        "confidence": confidence,
        "low_confidence_share": sums.low_confidence_share,
        "class_shares": tuple(sums.class_shares.tolist()),
        "labelled": LabelMetrics.of(sums),
    }
    if reference is None:
        reason = "the calibrator has no drift reference: tune again with this version"
        return WindowReport(**label_free, state=UNKNOWN, reason=reason)
    estimator = settings.estimator or reference.estimator
    estimates = {name: reference.estimate(name, means) for name in ESTIMATORS}
    state, reason = window_state(
        reference, sums, estimates, estimator=estimator, false_alarm_rate=settings.false_alarm_rate
    )
    level = reference.level_position(means)
    nearest = round(level)
    return WindowReport(
        **label_free,
        state=state,
        reason=reason,
        accuracy=estimates[estimator],
        accuracy_interval=_accuracy_interval(reference, sums, estimates, estimator),
        estimator=estimator,
        estimates=estimates,
        overconfidence=confidence - estimates[estimator],
        level=level,
        nearest_level=f"level {nearest + 1} of {reference.n_levels}" + ("" if nearest else " (clean)"),
        class_distance=float(np.abs(sums.class_shares - reference.class_shares).sum() / 2),
    )


def _accuracy_interval(
    reference: DriftReference, sums: WindowSums, estimates: dict[str, float], estimator: str
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
