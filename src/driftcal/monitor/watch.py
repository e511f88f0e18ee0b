"""A monitor at work on a stream: windows as they end, its state and its figures written now and then."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driftcal.errors import DataError
from driftcal.io.atomic import write_atomic
from driftcal.monitor.clock import front
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.prometheus import prometheus_text
from driftcal.monitor.states import WindowReport
from driftcal.monitor.stream import Batch, file_batches, json_batches

Place = str | os.PathLike[str]
#: Seconds between two writes of the state: a disk is not flushed for every row.
PAUSE = 5.0


def batches_of(places: Sequence[str], inputs: str, *, timed: bool = False) -> Iterator[Batch]:
    """The rows of files one after the other; "-" is standard input, with lines of JSON.

    Where windows are `timed`, a row needs a time: one of standard input that brings none has the time at which it is read, one
    of a file is rejected. A file that is not there is said before the first is read.
    """
    for place in places:
        if place != "-" and (not Path(place).exists() or Path(place).is_dir()):
            fact = "it is a folder" if Path(place).is_dir() else "there is no such file"
            raise DataError(
                f"{place} must be a file of rows; {fact}. Nothing was read: check the path, or give - for lines of JSON on stdin."
            )
    return _batches(places, inputs, timed)


def _batches(places: Sequence[str], inputs: str, timed: bool) -> Iterator[Batch]:
    for place in places:
        live = place == "-"
        for batch in json_batches(sys.stdin.buffer, inputs) if live else file_batches(place, inputs):
            if timed and batch.scores is not None and batch.at is None:
                yield replace(batch, at=time.time()) if live else Batch(rejected={"no time": len(batch.scores)})
            else:
                yield batch


@dataclass
class Watch:
    """Feeds a monitor. `state` and `prometheus` are files to keep up to date."""

    monitor: Monitor
    state: Place | None = None
    prometheus: Place | None = None
    clock: Callable[[], float] = time.monotonic
    #: Whether there is anything that was not written yet.
    changed: bool = True

    def run(self, batches: Iterable[Batch]) -> Iterator[WindowReport]:
        """Every window as soon as it has ended, and in the end those that have not.

        A window has ended when it holds as many rows as it should, if rows are counted, or when a later one has begun (`front`
        says what a few rows with a wrong clock do). One that got more rows afterwards is told again with the next that
        ends. Batches may be empty: a quiet stream is written as well. After an interruption (Ctrl-C) everything seen is
        written first.
        """
        monitor = self.monitor
        newest = front(monitor.sums)
        # what an earlier run has reported: windows, and their rows at that time
        told = {key: int(sums[0]) for key, sums in monitor.sums.items() if newest is not None and key < newest}
        written = self.clock()
        try:
            for batch in batches:
                self._feed(batch)
                yield from self._tell(told, self._ended(told))
                if self.changed and self.clock() - written > PAUSE:
                    self.write()
                    written = self.clock()
            yield from self._tell(told, set(monitor.sums))
        finally:
            self.write()

    def write(self) -> None:
        """Write the state and the figures, where they were asked for."""
        if self.state is not None:
            self.monitor.save(self.state)
        if self.prometheus is not None:
            write_atomic(Path(self.prometheus), self.figures().encode())
        self.changed = False

    def figures(self) -> str:
        """The newest numbers in Prometheus' text format."""
        summary = self.monitor.summary()
        windows = [] if summary.newest is None else [self.monitor.window(summary.newest).to_dict()]
        return prometheus_text(windows, summary.to_dict(), self.monitor.class_names)

    def _feed(self, batch: Batch) -> None:
        monitor = self.monitor
        self.changed |= batch.scores is not None or bool(batch.late) or bool(batch.rejected)
        monitor.rejected.update(batch.rejected)
        if batch.scores is not None:
            monitor.update(batch.scores, at=batch.at, y=batch.labels, ids=batch.ids)
        if batch.late:
            monitor.label([name for name, _ in batch.late], [label for _, label in batch.late])

    def _ended(self, told: dict[int, int]) -> set[int]:
        """Windows that have ended, if any of them was not told yet."""
        sums = self.monitor.sums
        newest = front(sums)
        # a window of time is full when its time is over, however many rows it holds
        full = math.inf if self.monitor.timed else self.monitor.settings.every
        ended = {key for key in sums if newest is not None and sums[key][0] and (key < newest or sums[key][0] >= full)}
        return ended if ended - set(told) else set()

    def _tell(self, told: dict[int, int], keys: set[int]) -> Iterator[WindowReport]:
        """Those of some windows that have rows which were not told, in order of time."""
        sums = self.monitor.sums
        for key in sorted(keys):
            rows = int(sums[key][0])
            if rows > told.get(key, 0):
                told[key] = rows
                yield self.monitor.window(key)
        for key in set(told) - set(sums):
            del told[key]
