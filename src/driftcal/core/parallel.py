"""How many cores work may use, and threads on all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from driftcal.errors import InputError


def threads() -> int:
    """How many threads passes use: the cores this process may run on, or ``DRIFTCAL_THREADS``."""
    wish = os.environ.get("DRIFTCAL_THREADS")
    if wish:
        if not wish.isdecimal() or int(wish) < 1:
            raise InputError(f"DRIFTCAL_THREADS must be a whole number of at least 1; it is {wish!r}. Or unset it.")
        return int(wish)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(size: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="driftcal")


def run_in_threads(run: Callable[[int], None], numbers: Sequence[int]) -> None:
    """``run(number)`` for every number, on all cores."""
    size = threads()
    if size == 1 or len(numbers) <= 1:
        for number in numbers:
            run(number)
    else:
        list(_pool(size, os.getpid()).map(run, numbers))
