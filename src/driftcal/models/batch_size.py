"""The number of samples per call of a model: as many as are useful and fit into memory."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: Larger batches are not faster on a processor, and an interrupted run would lose more.
LARGEST_BATCH = 256

#: A network needs at least this many times the memory of its input, for its layers.
_INPUT_COPIES = 64

_PROBE_SAMPLES = 8

#: Bytes of memory that are assumed if the system does not report its size.
_UNKNOWN_MEMORY = 4 << 30


def choose_batch_size(run: Callable[[int], object], sample_bytes: int) -> int:
    """A power of two up to 256 whose memory stays below a quarter of the machine's.

    `run(n)` runs the model on n samples. The budget is a share of all memory, not of the free memory, so that a model
    gets the same batch size again on the same machine. A large network may need gigabytes per sample, so one sample is
    tried first.
    """
    budget = memory_limit() // 4
    per_sample = peak_memory(lambda: run(1))
    if per_sample * _PROBE_SAMPLES <= budget:  # the memory that a first run sets up is then shared by several samples
        per_sample = peak_memory(lambda: run(_PROBE_SAMPLES)) // _PROBE_SAMPLES
    n_fitting = max(1, budget // max(_INPUT_COPIES * sample_bytes, per_sample, 1))
    return min(LARGEST_BATCH, 1 << (n_fitting.bit_length() - 1))


def peak_memory(action: Callable[[], object]) -> int:
    """The largest rise of this process's resident memory while `action` ran, in bytes; 0 if unknown."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc only: memory that earlier runs freed would not be counted again
        ctypes.CDLL(None).malloc_trim(0)
    start = _resident()
    if start == 0:
        action()
        return 0
    peak, done = start, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, _resident())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        action()
    finally:
        done.set()
        watcher.join()
    return max(0, max(peak, _resident()) - start)


def memory_limit() -> int:
    """Bytes of memory that this process may use: the machine's, or the container's if that is less."""
    total = _UNKNOWN_MEMORY
    with suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text()))
    return total


def _resident() -> int:
    """Bytes of this process in memory; 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
