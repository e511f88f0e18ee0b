"""All windows of a monitor together: counts, states, the test of calibration, and a recommendation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftcal.monitor.alarm_rule import DRIFTING, MIN_SAMPLES, OK, OUT, SEVERITY, STATES, UNKNOWN
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.window_report import WindowReport

NOT_REJECTED, REJECTED, NO_LABELS = "not rejected", "rejected", "no labels"
#: A larger estimated calibration gap is large: several times that of a tuned calibrator on clean samples.
LARGE_GAP = 0.05


@dataclass(frozen=True, repr=False)
class Summary:
    """The summary of all windows of a monitor.

    Parameters
    ----------
    n_samples, n_windows : samples in all windows; windows that are kept separately.
    states : number of these windows in each state.
    state, newest, since : state and index of the newest window with at least 50 samples, and the first window of the
        current run of this state. If no window has as many samples, those of the newest window.
    worst_state : the worst state of all windows that are kept separately.
    large_gaps : windows whose estimated calibration gap is large and not explained by sampling errors.
    rejected : samples that could not be used, by reason.
    labelled : accuracy and ECE of all labelled samples; None without labels.
    log_evidence : log e-value against the calibration.
    calibration : "rejected" if the e-value has reached 1/alpha, "not rejected" otherwise, or "no labels".
    recommendation : what to do next.
    """

    n_samples: int
    n_windows: int
    states: Mapping[str, int]
    state: str
    newest: int | None
    since: int | None
    worst_state: str
    large_gaps: int
    rejected: Mapping[str, int]
    labelled: LabelMetrics | None
    log_evidence: float
    calibration: str
    recommendation: str

    @property
    def evidence(self) -> float:
        """The e-value against the calibration; infinite if a float cannot hold it."""
        return math.exp(self.log_evidence) if self.log_evidence < 700 else math.inf

    def lines(self) -> list[str]:
        """The summary as text, at most four lines."""
        states = ", ".join(f"{count:,} {state}" for state, count in self.states.items() if count)
        lines = [f"{self.n_samples:,} samples in {self.n_windows:,} windows ({states or 'none'}); newest: {self.state}"]
        if self.rejected:
            lines.append("unusable: " + ", ".join(f"{count:,} {reason}" for reason, count in self.rejected.items()))
        if self.labelled:
            lines.append(
                f"{self.labelled.n_samples:,} labels: accuracy {self.labelled.accuracy:.3f}, "
                f"ECE {self.labelled.ece:.3f}; calibration {self.calibration}"
            )
        return [*lines, self.recommendation]

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def summarise(
    windows: Sequence[WindowReport],
    *,
    n_samples: int,
    rejected: Mapping[str, int],
    labelled: LabelMetrics | None,
    log_evidence: float,
    alpha: float,
    windowed: bool,
) -> Summary:
    """The summary of a monitor.

    Parameters
    ----------
    windows : reports of the windows that are kept separately, in order.
    n_samples, labelled : of all windows, older ones included.
    rejected : samples that could not be used, by reason.
    log_evidence, alpha : log e-value against the calibration, and the level of the test.
    windowed : whether the calibrator is windowed.
    """
    large = [window for window in windows if window.n_samples >= MIN_SAMPLES] or list(windows)
    state, newest, since = _newest_state(large)
    calibration = NO_LABELS if labelled is None else REJECTED if log_evidence >= -math.log(alpha) else NOT_REJECTED
    counts = Counter(window.state for window in windows)
    states = {name: counts[name] for name in STATES}
    large_gaps = sum(_has_large_gap(window) for window in large)
    recommendation = _drift_advice(state, states, large_gaps, len(large), labelled is not None)
    if calibration == REJECTED:
        recommendation = _calibration_advice(windowed)
    return Summary(
        n_samples=n_samples,
        n_windows=len(windows),
        states=states,
        state=state,
        newest=newest,
        since=since,
        worst_state=max((window.state for window in windows), key=SEVERITY.index, default=UNKNOWN),
        large_gaps=large_gaps,
        rejected=rejected,
        labelled=labelled,
        log_evidence=log_evidence,
        calibration=calibration,
        recommendation=recommendation,
    )


def _newest_state(windows: Sequence[WindowReport]) -> tuple[str, int | None, int | None]:
    """The state and the index of the newest window, and the first window of the current run of this state."""
    if not windows:
        return UNKNOWN, None, None
    state, newest = windows[-1].state, windows[-1].window
    since = newest
    for window in reversed(windows):
        if window.state != state:
            break
        since = window.window
    return state, newest, since


def _has_large_gap(window: WindowReport) -> bool:
    """Whether confidence and estimated accuracy differ by more than `LARGE_GAP`, and sampling does not explain it."""
    if window.overconfidence is None or window.accuracy_interval is None or abs(window.overconfidence) <= LARGE_GAP:
        return False
    low, high = window.accuracy_interval
    return not low <= window.confidence <= high


def _calibration_advice(windowed: bool) -> str:
    if windowed:
        return (
            "Labels show that the per-sample form of this calibrator, which exports contain, is not calibrated. "
            "Serve its windowed form, or tune a per-sample method such as ts."
        )
    return "Recalibrate: labels show that the confidence is not calibrated. Pass them to driftcal recalibrate."


def _drift_advice(state: str, states: Mapping[str, int], large_gaps: int, n_windows: int, has_labels: bool) -> str:
    """What to do if labels do not reject the calibration: it depends on the newest and on the worst window."""
    labels = "more labels" if has_labels else "labels"
    total = sum(states.values())
    if state == OUT:
        return f"Do not trust the predictions: inspect the inputs, and collect {labels} for these windows."
    if states[OUT]:
        return (
            f"{states[OUT]:,} of {total:,} windows were out of distribution: do not trust the predictions of these windows, "
            f"inspect their inputs, and collect {labels} for them."
        )
    if state == DRIFTING:
        return f"Collect {labels} for these windows, to test the calibration and to recalibrate."
    if states[DRIFTING]:
        return f"{states[DRIFTING]:,} of {total:,} windows were drifting: collect {labels} for them, to test the calibration."
    if 2 * large_gaps > n_windows:
        return (
            f"The confidence differs from the estimated accuracy by more than {LARGE_GAP} in {large_gaps:,} of "
            f"{n_windows:,} windows: collect {labels} to test the calibration."
        )
    return "Nothing to do." if state == OK else "Wait for more samples, or tune with perturbation levels."
