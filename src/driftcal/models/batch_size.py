"""How many rows a model gets at once: as many as are useful, if they fit into memory."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

#: More rows at once make no model faster on a processor, and larger batches leave fewer points to resume from.
MOST = 256

#: A network keeps more than its input: this many times its bytes are reckoned at least, whatever the probe saw.
_INPUT_COPIES = 64

_PROBE_ROWS = 8


def choose_batch_size(run: Callable[[int], object], row_bytes: int) -> int:
    """A power of two up to 256 whose memory stays below a quarter of the machine's.

    `run(n)` answers n rows. The budget is a share of all memory, not of what happens to be free, so the same model gets
    the same batch size again tomorrow on this machine. Several rows are tried only if they will fit, going by one: a large
    network on large images needs gigabytes for each.
    """
    budget = memory_limit() // 4
    seen = peak_memory(lambda: run(1))
    if seen * _PROBE_ROWS <= budget:  # what a first run sets up counts for less among several rows
        seen = peak_memory(lambda: run(_PROBE_ROWS)) // _PROBE_ROWS
    fitting = max(1, budget // max(_INPUT_COPIES * row_bytes, seen, 1))
    return min(MOST, 1 << (fitting.bit_length() - 1))


def peak_memory(action: Callable[[], object]) -> int:
    """How far the resident memory of this process rose above its start while `action` ran, in bytes; 0 if unknown."""
    gc.collect()
    with suppress(OSError, AttributeError):  # glibc's: what earlier runs left behind would be used again, unseen
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
    total = 4 << 30  # where nobody tells
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
