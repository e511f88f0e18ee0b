"""How many samples a model gets at once: as many as are useful, if they fit into memory."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: Larger batches make no model faster on a processor, and they leave fewer points to resume from.
LARGEST_BATCH = 256

#: A network keeps more than its input: it is taken to need at least this many times the input's bytes.
_INPUT_COPIES = 64

_PROBE_SAMPLES = 8

#: Bytes, where the system does not say how much memory there is.
_UNKNOWN_MEMORY = 4 << 30


def choose_batch_size(run: Callable[[int], object], sample_bytes: int) -> int:
    """A power of two up to 256 whose memory stays below a quarter of the machine's.

    `run(n)` runs the model on n samples. The budget is a share of all memory, not of what happens to be free, so a model gets the
    same batch size again on the same machine. Several samples are tried only if one says that they will fit: a large
    network on large images needs gigabytes for each.
    """
    budget = memory_limit() // 4
    per_sample = peak_memory(lambda: run(1))
    if per_sample * _PROBE_SAMPLES <= budget:  # what a first run sets up counts for less among several samples
        per_sample = peak_memory(lambda: run(_PROBE_SAMPLES)) // _PROBE_SAMPLES
    fitting = max(1, budget // max(_INPUT_COPIES * sample_bytes, per_sample, 1))
    return min(LARGEST_BATCH, 1 << (fitting.bit_length() - 1))


def peak_memory(action: Callable[[], object]) -> int:
    """By how many bytes the resident memory of this process rose while `action` ran; 0 if unknown."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc only: memory that earlier runs left would be used again, uncounted
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
    """Bytes of memory that this process may use: the machine's, or the container's where that is less."""
    total = _UNKNOWN_MEMORY
    with suppress(OSError, ValueError, AttributeError):
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):
            total = min(total, int(Path(name).read_text()))
    return total


def _resident() -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
