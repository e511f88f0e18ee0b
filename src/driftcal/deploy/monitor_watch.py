"""A monitor at work on a stream: windows as they end, its state and its figures written now and then."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from driftcal.deploy.monitor import Monitor
from driftcal.deploy.monitor_prometheus import prometheus_text
from driftcal.deploy.monitor_state import WindowReport
from driftcal.deploy.monitor_stream import Batch, file_batches, json_batches
from driftcal.files import write_atomic

Place = str | os.PathLike[str]
#: Seconds between two writes of the state: a disk is not flushed for every row.
PAUSE = 5.0


def batches_of(places: Iterable[str], inputs: str) -> Iterator[Batch]:
    """The rows of files one after the other; "-" is standard input, with lines of JSON."""
    for place in places:
        yield from json_batches(sys.stdin.buffer, inputs) if place == "-" else file_batches(place, inputs)


@dataclass
class Watch:
    """Feeds a monitor. `state` and `prometheus` are files to keep up to date."""

    monitor: Monitor
    state: Place | None = None
    prometheus: Place | None = None
    clock: Callable[[], float] = time.monotonic

    def run(self, batches: Iterable[Batch]) -> Iterator[WindowReport]:
        """Every window as soon as it has ended, and in the end those that have not.

        A window has ended when it holds as many rows as it should, or when a later one has begun. After an interruption
        (Ctrl-C) everything seen is written first.
        """
        monitor = self.monitor
        newest = max(monitor.sums, default=None)
        told = {key for key in monitor.sums if key != newest}  # what an earlier run has reported
        written = self.clock()
        try:
            for batch in batches:
                self._feed(batch)
                ended = self._ended(told)
                yield from map(monitor.window, ended)
                told = (told | set(ended)) & set(monitor.sums)
                if self.clock() - written > PAUSE:
                    self.write()
                    written = self.clock()
            rest = [key for key in sorted(monitor.sums) if key not in told and monitor.sums[key][0]]
            yield from map(monitor.window, rest)
        finally:
            self.write()

    def write(self) -> None:
        """Write the state and the figures, where they were asked for."""
        if self.state is not None:
            self.monitor.save(self.state)
        if self.prometheus is not None:
            write_atomic(Path(self.prometheus), self.figures().encode())

    def figures(self) -> str:
        """The newest numbers in Prometheus' text format."""
        windows = [self.monitor.window(max(self.monitor.sums))] if self.monitor.sums else []
        names = [str(name) for name in self.monitor.calibrator.classes_]
        return prometheus_text([w.to_dict() for w in windows if w.rows], self.monitor.summary().to_dict(), names)

    def _feed(self, batch: Batch) -> None:
        monitor = self.monitor
        monitor.rejected.update(batch.rejected)
        if batch.scores is not None:
            monitor.update(batch.scores, at=batch.at, y=batch.labels, ids=batch.ids)
        if batch.late:
            monitor.label([name for name, _ in batch.late], [label for _, label in batch.late])

    def _ended(self, told: set[int]) -> list[int]:
        sums = self.monitor.sums
        newest = max(sums, default=0)
        full = self.monitor.settings.every
        return [
            key for key in sorted(sums) if key not in told and sums[key][0] and (key < newest or sums[key][0] >= full)
        ]
