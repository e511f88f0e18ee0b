"""Printing the windows of a monitor: lines of text or JSON, or a table that is redrawn on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from driftcal.cli.console import Console, plain_numbers
from driftcal.core.messages import printable

if TYPE_CHECKING:
    from driftcal.monitor.window_report import WindowReport

#: The most windows of the table on a terminal; the newest is the last row.
_MAX_SHOWN = 15


@contextmanager
def window_printer(console: Console, silent: bool) -> Iterator[Any]:
    """A function that prints a window: as a JSON line, in a table that is redrawn on a terminal, or as a text line."""
    if silent:
        yield lambda window: None
    elif console.as_json:
        yield _Printer(console, lambda window: json.dumps(plain_numbers(window.to_dict())))
    elif sys.stdout.isatty():
        from rich.live import Live

        shown: list[WindowReport] = []
        with Live(_table(shown), refresh_per_second=4) as live:

            def redraw(window: WindowReport) -> None:
                shown.append(window)
                del shown[:-_MAX_SHOWN]
                live.update(_table(shown))

            yield redraw
    else:
        yield _Printer(console, lambda window: printable(_line(window)))


class _Printer:
    """Prints windows as lines. A full disk behind stdout is reported once and does not stop the monitor."""

    def __init__(self, console: Console, line_of: Callable[[WindowReport], str]) -> None:
        self.console, self.line_of, self.failed = console, line_of, False

    def __call__(self, window: WindowReport) -> None:
        try:
            print(self.line_of(window), flush=True)
        except BrokenPipeError:  # nobody reads any more
            raise
        except OSError as error:
            if not self.failed:
                self.console.message(f"windows cannot be printed: {error.strerror}. Monitoring goes on.")
            self.failed = True


_COLUMNS = {
    "begin": "from",
    "n_samples": "samples",
    "state": "state",
    "accuracy": "estimated accuracy",
    "overconfidence": "overconfidence",
    "level": "nearest level",
    "low_confidence": "low confidence",
    "accepted": "accepted",
}


def _cells(window: WindowReport) -> dict[str, str]:
    cells = {
        "begin": f"{window.begin:,.10g}",
        "n_samples": f"{window.n_samples:,}",
        "state": window.state,
        "low_confidence": f"{window.low_confidence_share:.1%}",
        "accuracy": "–",
        "overconfidence": "–",
        "level": window.nearest_level or "–",
        "accepted": "–" if window.accepted_share is None else f"{window.accepted_share:.1%}",
    }
    if window.accuracy is not None and window.accuracy_interval is not None:
        low, high = window.accuracy_interval
        cells["accuracy"] = f"{window.accuracy:.3f} ({low:.2f}–{high:.2f})"
        cells["overconfidence"] = f"{window.overconfidence:+.3f}"
    if window.accepted_accuracy is not None:
        cells["accepted"] += f", accuracy {window.accepted_accuracy:.3f}"
    return cells


def _line(window: WindowReport) -> str:
    cells = _cells(window)
    accepted = "" if window.accepted_share is None else f", accepted {cells['accepted']}"
    return (
        f"{cells['begin']}: {cells['state']}, {cells['n_samples']} samples, accuracy {cells['accuracy']}, "
        f"overconfidence {cells['overconfidence']}, {cells['level']}, low confidence {cells['low_confidence']}{accepted}"
    )


def _table(windows: list[WindowReport]) -> Any:
    from driftcal.report.table import Table, to_terminal

    return to_terminal(Table("windows", "", _COLUMNS, [_cells(window) for window in windows]))
