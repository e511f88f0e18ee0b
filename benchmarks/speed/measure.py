"""Alternating timings with peak memory: a busy machine slows all contestants of a round alike."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Median seconds over the rounds, and the most anonymous memory (in MB) held beyond the start."""

    seconds: float
    memory: float
    rounds: int


def anonymous_memory() -> int:
    """Bytes of memory of this process that no file backs."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


class PeakMemory:
    """The most anonymous memory seen while inside, sampled every 2 ms, beyond what was there before."""

    def __enter__(self) -> PeakMemory:
        with contextlib.suppress(OSError, AttributeError):  # what was freed before must not hide what is taken now
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        self._start = self._peak = anonymous_memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self._peak = max(self._peak, anonymous_memory())

    def __exit__(self, *_: object) -> None:
        self._peak = max(self._peak, anonymous_memory())
        self._done.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return (self._peak - self._start) / 1e6


def alternate(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Run every contestant once per round, in turn. The caller warms up compiled code before."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    memory = dict.fromkeys(contestants, 0.0)
    for _ in range(rounds):
        for name, run in contestants.items():
            with PeakMemory() as peak:
                started = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - started)
            memory[name] = max(memory[name], peak.megabytes)
    return {name: Timing(statistics.median(times), memory[name], rounds) for name, times in seconds.items()}


def machine() -> str:
    """One line about where this ran and how busy it was."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {platform.machine()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"
