"""From a window's sums to words: estimated accuracy, place on the ladder, and one of four states."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm

from driftcal.drift.estimators import ESTIMATORS
from driftcal.drift.reference import DriftReference
from driftcal.monitor.sequential_test import label_report
from driftcal.monitor.window_sums import Sums

OK, DRIFTING, OUT, UNKNOWN = "ok", "drifting", "out of distribution", "cannot tell"
STATES = (OK, DRIFTING, OUT, UNKNOWN)
#: Fewer rows than this say too little: by then the sampling error of an accuracy is at most 0.07.
FEWEST = 50
# Confidence that the stated rate of false alarms holds for these validation rows, not only for most.
_ASSURANCE = 0.99
_LEVEL = float(norm.isf(0.025))


@dataclass(frozen=True)
class WindowReport:
    """One window of traffic. What needs the ladder's profile is None without one; `labelled` waits for labels."""

    window: int
    begin: float
    end: float
    rows: int
    state: str
    why: str
    confidence: float
    low_confidence: float
    shares: tuple[float, ...]
    accuracy: float | None = None
    interval: tuple[float, float] | None = None
    estimator: str | None = None
    estimates: dict[str, float] = field(default_factory=dict)
    overconfidence: float | None = None
    level: float | None = None
    looks_like: str | None = None
    label_distance: float | None = None
    labelled: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = dict(vars(self))
        return {**plain, "shares": list(self.shares), "interval": list(self.interval) if self.interval else None}


def clean_range(drift_reference: DriftReference, rows: int, false_alarm: float) -> tuple[float, float]:
    """Between which mean certainties a window of clean rows lies, but for a share `false_alarm` of such windows.

    Mean ± (z(α/2) / √rows + z(0.01) / √n) standard deviations of a row; the second part is what n validation rows may be
    off themselves, so the rate holds with 99 % assurance. The first part bends with the skewness of the rows (Cornish
    and Fisher): certainty has a long tail downwards.
    """
    z = float(norm.isf(false_alarm / 2))
    bend = drift_reference.skewness / (6 * math.sqrt(rows)) * (z * z - 1)
    own = float(norm.ppf(_ASSURANCE)) / math.sqrt(drift_reference.n_samples)
    low, high = (z - bend) / math.sqrt(rows) + own, (z + bend) / math.sqrt(rows) + own
    centre = drift_reference.means[0][2]
    return centre - drift_reference.standard_deviation * low, centre + drift_reference.standard_deviation * high


def detectable(drift_reference: DriftReference, rows: int, false_alarm: float, power: float = 0.95) -> float:
    """How far the mean certainty must fall for a window of so many rows to be noticed with probability `power`.

    Drifted rows vary more than clean ones; numbers in [0, 1] with mean m have a variance of at most m(1 − m).
    """
    low, _ = clean_range(drift_reference, rows, false_alarm)
    edge = min(max(low, 0.0), 1.0)
    return drift_reference.means[0][2] - low + float(norm.ppf(power)) * math.sqrt(edge * (1 - edge) / rows)


def report_window(
    window: int,
    span: float,
    sums: Sums,
    drift_reference: DriftReference | None,
    *,
    estimator: str | None,
    false_alarm: float,
) -> WindowReport:
    """Everything a window says."""
    means = sums.means
    plain: dict[str, Any] = {
        "window": window,
        "begin": window * span,
        "end": (window + 1) * span,
        "rows": sums.rows,
        "confidence": float(means[0]),
        "low_confidence": sums.low_share,
        "shares": tuple(sums.shares.tolist()),
        "labelled": label_report(sums),
    }
    if drift_reference is None:
        why = "the calibrator carries no profile of its ladder: tune again with this version"
        return WindowReport(**plain, state=UNKNOWN, why=why)
    name = estimator or drift_reference.estimator
    estimates = {each: drift_reference.estimate(each, means) for each in ESTIMATORS}
    interval = _interval(drift_reference, sums, estimates, name)
    state, why = _state(drift_reference, sums, estimates, name, false_alarm)
    level = drift_reference.level_position(means)
    return WindowReport(
        **plain,
        state=state,
        why=why,
        accuracy=estimates[name],
        interval=interval,
        estimator=name,
        estimates=estimates,
        overconfidence=float(means[0]) - estimates[name],
        level=level,
        looks_like=f"level {round(level) + 1} of {drift_reference.n_levels}"
        + (" (clean)" if round(level) == 0 else ""),
        label_distance=float(np.abs(sums.shares - drift_reference.class_shares).sum() / 2),
    )


def _interval(
    drift_reference: DriftReference, sums: Sums, estimates: dict[str, float], name: str
) -> tuple[float, float]:
    """From the lower to the higher of what the two extreme assumptions say, widened by the sampling error of each.

    That of the window and that of the validation rows: where those are few, they are what counts.
    """
    errors = {
        "confidence": float(sums.errors[0]),
        "doc": float(sums.errors[1]),
        "atc": float(sums.errors[3]),
        "level-matching": float(sums.errors[2]) * drift_reference.accuracy_gradient(sums.means),
    }
    errors["atc-level-mean"] = (errors["atc"] + errors["level-matching"]) / 2
    # an accuracy is itself a share of so many rows, whatever is known about its mean
    own = math.sqrt(estimates[name] * (1 - estimates[name]) / sums.rows)
    # and every estimator starts from the accuracy of the clean rows, which so many validation rows tell
    clean = drift_reference.accuracies[0]
    start = math.sqrt(clean * (1 - clean) / drift_reference.n_samples)
    ends = {each: _LEVEL * math.hypot(errors[each], own, start) for each in ("atc", "level-matching", name)}
    low = min(estimates[each] - end for each, end in ends.items())
    high = max(estimates[each] + end for each, end in ends.items())
    return max(0.0, low), min(1.0, high)


def _state(
    drift_reference: DriftReference, sums: Sums, estimates: dict[str, float], name: str, false_alarm: float
) -> tuple[str, str]:
    if drift_reference.n_levels < 2:
        return UNKNOWN, "the calibrator was tuned on clean rows only: there is no ladder to compare with"
    if sums.rows < FEWEST:
        return UNKNOWN, f"{sums.rows} rows are too few: at least {FEWEST} are needed"
    low, high = clean_range(drift_reference, sums.rows, false_alarm)
    certainty = float(sums.means[2])
    if low <= certainty <= high:
        return OK, "as certain as clean validation rows"
    good = [each for each, value in estimates.items() if value >= drift_reference.accuracies[0] - 0.01]
    bad = [each for each, value in estimates.items() if value < drift_reference.halfway_to_chance]
    if good and bad:
        why = f"the estimators contradict each other: {good[0]} sees no loss, {bad[0]} sees more than half lost"
        return UNKNOWN, why
    fact = f"{'less' if certainty < low else 'more'} certain than clean validation rows"
    if estimates[name] < drift_reference.halfway_to_chance:
        return OUT, f"{fact}, and accuracy estimated below {drift_reference.halfway_to_chance:.2f}, half-way to chance"
    return DRIFTING, fact
