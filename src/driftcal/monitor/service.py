"""A monitor as a service: it reads a stream, reports windows as they end, and keeps its files up to date."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from driftcal.io.atomic import write_atomic
from driftcal.monitor.clock import watermark
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.prometheus import prometheus_text
from driftcal.monitor.stream_reader import StreamBatch
from driftcal.monitor.window_report import WindowReport
from driftcal.monitor.window_sums import N_SAMPLES

#: Seconds between two writes of the files, so that the disk is not flushed for every sample.
WRITE_INTERVAL = 5.0


@dataclass
class MonitorService:
    """Feeds a monitor from a stream.

    Parameters
    ----------
    monitor : the monitor.
    state_path : file for the state of the monitor; None for no file.
    prometheus_path : file for the metrics in Prometheus' format; None for no file.
    clock : a function that returns seconds, for the interval between two writes.
    changed : whether there are numbers that were not written yet.
    """

    monitor: Monitor
    state_path: str | os.PathLike[str] | None = None
    prometheus_path: str | os.PathLike[str] | None = None
    clock: Callable[[], float] = time.monotonic
    changed: bool = True

    def run(self, batches: Iterable[StreamBatch]) -> Iterator[WindowReport]:
        """Yield the report of each window when it has ended, and at the end of the stream the remaining ones.

        A window of counted samples has ended when it is full. A window of time has ended when a later one has begun;
        `watermark` ignores a few samples with an incorrect clock. If samples arrive after the report of their window,
        it is reported again with the next window that ends. A batch may be empty; it can still cause a write of the
        files. After an interruption (Ctrl-C) the files are written, too.
        """
        monitor = self.monitor
        reached = watermark(monitor.sums)
        # window -> its number of samples when it was last reported; an earlier run has reported all ended windows
        reported = {
            window: int(sums[N_SAMPLES])
            for window, sums in monitor.sums.items()
            if reached is not None and window < reached
        }
        written = self.clock()
        try:
            for batch in batches:
                self._feed(batch)
                yield from self._report(reported, self._ended(reported))
                if self.changed and self.clock() - written > WRITE_INTERVAL:
                    self.write()
                    written = self.clock()
            yield from self._report(reported, set(monitor.sums))
        finally:
            self.write()

    def write(self) -> None:
        """Write the state file and the Prometheus file, if they have paths."""
        if self.state_path is not None:
            self.monitor.save(self.state_path)
        if self.prometheus_path is not None:
            write_atomic(Path(self.prometheus_path), self.prometheus_text().encode())
        self.changed = False

    def prometheus_text(self) -> str:
        """The newest numbers in Prometheus' text format."""
        summary = self.monitor.summary()
        newest = None if summary.newest is None else self.monitor.window(summary.newest)
        return prometheus_text(newest, summary, self.monitor.class_names)

    def _feed(self, batch: StreamBatch) -> None:
        monitor = self.monitor
        self.changed |= batch.scores is not None or bool(batch.late_labels) or bool(batch.rejected)
        monitor.rejected.update(batch.rejected)
        if batch.scores is not None:
            monitor.update(batch.scores, times=batch.times, y=batch.labels, ids=batch.ids)
        if batch.late_labels:
            monitor.add_labels([name for name, _ in batch.late_labels], [label for _, label in batch.late_labels])

    def _ended(self, reported: dict[int, int]) -> set[int]:
        """The windows that have ended, if any of them was not reported yet."""
        sums = self.monitor.sums
        reached = watermark(sums)
        if reached is None:
            return set()
        n_samples = {window: int(sums[window][N_SAMPLES]) for window in sums}
        # a window of time may hold any number of samples
        full = math.inf if self.monitor.timed else self.monitor.settings.window_size
        ended = {window for window, n in n_samples.items() if n and (window < reached or n >= full)}
        return ended if ended - set(reported) else set()

    def _report(self, reported: dict[int, int], windows: set[int]) -> Iterator[WindowReport]:
        """The reports of those of these windows that have samples which were not reported, in order of time."""
        sums = self.monitor.sums
        for window in sorted(windows):
            n_samples = int(sums[window][N_SAMPLES])
            if n_samples > reported.get(window, 0):
                reported[window] = n_samples
                yield self.monitor.window(window)
        for window in set(reported) - set(sums):
            del reported[window]
