"""Compiled functions ("kernels"), and the one place that decides where plain numpy replaces them.

Importing numba takes a second, and compiling a kernel takes seconds after an install. So numba is imported when the
first kernel really runs, and a kernel may name a numpy function that does the same on small inputs. The choice depends
on the size of the input alone, never on what happened before, so the same input always gives the same bits. Both agree
to about 1e-15. A part of a large input counts as large: passes and `map_blocks` say so with :func:`part_of`.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from driftcal.core.progress import is_interactive

#: Inputs of up to so many scores are computed by numpy, where a kernel names a numpy function. Numpy then takes at most
#: two milliseconds for a pass; benchmarks/speed/start_up.md has the figures.
SMALL = 1 << 15

_this_thread = threading.local()


@contextmanager
def part_of(n_scores: int) -> Iterator[None]:
    """Inside, arrays are parts of an input with `n_scores` scores: if that is large, kernels are compiled ones."""
    if n_scores <= SMALL:
        yield
        return
    before = getattr(_this_thread, "is_large", False)
    _this_thread.is_large = True
    try:
        yield
    finally:
        _this_thread.is_large = before


def is_small(array: Any) -> bool:
    """Whether numpy computes a function of this array."""
    return array.size <= SMALL and not getattr(_this_thread, "is_large", False)


class Kernel:
    """A function that numba compiles at its first call; numpy's `small` takes the call if the first array is small."""

    def __init__(
        self,
        function: Callable[..., Any],
        fastmath: set[str],
        small: Callable[..., Any] | None = None,
        **options: Any,
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.small = small
        #: numba's options; it reads "inline" here when another kernel calls this one.
        self.targetoptions: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": fastmath, **options}

    def __call__(self, *args: Any) -> Any:
        """Run numpy's function or the compiled one."""
        if self.small is not None and is_small(args[0]):
            return self.small(*args)
        return self.compiled(*args)

    @functools.cached_property
    def compiled(self) -> Any:
        """numba's function."""
        import numba

        _announce_compilation()
        try:
            return numba.njit(cache=True, **self.targetoptions)(self.py_func)
        except RuntimeError:  # compiled code cannot be stored, as on a read-only file system: compile in every process
            return numba.njit(**self.targetoptions)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """The type by which other kernels call this one; numba asks for it."""
        return self.compiled._numba_type_

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


@functools.cache
def _announce_compilation() -> None:
    """Say on a terminal or in a notebook that kernels are being compiled, once per process."""
    if not is_interactive():
        return
    from numba.core import event

    class Announcement(event.Listener):
        """Prints a line at the first compilation of one of our kernels."""

        is_done = False

        def on_start(self, compilation: Any) -> None:
            function = getattr(compilation.data.get("dispatcher"), "py_func", None)
            if not self.is_done and str(getattr(function, "__module__", "")).startswith("driftcal."):
                self.is_done = True
                print(
                    "driftcal compiles its kernels; this takes up to half a minute, once.", file=sys.stderr, flush=True
                )

        def on_end(self, compilation: Any) -> None:
            pass

    register: Callable[..., None] = event.register
    register("numba:compile", Announcement())
