"""Progress bars on a terminal, or lines of progress elsewhere. File names cannot control the terminal."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from driftcal.core.messages import printable

#: A run that takes fewer seconds has no progress bar.
BAR_AFTER = 2.0
#: Seconds between lines of progress if stderr is not a terminal.
LINE_EVERY = 15.0
#: The share of the work after which the remaining time is estimated: the start reads files and compiles.
ESTIMATE_AFTER = 0.05


def is_interactive() -> bool:
    """Whether a person looks: stderr is a terminal, or this is a notebook."""
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


class Progress:
    """Counts inputs: a bar with rate and remaining time on a terminal, a line every 15 seconds elsewhere."""

    def __init__(self, title: str, n_inputs: int, *, shown: bool) -> None:
        self.title, self.n_inputs, self.done, self.current = title, n_inputs, 0, ""
        self._begun = self._last_line = time.monotonic()
        self._terminal = shown and sys.stderr.isatty()
        self._lines = shown and not self._terminal
        self._bar: Any = None
        self._closed = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(BAR_AFTER, self._open)
        self._timer.daemon = True
        if self._terminal:
            self._timer.start()

    def __call__(self, current: str, n_inputs: int) -> None:
        """Count `n_inputs` more inputs; `current` is the name of what is being computed."""
        self.done += n_inputs
        self.current = current
        self.n_inputs = max(self.n_inputs, self.done)
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, total=self.n_inputs, current=printable(current))
        elif self._lines and time.monotonic() - self._last_line > LINE_EVERY:
            self._last_line = time.monotonic()
            rate = self.done / (self._last_line - self._begun)
            left = f", about {duration((self.n_inputs - self.done) / rate)} left" if self._has_estimate() else ""
            print(
                f"{self.title}: {self.done:,} of {self.n_inputs:,} inputs, {rate:,.0f}/s{left}",
                file=sys.stderr,
                flush=True,
            )

    def _has_estimate(self) -> bool:
        return self.done >= ESTIMATE_AFTER * self.n_inputs

    def _open(self) -> None:
        from rich import progress

        has_estimate = self._has_estimate

        class TimeLeft(progress.TimeRemainingColumn):
            def render(self, task: Any) -> Any:
                return super().render(task) if has_estimate() else ""

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.fields[rate]}", markup=False),
            TimeLeft(),
            progress.TextColumn("{task.fields[current]}", markup=False),
        )
        with self._lock:
            if self._closed:
                return
            bar = progress.Progress(*columns, console=rich_console(sys.stderr), transient=True)
            self._task = bar.add_task(
                self.title, total=self.n_inputs or None, completed=self.done, current=self.current, rate=""
            )
            bar.start()
            self._bar = bar
        threading.Thread(target=self._update_rate, daemon=True).start()

    def _update_rate(self) -> None:
        while not self._closed:
            seconds = time.monotonic() - self._begun
            self._bar.update(self._task, rate=f"{self.done / seconds:,.0f}/s" if self.done else "")
            time.sleep(0.5)

    def close(self) -> None:
        """Remove the bar."""
        with self._lock:
            self._closed = True
            self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()


def duration(seconds: float) -> str:
    """Seconds as text.

    >>> duration(0.2), duration(75), duration(4000), duration(7199)
    ('under a second', '1 min 15 s', '1 h 7 min', '2 h 0 min')
    """
    rounded = round(seconds)
    if rounded < 1:
        return "under a second"
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s"
    minutes = round(rounded / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def rich_console(stream: Any) -> Any:
    """A console that prints names unchanged: without markup, highlighting and emoji codes."""
    from rich.console import Console

    width = None if stream.isatty() else 120
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False)
