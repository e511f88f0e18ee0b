"""Threads: how many driftcal uses, and the pool that they belong to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from driftcal.core.scalars import is_whole
from driftcal.errors import InputError

S = TypeVar("S")
T = TypeVar("T")

_VARIABLE = "DRIFTCAL_THREADS"
#: Environment variables that other libraries read when they start.
_LIBRARY_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

_this_thread = threading.local()


def n_cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def n_threads() -> int:
    """Number of threads that driftcal uses: the environment variable ``DRIFTCAL_THREADS``, or one per core."""
    value = os.environ.get(_VARIABLE)
    if not value:
        return n_cores()
    if not value.isdecimal() or int(value) < 1:
        raise InputError(
            f"the environment variable {_VARIABLE} must be a whole number of at least 1; it is {value!r}. "
            f"Unset it to use all {n_cores()} cores."
        )
    return int(value)


def map_in_threads(function: Callable[[S], T], items: Sequence[S], *, threads: int | None = None) -> list[T]:
    """``function(item)`` of every item, in order, on `threads` threads (None: :func:`n_threads`).

    A call from inside such a thread runs its items one after the other, so nested calls cannot block each other.

    >>> map_in_threads(abs, [-1, 2, -3])
    [1, 2, 3]
    """
    if threads is not None and not (is_whole(threads) and threads >= 1):
        raise InputError(f"threads must be at least 1; it is {threads!r}. Leave it out for one per core.")
    size = threads or n_threads()
    if size == 1 or len(items) <= 1 or getattr(_this_thread, "is_pooled", False):
        return [function(item) for item in items]
    return list(_pool(size, os.getpid()).map(function, items))


def run_in_threads(function: Callable[[S], None], items: Sequence[S]) -> None:
    """Call ``function(item)`` for every item, on :func:`n_threads` threads."""
    map_in_threads(function, items)


@cache
def _pool(size: int, process: int) -> ThreadPoolExecutor:
    """The pool of this process; a forked process has another number, so it gets a new pool."""
    return ThreadPoolExecutor(size, thread_name_prefix="driftcal", initializer=_mark_thread)


def _mark_thread() -> None:
    _this_thread.is_pooled = True


def limit_threads(number: int) -> None:
    """Make this process, and the libraries in it, use `number` threads: for a worker that shares its machine."""
    from threadpoolctl import threadpool_limits

    for name in (_VARIABLE, *_LIBRARY_VARIABLES):
        os.environ[name] = str(number)
    threadpool_limits(number)


@contextmanager
def limited_threads(number: int) -> Iterator[None]:
    """Use `number` threads inside a ``with`` block."""
    from threadpoolctl import threadpool_limits

    with environment_variable(_VARIABLE, str(number)), threadpool_limits(number):
        yield


@contextmanager
def environment_variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable inside a ``with`` block."""
    previous = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if previous is None:
            del os.environ[name]
        else:
            os.environ[name] = previous
