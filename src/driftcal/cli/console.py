"""How commands speak: data on stdout, talk and progress on stderr, and nothing a file name can do to the terminal."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from driftcal.core.text import printable as printable

#: A run that is over before this many seconds needs no bar.
PATIENCE = 2.0
#: Without a terminal there is a line now and then instead.
EVERY = 15.0


def wrapped(text: object, stream: Any) -> str:
    """Text broken between words where `stream` is a terminal; elsewhere one line."""
    line = printable(text)
    return "\n".join(textwrap.wrap(line, max(40, shutil.get_terminal_size().columns))) if stream.isatty() else line


def plain_numbers(value: Any) -> Any:
    """The same value with what JSON cannot hold (NaN, infinity) as null."""
    if isinstance(value, dict):
        return {str(key): plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Prose:
    """Sentences, which may be broken between words; any other text, such as a path, stays in one piece."""

    text: str


@dataclass(frozen=True)
class Talk:
    """What a command may say: `as_json` turns data into JSON, `quiet` leaves only data and errors."""

    as_json: bool = False
    quiet: bool = False

    def say(self, text: object) -> None:
        """A sentence for a human, on stderr."""
        if not self.quiet:
            print(wrapped(text, sys.stderr), file=sys.stderr)

    def show(self, table: Any) -> None:
        """A table for a human, on stderr."""
        if not self.quiet and not self.as_json:
            _console(sys.stderr).print(table)

    def give(self, value: Any, *shown: Any) -> None:
        """The command's data, on stdout: as JSON, or as lines and tables to read."""
        if self.as_json:
            print(json.dumps(plain_numbers(value)))
            return
        for item in shown:
            if isinstance(item, Prose):
                print(wrapped(item.text, sys.stdout))
            elif isinstance(item, str):
                print(printable(item))
            else:
                _console(sys.stdout).print(item)

    @contextmanager
    def progress(self, title: str, inputs: int) -> Iterator[Progress]:
        """A bar over so many model inputs; it appears when the work takes longer than a moment."""
        bar = Progress(title, inputs, shown=not self.quiet)
        try:
            yield bar
        finally:
            bar.close()


class Progress:
    """Counts inputs. On a terminal a bar with rate and remaining time, elsewhere a line now and then."""

    def __init__(self, title: str, inputs: int, *, shown: bool) -> None:
        self.title, self.inputs, self.done, self.what = title, inputs, 0, ""
        self._begun = self._spoken = time.monotonic()
        self._terminal = shown and sys.stderr.isatty()
        self._lines = shown and not self._terminal
        self._bar: Any = None
        self._closed = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._open)
        self._timer.daemon = True
        if self._terminal:
            self._timer.start()

    def __call__(self, what: str, rows: int) -> None:
        """So many more inputs are done."""
        self.done += rows
        self.what = what
        self.inputs = max(self.inputs, self.done)
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, total=self.inputs, what=printable(what))
        elif self._lines and time.monotonic() - self._spoken > EVERY:
            self._spoken = time.monotonic()
            rate = self.done / (self._spoken - self._begun)
            left = (self.inputs - self.done) / rate
            print(
                f"{self.title}: {self.done:,} of {self.inputs:,} inputs, {rate:,.0f}/s, about {duration(left)} left",
                file=sys.stderr,
                flush=True,
            )

    def _open(self) -> None:
        from rich import progress

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=None),
            progress.TextColumn("{task.fields[rate]}", markup=False),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[what]}", markup=False),
        )
        with self._lock:
            if self._closed:
                return
            bar = progress.Progress(*columns, console=_console(sys.stderr), transient=True)
            self._task = bar.add_task(
                self.title, total=self.inputs or None, completed=self.done, what=self.what, rate=""
            )
            bar.start()
            self._bar = bar
        threading.Thread(target=self._keep_rate, daemon=True).start()

    def _keep_rate(self) -> None:
        while not self._closed:
            seconds = time.monotonic() - self._begun
            self._bar.update(self._task, rate=f"{self.done / seconds:,.0f}/s" if self.done else "")
            time.sleep(0.5)

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._closed = True
            self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()


def duration(seconds: float) -> str:
    """Seconds as a human says them.

    >>> duration(0.2), duration(75), duration(4000)
    ('under a second', '1 min 15 s', '1 h 7 min')
    """
    whole = round(seconds)
    if whole < 1:
        return "under a second"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {round(whole % 3600 / 60)} min"


def _console(stream: Any) -> Any:
    """Names are printed as they are: no markup, no highlighting, no emoji codes."""
    from rich.console import Console

    width = None if stream.isatty() else 120
    return Console(file=stream, markup=False, highlight=False, emoji=False, width=width, soft_wrap=False)
