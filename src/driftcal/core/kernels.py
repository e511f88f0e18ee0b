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
import time
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

        _watch_compilation()
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


#: What is said once when compiling takes longer than `_ANNOUNCE_AFTER` seconds.
COMPILES = "driftcal compiles its kernels; this takes up to a minute, once."
_ANNOUNCE_AFTER = 2.0


def _say_to_a_person(text: str) -> None:
    if is_interactive():
        print(text, file=sys.stderr, flush=True)


_say: Callable[[str], None] = _say_to_a_person


def announce_compilation(say: Callable[[str], None]) -> None:
    """Call `say` with a line when kernels are compiled that are not on disk. Without it, only a terminal or a notebook gets the line."""
    global _say
    _say = say


class CompilationTimer:
    """Says `COMPILES` once, when compilations have taken `after` seconds in total."""

    def __init__(self, after: float = _ANNOUNCE_AFTER) -> None:
        self._left, self._depth, self._begun = after, 0, 0.0
        self._timer: threading.Timer | None = None
        self.is_done = False

    def start(self) -> None:
        """A compilation begins, perhaps inside another one."""
        self._depth += 1
        if self._depth > 1 or self.is_done:
            return
        self._begun = time.monotonic()
        self._timer = threading.Timer(self._left, self._announce)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        """A compilation ends."""
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if not self.is_done:
                self._left = max(0.0, self._left - (time.monotonic() - self._begun))

    def _announce(self) -> None:
        self.is_done = True
        _say(COMPILES)


@functools.cache
def _watch_compilation() -> None:
    """Listen to numba for compilations of our kernels, once per process; what is loaded from disk is none."""
    from numba.core import event

    timer = CompilationTimer()

    class Listener(event.Listener):
        def on_start(self, compilation: Any) -> None:
            if _is_ours(compilation):
                timer.start()

        def on_end(self, compilation: Any) -> None:
            if _is_ours(compilation):
                timer.stop()

    register: Callable[..., None] = event.register
    register("numba:compile", Listener())


def _is_ours(compilation: Any) -> bool:
    function = getattr(compilation.data.get("dispatcher"), "py_func", None)
    return str(getattr(function, "__module__", "")).startswith("driftcal.")
