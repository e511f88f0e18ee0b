"""From a window's sums to words: estimated accuracy, place on the ladder, and one of four states."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import norm

from driftcal.deploy.monitor_labels import label_report
from driftcal.deploy.monitor_sums import Sums
from driftcal.profile import ESTIMATORS, Profile

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


def clean_range(profile: Profile, rows: int, false_alarm: float) -> tuple[float, float]:
    """Between which mean certainties a window of clean rows lies, but for a share `false_alarm` of such windows.

    Mean ± (z(α/2) / √rows + z(0.01) / √n) standard deviations of a row; the second part is what n validation rows may be
    off themselves, so the rate holds with 99 % assurance. The first part bends with the skewness of the rows (Cornish
    and Fisher): certainty has a long tail downwards.
    """
    z = float(norm.isf(false_alarm / 2))
    bend = profile.skewness / (6 * math.sqrt(rows)) * (z * z - 1)
    own = float(norm.ppf(_ASSURANCE)) / math.sqrt(profile.rows)
    low, high = (z - bend) / math.sqrt(rows) + own, (z + bend) / math.sqrt(rows) + own
    centre = profile.means[0][2]
    return centre - profile.deviation * low, centre + profile.deviation * high


def detectable(profile: Profile, rows: int, false_alarm: float, power: float = 0.95) -> float:
    """How far the mean certainty must fall for a window of so many rows to be noticed with probability `power`.

    Drifted rows vary more than clean ones; numbers in [0, 1] with mean m have a variance of at most m(1 − m).
    """
    low, _ = clean_range(profile, rows, false_alarm)
    edge = min(max(low, 0.0), 1.0)
    return profile.means[0][2] - low + float(norm.ppf(power)) * math.sqrt(edge * (1 - edge) / rows)


def report_window(
    window: int, span: float, sums: Sums, profile: Profile | None, *, estimator: str | None, false_alarm: float
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
    if profile is None:
        why = "the calibrator carries no profile of its ladder: tune again with this version"
        return WindowReport(**plain, state=UNKNOWN, why=why)
    name = estimator or profile.estimator
    estimates = {each: profile.estimate(each, means) for each in ESTIMATORS}
    interval = _interval(profile, sums, estimates, name)
    state, why = _state(profile, sums, estimates, name, false_alarm)
    level = profile.position(means)
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
        looks_like=f"level {round(level) + 1} of {profile.levels}" + (" (clean)" if round(level) == 0 else ""),
        label_distance=float(np.abs(sums.shares - profile.shares).sum() / 2),
    )


def _interval(profile: Profile, sums: Sums, estimates: dict[str, float], name: str) -> tuple[float, float]:
    """From the lower to the higher of what the two extreme assumptions say, widened by the sampling error of each.

    That of the window and that of the validation rows: where those are few, they are what counts.
    """
    errors = {
        "confidence": float(sums.errors[0]),
        "doc": float(sums.errors[1]),
        "atc": float(sums.errors[3]),
        "ladder": float(sums.errors[2]) * profile.slope(sums.means),
    }
    errors["middle"] = (errors["atc"] + errors["ladder"]) / 2
    # an accuracy is itself a share of so many rows, whatever is known about its mean
    own = math.sqrt(estimates[name] * (1 - estimates[name]) / sums.rows)
    # and every estimator starts from the accuracy of the clean rows, which so many validation rows tell
    clean = profile.accuracies[0]
    start = math.sqrt(clean * (1 - clean) / profile.rows)
    ends = {each: _LEVEL * math.hypot(errors[each], own, start) for each in ("atc", "ladder", name)}
    low = min(estimates[each] - end for each, end in ends.items())
    high = max(estimates[each] + end for each, end in ends.items())
    return max(0.0, low), min(1.0, high)


def _state(profile: Profile, sums: Sums, estimates: dict[str, float], name: str, false_alarm: float) -> tuple[str, str]:
    if profile.levels < 2:
        return UNKNOWN, "the calibrator was tuned on clean rows only: there is no ladder to compare with"
    if sums.rows < FEWEST:
        return UNKNOWN, f"{sums.rows} rows are too few: at least {FEWEST} are needed"
    low, high = clean_range(profile, sums.rows, false_alarm)
    certainty = float(sums.means[2])
    if low <= certainty <= high:
        return OK, "as certain as clean validation rows"
    good = [each for each, value in estimates.items() if value >= profile.accuracies[0] - 0.01]
    bad = [each for each, value in estimates.items() if value < profile.halfway]
    if good and bad:
        why = f"the estimators contradict each other: {good[0]} sees no loss, {bad[0]} sees more than half lost"
        return UNKNOWN, why
    fact = f"{'less' if certainty < low else 'more'} certain than clean validation rows"
    if estimates[name] < profile.halfway:
        return OUT, f"{fact}, and accuracy estimated below {profile.halfway:.2f}, half-way to chance"
    return DRIFTING, fact
