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

#: Seconds between two writes of the files: a disk is not flushed for every sample.
WRITE_INTERVAL = 5.0


@dataclass
class MonitorService:
    """Feeds a monitor from a stream.

    Parameters
    ----------
    monitor : the monitor.
    state_path : file that keeps the state of the monitor; None for no file.
    prometheus_path : file that keeps its numbers for Prometheus; None for no file.
    clock : seconds, for the interval between two writes.
    changed : whether anything was not written yet.
    """

    monitor: Monitor
    state_path: str | os.PathLike[str] | None = None
    prometheus_path: str | os.PathLike[str] | None = None
    clock: Callable[[], float] = time.monotonic
    changed: bool = True

    def run(self, batches: Iterable[StreamBatch]) -> Iterator[WindowReport]:
        """Yield each window as soon as it has ended, and at the end of the stream the remaining ones.

        A window of counted samples has ended when it is full, a window of time when a later one has begun (`watermark`
        ignores a few samples with a wrong clock). A window with samples that arrived after its report is reported again
        with the next one that ends. Batches may be empty; the files are written then, too. After an interruption
        (Ctrl-C) everything is written first.
        """
        monitor = self.monitor
        reached = watermark(monitor.sums)
        # window -> its number of samples when it was last reported, here by an earlier run
        reported = {
            window: int(sums[0]) for window, sums in monitor.sums.items() if reached is not None and window < reached
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
        """Write the files that were asked for."""
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
        # a window of time is full when its time is over, however many samples it holds
        full = math.inf if self.monitor.timed else self.monitor.settings.window_size
        ended = {window for window in sums if sums[window][0] and (window < reached or sums[window][0] >= full)}
        return ended if ended - set(reported) else set()

    def _report(self, reported: dict[int, int], windows: set[int]) -> Iterator[WindowReport]:
        """Those of some windows that have samples which were not reported, in order of time."""
        sums = self.monitor.sums
        for window in sorted(windows):
            n_samples = int(sums[window][0])
            if n_samples > reported.get(window, 0):
                reported[window] = n_samples
                yield self.monitor.window(window)
        for window in set(reported) - set(sums):
            del reported[window]
