"""A monitor as a service: it reads a stream, reports windows as they end, and keeps its files up to date."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from driftcal.errors import DataError
from driftcal.io.atomic import write_atomic
from driftcal.monitor.clock import watermark
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.serving.prometheus import MetricFamily, metric_families, prometheus_text
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
    lock : held while the monitor changes, for other threads that read it.
    on_write : called after each write of the state.
    on_message : receives a message when files cannot be written, and when they can be written again.
    changed : whether there are numbers that were not written yet.
    failed_writes : how often the files could not be written.
    """

    monitor: Monitor
    state_path: str | os.PathLike[str] | None = None
    prometheus_path: str | os.PathLike[str] | None = None
    clock: Callable[[], float] = time.monotonic
    lock: threading.RLock = field(default_factory=threading.RLock)
    on_write: Callable[[], None] = lambda: None
    on_message: Callable[[str], None] = lambda message: None
    changed: bool = True
    failed_writes: int = 0
    write_error: str | None = None

    def run(self, batches: Iterable[StreamBatch]) -> Iterator[WindowReport]:
        """Yield the report of each window when it has ended, and at the end of the stream the remaining ones.

        A window of counted samples has ended when it is full. A window of time has ended when a later one has begun;
        `watermark` ignores a few samples with an incorrect clock. If samples arrive after the report of their window,
        it is reported again with the next window that ends. A batch may be empty; it can still cause a write of the
        files. After an interruption (Ctrl-C) the files are written, too.

        A write that fails, for instance on a full disk, does not end the run: the numbers stay in memory, and the next
        write tries again. Only the last write raises its error.
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
                with self.lock:
                    self._feed(batch)
                    reports = list(self._report(reported, self._ended(reported)))
                yield from reports
                if self.changed and not batch.more and self.clock() - written > WRITE_INTERVAL:
                    self.try_write()
                    written = self.clock()
            yield from self._report(reported, set(monitor.sums))
        finally:
            self.write()

    def write(self) -> None:
        """Write the state file and the Prometheus file, if they have paths."""
        path = self.state_path
        try:
            if self.state_path is not None:
                self.monitor.save(self.state_path)
                self.on_write()
            if self.prometheus_path is not None:
                path = self.prometheus_path
                write_atomic(Path(self.prometheus_path), self.prometheus_text().encode())
        except OSError as error:
            self.failed_writes += 1
            raise DataError(
                f"{path} must be writable; writing it failed: {error.strerror or error}. What is new since the last write "
                "is only in memory: free space on the disk, or allow writing."
            ) from error
        self.changed = False

    def try_write(self) -> None:
        """Write the files. If it fails, keep all numbers in memory for the next try; the first failure is reported."""
        before, self.write_error = self.write_error, None
        try:
            self.write()
        except DataError as error:
            self.write_error = str(error)
            if before is None:
                self.on_message(f"{error} It is tried again every {WRITE_INTERVAL:g} seconds.")
        else:
            if before is not None:
                self.on_message("the files could be written again; nothing was lost.")

    def metric_families(self) -> list[MetricFamily]:
        """The newest numbers as metrics of Prometheus."""
        with self.lock:
            monitor = self.monitor
            summary = monitor.summary()
            newest = None if summary.newest is None else monitor.window(summary.newest)
            return metric_families(
                newest, summary, monitor.class_names, n_pending=len(monitor.pending), failed_writes=self.failed_writes
            )

    def prometheus_text(self) -> str:
        """The newest numbers in Prometheus' text format."""
        return prometheus_text(self.metric_families())

    def _feed(self, batch: StreamBatch) -> None:
        self.changed |= batch.scores is not None or bool(batch.late_labels) or bool(batch.rejected)
        self.monitor.add_batch(batch)

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
