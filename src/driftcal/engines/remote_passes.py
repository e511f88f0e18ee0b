"""Passes over logits that stay where they are: workers read them from a store, and only statistics travel.

A pass is cut into the same lanes of the same blocks as a pass over an array (see :mod:`driftcal.rows`), a lane is one task,
and lanes merge in order: neither the number of workers nor who is first changes a bit. Beyond `MANY` blocks per lane
there are more lanes, so that more than eight workers have something to do; sums then differ from an array's in the last
digits.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from driftcal.blocks import Block, cut, scan_blocks
from driftcal.checks import unlocked
from driftcal.engines import Engine
from driftcal.errors import InputError
from driftcal.rows import LANES, PREVIEW_BLOCKS, Merge, Rows
from driftcal.store import Key, Store
from driftcal.types import Array, Float64, Indices, Labels, Logits, Weights

#: Blocks of a lane, from which on there are more lanes than eight: 64 million scores, seconds of work.
MANY = 256
#: Blocks that are read at once: fewer requests to an object store.
_READ = 16


class Stored:
    """Logits in a store that only become an array where one is asked for.

    ``np.asarray(stored)`` and ``stored[rows]`` read them; :func:`stack` and :func:`each_part` leave that to workers.
    """

    def __init__(self, store: Store, key: Key, n: int, n_classes: int, engine: Engine) -> None:
        self.store, self.key, self.engine = store, key, engine
        self.shape = (n, n_classes)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        logits = self.store.read_rows(self.key, "logits", 0, len(self))
        return np.array(logits, dtype) if dtype is not None and dtype != logits.dtype else np.asarray(logits)

    def __getitem__(self, rows: Any) -> Array:
        chosen: Array = np.asarray(self)[rows]
        return chosen


@dataclass(frozen=True, eq=False)
class Segment:
    """Some rows of one stored condition: all of them, or the `chosen`; each with the same weight."""

    key: Key
    size: int
    chosen: Indices | None = None
    weight: float = 1.0

    def __len__(self) -> int:
        return self.size if self.chosen is None else len(self.chosen)


@dataclass(frozen=True, eq=False)
class Table:
    """Stored conditions one after the other, read wherever a block of them is needed."""

    store: Store
    segments: tuple[Segment, ...]
    n_classes: int

    @cached_property
    def edges(self) -> list[int]:
        """Where each segment begins, and the end."""
        return [0, *np.cumsum([len(segment) for segment in self.segments]).tolist()]

    def read(self, low: int, high: int) -> tuple[Logits, Labels, Weights]:
        """The rows [low, high)."""
        found = [
            self._part(segment, max(low, begin) - begin, min(high, end) - begin)
            for segment, (begin, end) in zip(self.segments, pairwise(self.edges), strict=True)
            if begin < high and low < end
        ]
        if len(found) == 1:
            return found[0]
        logits, labels, weights = zip(*found, strict=True)
        return np.concatenate(logits), np.concatenate(labels), np.concatenate(weights)

    def _part(self, segment: Segment, low: int, high: int) -> tuple[Logits, Labels, Weights]:
        first, last, chosen = low, high, None
        if segment.chosen is not None:
            chosen = segment.chosen[low:high]
            first, last = int(chosen.min()), int(chosen.max()) + 1
        arrays = [self.store.read_rows(segment.key, name, first, last) for name in ("logits", "labels")]
        if chosen is not None:
            arrays = [array[chosen - first] for array in arrays]
        logits, labels = arrays
        return logits, labels, np.full(len(logits), segment.weight)

    def blocks(self, starts: range, step: int, n: int) -> Iterator[Block]:
        """The blocks of `step` rows that begin at `starts`."""
        at_once = _READ if starts.step == step else 1
        for k in range(0, len(starts), at_once):
            group = starts[k : k + at_once]
            chunk = self.read(group[0], min(group[-1] + step, n))
            for low in group:
                yield cut(chunk, low - group[0], min(low + step, n) - group[0], group[0])


class ShardedRows(Rows):
    """:class:`driftcal.rows.Rows` over a table: every pass runs on an engine's workers.

    `fold`, `sums` and `each` send a kernel's name out and get statistics back. `visit`, whose function may do anything to
    the caller's arrays, reads the blocks here, one after the other.
    """

    def __init__(self, table: Table, engine: Engine) -> None:
        self._table, self._engine = table, engine
        self._kept = engine.keep(table)
        self.here = False
        self._array = None
        self.n_classes = table.n_classes
        self.classes = np.arange(table.n_classes)
        self.n = table.edges[-1]
        self._scan()
        self.preview = max(1, self._n_blocks // PREVIEW_BLOCKS)

    @property
    def _n_blocks(self) -> int:
        return -(-self.n // self._step)

    def _lanes(self, every: int = 1) -> list[range]:
        starts = range(0, self.n, self._step * every)
        count = max(LANES, -(-len(starts) // MANY))
        edges = [len(starts) * k // count for k in range(count + 1)]
        return [starts[low:high] for low, high in pairwise(edges) if low < high]

    def _pass(self, function: Callable[..., Any], lanes: Sequence[range], *what: Any) -> Iterator[tuple[int, Any]]:
        """(lane, answer) in the order of lanes, each as soon as those before it are there."""
        work = self._engine.keep((self._step, self.n, what))
        waiting: dict[int, Any] = {}
        turn = 0
        for number, answer in self._engine.map(function, [_Lane(lane) for lane in lanes], self._kept, work):
            waiting[number] = answer
            while turn in waiting:
                yield turn, waiting.pop(turn)
                turn += 1

    def blocks(self, together: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """The rows in order, read here, in blocks of one size."""
        for lane in self._lanes():
            yield from self._table.blocks(lane, self._step, self.n)

    def fold(
        self,
        function: Callable[..., None],
        state: Array,
        merge: Merge,
        *args: Any,
        every: int = 1,
        beside: Array | None = None,
    ) -> Array:
        """As :meth:`Rows.fold`; the states of lanes travel, and what is `beside`."""
        total: Array | None = None
        for _, answer in self._pass(_fold_lane, self._lanes(every), name_of(function), state, args, beside):
            if total is None:
                total = np.array(answer)  # what comes from another process cannot be written to
            else:
                merge(total, answer)
        assert total is not None
        return total

    def each(self, function: Callable[..., None], width: int, *args: Any) -> Float64:
        """As :meth:`Rows.each`; `width` numbers per row travel."""
        return self._write(function, width, None, args)[0]

    def note(self, function: Callable[..., None], width: int, size: int, *args: Any) -> tuple[Float64, Float64]:
        """As :meth:`Rows.note`; the sums of lanes travel, too."""
        return self._write(function, width, size, args)

    def _write(
        self, function: Callable[..., None], width: int, size: int | None, args: Sequence[Any]
    ) -> tuple[Float64, Float64]:
        out, sums = np.empty((self.n, width)), np.zeros(size or 0)
        lanes = self._lanes()
        for number, (answer, own) in self._pass(_each_lane, lanes, name_of(function), width, size, args):
            out[lanes[number][0] : lanes[number][0] + len(answer)] = answer
            sums += own
        return out, sums

    def visit(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """As :meth:`Rows.visit`, but here and in order: the function writes where only this process can read."""
        for block in self.blocks():
            function(block.logits, block.labels, block.weights, block.start)

    def _scan_lanes(self) -> tuple[list[tuple[Array, Array, Array]], bool]:
        answers = [answer for _, answer in self._pass(_scan_lane, self._lanes(), self.n_classes)]
        return [lanes for lanes, _ in answers], all(maybe for _, maybe in answers)


@dataclass(frozen=True)
class _Lane:
    starts: range

    def __str__(self) -> str:
        return f"a pass over the rows from {self.starts[0]}"


def _fold_lane(table: Table, work: Any, lane: _Lane, tell: Any) -> Array:
    step, n, (name, state, args, beside) = work
    function, into, args, (beside,) = named(name), state.copy(), _for_kernel(args), _for_kernel([beside])
    for block in table.blocks(lane.starts, step, n):
        function(block.logits, block.labels, block.weights, *block.of(beside), into, *args)
    return np.asarray(into)


def _each_lane(table: Table, work: Any, lane: _Lane, tell: Any) -> tuple[Float64, Float64]:
    step, n, (name, width, size, args) = work
    function, args, sums = named(name), _for_kernel(args), np.zeros(size or 0)
    args = args if size is None else [sums, *args]
    begin, end = lane.starts[0], min(lane.starts[-1] + step, n)
    out = np.empty((end - begin, width))
    for block in table.blocks(lane.starts, step, n):
        low = block.start - begin
        function(block.logits, block.labels, block.weights, out[low : low + len(block.labels)], *args)
    return out, sums


def _for_kernel(args: Sequence[Any]) -> list[Any]:
    """Arguments that came from another process, as kernels know them from this one."""
    return [unlocked(each) if isinstance(each, np.ndarray) else each for each in args]


def _scan_lane(table: Table, work: Any, lane: _Lane, tell: Any) -> tuple[tuple[Array, Array, Array], bool]:
    step, n, (n_classes,) = work
    return scan_blocks(table.blocks(lane.starts, step, n), n_classes)


def name_of(function: Callable[..., Any]) -> Any:
    """How another process finds a function: module and name, so that compiled kernels come from its own cache.

    >>> name_of(stack)
    ('driftcal.sharded', 'stack')
    """
    plain = getattr(function, "py_func", function)
    module, name = getattr(plain, "__module__", None), getattr(plain, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name:
        return function
    return module, name


def named(name: Any) -> Callable[..., Any]:
    """The function that `name_of` named."""
    if not isinstance(name, tuple):
        return name  # type: ignore[no-any-return]
    found: Any = importlib.import_module(name[0])
    for part in name[1].split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


Part = Logits | Stored


def stack(
    parts: Sequence[Part], labels: Labels, chosen: Array | None = None, *, weights: Sequence[float] | None = None
) -> tuple[Any, Labels | None]:
    """What a calibrator is fitted on: conditions of the same images one after the other, of each only the `chosen` rows.

    Arrays become one array with its labels; stored logits become rows that are passed over where they are, and only
    these take `weights`, one for the rows of each condition.
    """
    if all(isinstance(part, Stored) for part in parts):
        first: Any = parts[0]
        where = None if chosen is None else np.flatnonzero(chosen)
        segments = tuple(
            Segment(part.key, len(part), where, weight)  # type: ignore[union-attr]
            for part, weight in zip(parts, weights or [1.0] * len(parts), strict=True)
        )
        return ShardedRows(Table(first.store, segments, first.shape[1]), first.engine), None
    if len(parts) == 1 and chosen is None:
        return np.asarray(parts[0]), labels
    pick: Any = slice(None) if chosen is None else chosen
    return np.concatenate([np.asarray(part)[pick] for part in parts]), np.tile(labels[pick], len(parts))


def each_part(function: Callable[..., Any], parts: Sequence[Part], given: Mapping[str, Any]) -> list[Any]:
    """``function(logits, **given)`` for every part, in order: on workers where the logits are stored, here otherwise."""
    if not all(isinstance(part, Stored) for part in parts):
        return [function(np.asarray(part), **given) for part in parts]
    if len({part.engine for part in parts}) != 1:  # type: ignore[union-attr]
        raise InputError("parts must be stored for one engine; these are for several. Collect them with one.")
    engine: Engine = parts[0].engine  # type: ignore[union-attr]
    kept = engine.keep((name_of(function), parts[0].store, dict(given)))  # type: ignore[union-attr]
    tasks = [_Whole(part.key, len(part)) for part in parts]  # type: ignore[union-attr]
    answers = dict(engine.map(_on_part, tasks, kept))
    return [answers[number] for number in range(len(parts))]


@dataclass(frozen=True)
class _Whole:
    key: Key
    n: int

    def __str__(self) -> str:
        return f"{self.key.shift} {self.key.level}"


def _on_part(work: Any, part: _Whole, tell: Any) -> Any:
    name, store, given = work
    return named(name)(store.read_rows(part.key, "logits", 0, part.n), **given)
