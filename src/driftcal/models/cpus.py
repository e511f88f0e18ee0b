"""How many processors this process may use."""

from __future__ import annotations

import os


def available_cpus() -> int:
    """The processors that the system lets this process run on, or OMP_NUM_THREADS where that is set."""
    wish = os.environ.get("OMP_NUM_THREADS", "")
    if wish.isdecimal() and int(wish) > 0:
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
