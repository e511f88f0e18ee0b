"""All windows together: counts, the newest state, what labels say about calibration, and what to do."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftcal.monitor.sequential_test import label_report
from driftcal.monitor.states import DRIFTING, FEWEST, OK, OUT, STATES, UNKNOWN, WindowReport
from driftcal.monitor.window_sums import Sums

HOLDS, BROKEN, NO_LABELS = "nothing speaks against it", "does not hold", "no labels"


@dataclass(frozen=True)
class Summary:
    """What a monitor knows over all its windows.

    `state` is that of the `newest` window that can tell, one of 50 rows if there is any: the one that has just begun would
    hide it. `since` is the window that it has been so from; `evidence` is the e-value against
    calibration, which counts as broken from 1/alpha on.
    """

    rows: int
    windows: int
    states: Mapping[str, int]
    state: str
    newest: int | None
    since: int | None
    rejected: Mapping[str, int]
    labelled: Mapping[str, Any] | None
    log_evidence: float
    calibration: str
    recommendation: str

    @classmethod
    def of(
        cls,
        total: Sums,
        windows: Sequence[WindowReport],
        rejected: Mapping[str, int],
        evidence: float,
        alpha: float,
        follows: bool = False,
    ) -> Summary:
        """From the sums over everything and the windows that are kept apart; `follows` says that the calibrator adapts."""
        state, newest, since = _newest(windows)
        labelled = label_report(total)
        calibration = NO_LABELS if labelled is None else BROKEN if evidence >= -math.log(alpha) else HOLDS
        counts = Counter(window.state for window in windows)
        return cls(
            rows=total.rows,
            windows=len(windows),
            states={name: counts[name] for name in STATES},
            state=state,
            newest=newest,
            since=since,
            rejected=rejected,
            labelled=labelled,
            log_evidence=evidence,
            calibration=calibration,
            recommendation=_advice(state, calibration, labelled, follows),
        )

    @property
    def evidence(self) -> float:
        """The e-value against calibration; infinite where a float cannot hold it."""
        return math.exp(self.log_evidence) if self.log_evidence < 700 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def _newest(windows: Sequence[WindowReport]) -> tuple[str, int | None, int | None]:
    telling = [window for window in windows if window.rows >= FEWEST] or windows
    if not telling:
        return UNKNOWN, None, None
    state, newest = telling[-1].state, telling[-1].window
    since = newest
    for window in reversed(telling):
        if window.state != state:
            break
        since = window.window
    return state, newest, since


def _advice(state: str, calibration: str, labelled: Mapping[str, Any] | None, follows: bool) -> str:
    if calibration == BROKEN and follows:
        return (
            "Labels show that the confidence of this calibrator's static map, which is what exports answer, does not hold. "
            "Serve it by driftcal.CalibratedModel or calibrator.stream(), which follow windows, or tune with --no-adaptive."
        )
    if calibration == BROKEN:
        return "Recalibrate: labels show that the stated confidence does not hold. driftcal recalibrate takes them."
    if state == OUT:
        return "Do not trust the predictions: look at the inputs, and collect labels for these windows."
    if state == DRIFTING:
        more = "more labels" if labelled else "labels"
        return f"Collect {more} for these windows: with them the calibration can be tested and renewed."
    return "Nothing to do." if state == OK else "Wait for more rows, or tune with a ladder."
