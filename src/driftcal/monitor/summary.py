"""All windows of a monitor together: counts, states, the test of calibration, and a verdict: what happened, what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftcal.monitor.alarm_rule import (
    CLASS_MIX,
    LABELS,
    MIN_SAMPLES,
    NO_CHANGE,
    OK,
    OUT,
    SEVERITY,
    SHIFTED,
    STATES,
    UNKNOWN,
    labels_disagree,
)
from driftcal.monitor.label_metrics import LabelMetrics
from driftcal.monitor.window_report import WindowReport

NOT_REJECTED, REJECTED, NO_LABELS = "not rejected", "rejected", "no labels"
#: A larger estimated calibration gap is large: several times that of a tuned calibrator on clean samples.
LARGE_GAP = 0.05
#: A larger share of samples or of labels that cannot be used is in the verdict.
_LARGE_SHARE = 0.01
#: Reasons for which a label, not a sample, could not be used.
LABEL_REASONS = ("unknown label", "label without a sample")
#: Labels of several windows disagree with their estimates if chance explains it with at most this probability.
_CHANCE = 0.001
#: What to do about earlier windows in a state, the worst state first.
_EARLIER = {
    OUT: "do not trust the predictions of these windows, inspect their inputs, and collect {labels} for them",
    LABELS: "trust the labels of these windows, and check that they belong to their samples",
    SHIFTED: "inspect their inputs, and collect {labels} for them, to test the calibration",
    UNKNOWN: "collect {labels} for them, because their accuracy cannot be estimated",
    CLASS_MIX: "check that the change is real",
}


@dataclass(frozen=True, repr=False)
class Summary:
    """The summary of all windows of a monitor.

    Parameters
    ----------
    n_samples, n_windows : samples in all windows; windows that are kept separately.
    states : number of these windows in each state.
    state, newest, since : state and index of the newest window with at least 50 samples, and the first window of the
        current run of this state. If no window has as many samples, those of the newest window.
    worst_state : the worst state of all windows with at least 50 samples that are kept separately.
    accuracy, accuracy_interval : the estimated accuracy of the newest window, and its interval.
    accepted_share, accepted_accuracy : over all windows that are kept separately, the share of predictions above the
        threshold and their estimated accuracy; None without a threshold.
    labels_disagree : whether the labels of all windows together contradict the estimated accuracy.
    large_gaps : windows whose estimated calibration gap is large and not explained by sampling errors.
    rejected : samples that could not be used, by reason.
    labelled : accuracy and ECE of all labelled samples; None without labels.
    log_evidence : log e-value against the calibration.
    calibration : "rejected" if the e-value has reached 1/alpha, "not rejected" otherwise, or "no labels".
    recommendation : what happened, and what to do next.
    """

    n_samples: int
    n_windows: int
    states: Mapping[str, int]
    state: str
    newest: int | None
    since: int | None
    worst_state: str
    accuracy: float | None
    accuracy_interval: tuple[float, float] | None
    accepted_share: float | None
    accepted_accuracy: float | None
    labels_disagree: bool
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

    @property
    def objection(self) -> str:
        """What the labels of all windows say against a state without an alarm; empty if they say nothing."""
        if self.labels_disagree:
            return "over all windows labels contradict the estimates"
        return "over all windows labels reject the calibration" if self.calibration == REJECTED else ""

    def lines(self) -> list[str]:
        """The summary as text, at most five lines."""
        states = ", ".join(f"{count:,} {state}" for state, count in self.states.items() if count)
        newest = self.state
        if self.state in (OK, NO_CHANGE) and self.objection:
            newest += f", but {self.objection}"
        if self.accuracy is not None and self.accuracy_interval is not None:
            low, high = self.accuracy_interval
            newest += f", estimated accuracy {self.accuracy:.3f} ({low:.3f} to {high:.3f})"
        lines = [f"{self.n_samples:,} samples in {self.n_windows:,} windows ({states or 'none'}); newest: {newest}"]
        if self.rejected:
            lines.append("unusable: " + ", ".join(f"{count:,} {reason}" for reason, count in self.rejected.items()))
        if self.accepted_share is not None:
            accuracy = "" if self.accepted_accuracy is None else f", estimated accuracy {self.accepted_accuracy:.3f}"
            lines.append(f"accepted: {self.accepted_share:.1%} of the predictions{accuracy}")
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
    is_windowed: bool,
    has_windowed: bool,
) -> Summary:
    """The summary of a monitor.

    Parameters
    ----------
    windows : reports of the windows that are kept separately, in order.
    n_samples, labelled : of all windows, older ones included.
    rejected : samples that could not be used, by reason.
    log_evidence, alpha : log e-value against the calibration, and the level of the test.
    is_windowed : whether the calibrator is windowed, so that its per-sample form is monitored.
    has_windowed : whether the calibrator file also holds a windowed form.
    """
    large = [window for window in windows if window.n_samples >= MIN_SAMPLES] or list(windows)
    state, newest, since = _newest_state(large)
    calibration = NO_LABELS if labelled is None else REJECTED if log_evidence >= -math.log(alpha) else NOT_REJECTED
    counts = Counter(window.state for window in windows)
    contradiction = _contradiction(windows)
    serve = has_windowed and not is_windowed
    of_labels = _calibration_advice(is_windowed, serve) if calibration == REJECTED else ""
    if large and _has_lost(large[-1]):
        of_labels = _loss_advice(large[-1], is_rejected=calibration == REJECTED)
    sentences = [
        of_labels,
        contradiction,
        *_state_advice(large, "more labels" if labelled is not None else "labels", serve, bool(contradiction)),
        _gap_advice(large, "more labels" if labelled is not None else "labels", serve)
        if calibration != REJECTED
        else "",
        _unusable(rejected, n_samples, 0 if labelled is None else labelled.n_samples),
    ]
    last = large[-1] if large else None
    accepted = [
        (window.accepted_share * window.n_samples, window.accepted_accuracy)
        for window in windows
        if window.accepted_share is not None
    ]
    with_estimate = [(n, accuracy) for n, accuracy in accepted if accuracy is not None]
    n_kept, n_accepted = sum(window.n_samples for window in windows), sum(n for n, _ in with_estimate)
    return Summary(
        n_samples=n_samples,
        n_windows=len(windows),
        states={name: counts[name] for name in STATES},
        state=state,
        newest=newest,
        since=since,
        worst_state=max((window.state for window in large), key=SEVERITY.index, default=UNKNOWN),
        accuracy=None if last is None else last.accuracy,
        accuracy_interval=None if last is None else last.accuracy_interval,
        accepted_share=sum(n for n, _ in accepted) / n_kept if accepted else None,
        accepted_accuracy=sum(n * accuracy for n, accuracy in with_estimate) / n_accepted if n_accepted else None,
        labels_disagree=bool(contradiction),
        large_gaps=sum(map(_has_large_gap, large)),
        rejected=rejected,
        labelled=labelled,
        log_evidence=log_evidence,
        calibration=calibration,
        recommendation=" ".join(sentence for sentence in sentences if sentence) or "Nothing to do.",
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


def _has_lost(window: WindowReport) -> bool:
    """Whether labels have decided the state: they show a loss of accuracy, and contradict no narrow estimate."""
    return window.accuracy_lost and window.state in (SHIFTED, OUT)


def _contradiction(windows: Sequence[WindowReport]) -> str:
    """What happened and what to do if the labels of all windows together contradict the estimated accuracy."""
    rows = [
        (window.labelled.n_samples, window.labelled.accuracy, *window.accuracy_interval)
        for window in windows
        if window.labelled is not None and window.accuracy_interval is not None and not _has_lost(window)
    ]
    n = sum(row[0] for row in rows)
    if not n:
        return ""
    accuracy, low, high = (sum(row[0] * row[k] for row in rows) / n for k in (1, 2, 3))
    if not labels_disagree(round(accuracy * n), n, (low, high), _CHANCE):
        return ""
    return (
        f"Labels contradict the estimates: accuracy {accuracy:.3f} on {n:,} labels, estimated {low:.3f} to {high:.3f}. Trust the "
        "labels if they belong to these samples and were not chosen by difficulty; then pass them to driftcal recalibrate."
    )


def _loss_advice(window: WindowReport, *, is_rejected: bool) -> str:
    """What happened and what to do if the labels of the newest window show a loss of accuracy."""
    trust = "Do not trust the predictions. " if window.state == OUT else ""
    later = " If they stay like this, pass the labels to driftcal recalibrate." if is_rejected else ""
    return f"The accuracy has fallen: {window.reason}. {trust}Inspect the inputs.{later}"


def _calibration_advice(is_windowed: bool, serve: bool) -> str:
    if is_windowed:
        return (
            "Labels show that the per-sample form of this calibrator, which exports contain, is not calibrated. "
            "Serve its windowed form, or tune a per-sample method such as ts."
        )
    other = ", or serve the windowed form" if serve else ""
    return f"Recalibrate: labels show that the confidence is not calibrated. Pass them to driftcal recalibrate{other}."


def _state_advice(windows: Sequence[WindowReport], labels: str, serve: bool, contradicted: bool) -> list[str]:
    """What happened and what to do by the state of the newest window, and by the worst other state before."""
    if not windows:
        return ["No samples yet."]
    newest = windows[-1]
    follow = "Serve the windowed form, which follows the shift, and collect" if serve else "Collect"
    advice = {
        OK: "",
        NO_CHANGE: f"No change is seen: {newest.reason}. Collect {labels} to measure it.",
        CLASS_MIX: f"The class mix has changed: {newest.reason}. Check that the change is real. If it stays, tune "
        "on validation data with this mix.",
        SHIFTED: f"The inputs have shifted. {follow} {labels} for these windows, to test the calibration and to recalibrate. "
        "Inspect the inputs.",
        OUT: "The inputs are out of distribution. Do not trust the predictions: inspect the inputs, and collect "
        f"{labels} for these windows.",
        LABELS: ""
        if contradicted
        else f"Labels of the newest window contradict its estimate: {newest.reason}. Trust the labels, "
        "and check that they belong to these samples.",
        UNKNOWN: f"The newest window cannot be judged: {newest.reason}. "
        + (f"Collect {labels} for it." if newest.n_samples >= MIN_SAMPLES else "Wait for more samples."),
    }
    counts = Counter(window.state for window in windows)
    earlier = next((state for state in _EARLIER if counts[state] and state != newest.state), None)
    sentences = ["" if _has_lost(newest) else advice[newest.state]]
    if earlier is not None and SEVERITY.index(earlier) > SEVERITY.index(newest.state):
        what = _EARLIER[earlier].format(labels=labels)
        sentences.append(f"{counts[earlier]:,} of {len(windows):,} windows were {_was(earlier)}: {what}.")
    return sentences


def _was(state: str) -> str:
    return {
        LABELS: "contradicted by labels",
        SHIFTED: "shifted",
        UNKNOWN: "not judged",
        CLASS_MIX: "of another class mix",
    }.get(state, state)


def _gap_advice(windows: Sequence[WindowReport], labels: str, serve: bool) -> str:
    """What to do if the confidence differs from the estimated accuracy in most windows."""
    large = [window.overconfidence or 0.0 for window in windows if _has_large_gap(window)]
    if 2 * len(large) <= len(windows):
        return ""
    gap = sum(large) / len(large)
    what = f"serve the windowed form, or collect {labels}" if serve else f"collect {labels}"
    return (
        f"The confidence differs from the estimated accuracy by more than {LARGE_GAP} in {len(large):,} of {len(windows):,} windows "
        f"({gap:+.2f} on average): {what} to test the calibration."
    )


def _unusable(rejected: Mapping[str, int], n_samples: int, n_labels: int) -> str:
    """What to do if many samples or labels could not be used."""
    sentences = []
    for kind, n_used in (("samples", n_samples), ("labels", n_labels)):
        reasons = {
            reason: count for reason, count in rejected.items() if (reason in LABEL_REASONS) == (kind == "labels")
        }
        n_bad = sum(reasons.values())
        if n_bad > _LARGE_SHARE * (n_used + n_bad):
            listed = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
            hint = "class names and ids" if kind == "labels" else "what sends them"
            sentences.append(f"{n_bad:,} of {n_used + n_bad:,} {kind} could not be used ({listed}): check {hint}.")
    return " ".join(sentences)
