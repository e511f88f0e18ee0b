"""The report of one window: estimated accuracy, position between the perturbation levels, state."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from driftcal.drift.estimators import CALIBRATED_CONFIDENCE
from driftcal.monitor.alarm_rule import UNKNOWN, accuracy_lost, has_entropy_alarm, window_state
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.monitor_settings import MonitorSettings
from driftcal.monitor.monitored_calibrator import MonitoredCalibrator
from driftcal.monitor.window_estimate import estimate_window
from driftcal.monitor.window_sums import WindowSums


@dataclass(frozen=True)
class WindowReport:
    """One window of samples. Fields whose source the calibrator does not have are None.

    Parameters
    ----------
    window : index of the window.
    begin, end : its first and last moment: times, or sample numbers.
    n_samples : samples in the window.
    state, reason : see `alarm_rule`.
    confidence : mean confidence of the per-sample calibrator, which exports contain.
    low_confidence_share : share of predictions with low confidence.
    class_shares : share of each class among the predictions.
    accuracy, accuracy_interval : accuracy estimated without labels, and its interval.
    estimator, estimates : the estimator of `accuracy`, and the accuracy by each estimator.
    extrapolates : whether the window is unlike all shifts that the estimator was fitted on.
    overconfidence : `confidence` minus the estimated accuracy, the calibration gap.
    windowed_confidence : mean confidence of the windowed form, if the calibrator has one, with this window as its window.
    accepted_share, accepted_accuracy : share of predictions above the calibrator's threshold, and their estimated accuracy.
    level, nearest_level : position between the perturbation levels, 0 is clean and any window without an alarm of the entropy;
        the nearest level as text. None if there is the clean level only.
    class_distance : total variation distance between `class_shares` and those of the clean validation samples.
    labelled : accuracy and ECE of the labelled samples; None without labels.
    accuracy_lost : whether labels show an accuracy below that of clean samples.
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
    extrapolates: bool = False
    overconfidence: float | None = None
    windowed_confidence: float | None = None
    accepted_share: float | None = None
    accepted_accuracy: float | None = None
    level: float | None = None
    nearest_level: str | None = None
    class_distance: float | None = None
    labelled: LabelMetrics | None = None
    accuracy_lost: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def report_window(
    window: int, sums: WindowSums, monitored: MonitoredCalibrator, settings: MonitorSettings
) -> WindowReport:
    """The report of a window from its sums."""
    reference, means = monitored.drift_reference, sums.means
    confidence = float(means[CALIBRATED_CONFIDENCE])
    report: dict[str, Any] = {
        "window": window,
        "begin": window * settings.window_size,
        "end": (window + 1) * settings.window_size,
        "n_samples": sums.n_samples,
        "confidence": confidence,
        "low_confidence_share": sums.low_confidence_share,
        "class_shares": tuple(sums.class_shares.tolist()),
        "labelled": LabelMetrics.of(sums),
        "accepted_share": None if sums.n_accepted is None else sums.n_accepted / sums.n_samples,
        "state": UNKNOWN,
        "reason": "the calibrator has no drift reference: tune again with this version",
    }
    estimate = estimate_window(monitored, sums, settings.estimator)
    if estimate is not None:
        report |= {
            "accuracy": estimate.accuracy,
            "accuracy_interval": estimate.interval,
            "estimator": estimate.estimator,
            "estimates": estimate.by_estimator,
            "extrapolates": estimate.extrapolates,
            "overconfidence": confidence - estimate.accuracy,
            "windowed_confidence": estimate.windowed_confidence,
            "accepted_accuracy": estimate.accepted_accuracy,
        }
    if reference is not None and estimate is not None:
        rate = settings.false_alarm_rate
        state, reason = window_state(reference, sums, estimate, false_alarm_rate=rate)
        report |= {
            "state": state,
            "reason": reason,
            "class_distance": float(np.abs(sums.class_shares - reference.class_shares).sum() / 2),
            "accuracy_lost": accuracy_lost(reference, sums, rate),
        }
        if reference.n_levels > 1:
            level = reference.level_position(means) if has_entropy_alarm(reference, sums, rate) else 0.0
            nearest = round(level)
            text = f"level {nearest + 1} of {reference.n_levels}" + ("" if nearest else " (clean)")
            report |= {"level": level, "nearest_level": text}
    return WindowReport(**report)
