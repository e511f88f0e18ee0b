"""What all benchmarks share: alternating timings with peak memory, Markdown tables, and pages that keep their discussion."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Heading of the part of a page that is written by hand.
FINDINGS = "\n## Findings"


@dataclass(frozen=True)
class Timing:
    """Median seconds over the rounds, and the peak of anonymous memory (in MB) above the start."""

    seconds: float
    memory: float = 0.0


def anonymous_memory() -> int:
    """Bytes of memory of this process that no file backs."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


class PeakMemory:
    """The peak of anonymous memory inside a ``with`` block, above its start; sampled every 2 ms."""

    def __enter__(self) -> PeakMemory:
        with contextlib.suppress(OSError, AttributeError):  # memory that was freed before must not hide a peak
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        self._start = self._peak = anonymous_memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while not self._done.wait(0.002):
            self._peak = max(self._peak, anonymous_memory())

    def __exit__(self, *_: object) -> None:
        self._peak = max(self._peak, anonymous_memory())
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return (self._peak - self._start) / 1e6


def seconds_of(task: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The duration of one call."""
    start = clock()
    task()
    return clock() - start


def alternate(tasks: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Run every task once per round, in turn: a busy machine slows them all. The caller warms up compiled code."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    memory = dict.fromkeys(tasks, 0.0)
    for _ in range(rounds):
        for name, task in tasks.items():
            with PeakMemory() as peak:
                seconds[name].append(seconds_of(task))
            memory[name] = max(memory[name], peak.megabytes)
    return {name: Timing(statistics.median(times), memory[name]) for name, times in seconds.items()}


def machine() -> str:
    """One line about the machine and how busy it was."""
    from driftcal.core.parallel import n_cores  # not before: what a benchmark imports is part of its memory

    return f"{n_cores()} cores, {platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"


def table_row(cells: Iterable[object]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def table_head(titles: Iterable[str], n_text: int = 1) -> str:
    """The head of a Markdown table whose first `n_text` columns are text and the others numbers."""
    listed = list(titles)
    alignment = ["---"] * n_text + ["---:"] * (len(listed) - n_text)
    return f"{table_row(listed)}\n|{'|'.join(alignment)}|"


def write_page(path: Path, text: str) -> None:
    """Write a page; its findings, which are written by hand, stay."""
    _, heading, findings = path.read_text().partition(FINDINGS) if path.exists() else ("", "", "")
    path.write_text(text.rstrip("\n") + "\n" + heading + findings)
