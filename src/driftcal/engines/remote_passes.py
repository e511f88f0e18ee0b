"""Passes over cached logits on the workers of an engine: workers read the samples, and only statistics travel.

A pass is cut into the same accumulators of the same blocks as a pass over an array (see :mod:`driftcal.core.passes`). One
accumulator is one task, and accumulators merge in order: neither the number of workers nor their timing changes a bit. Beyond
`MAX_BLOCKS_PER_TASK` there are more tasks, so that more than eight workers have something to do; sums then differ from those
of an array in the last digits.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from driftcal.cache import CacheKey, LogitCache
from driftcal.core.blocks import Block, block_length, cut
from driftcal.core.dataset import LabelledLogits
from driftcal.core.passes import N_ACCUMULATORS, SUBSAMPLE_BLOCKS, Merge
from driftcal.core.scan import ScanTotals
from driftcal.core.validation import unlocked
from driftcal.engines import Engine
from driftcal.errors import InputError
from driftcal.types import Array, Float64, Indices, Labels, Logits, Weights

#: Blocks of one task: 64 million scores, seconds of work. Beyond it there are more tasks than accumulators.
MAX_BLOCKS_PER_TASK = 256
#: Blocks that are read at once: fewer requests to an object store.
_BLOCKS_PER_READ = 16


class StoredLogits:
    """Logits in a cache that become an array only where one is needed.

    ``np.asarray(stored)`` and ``stored[samples]`` read them; :func:`stack` and :func:`map_logits` leave that to workers.
    """

    def __init__(self, cache: LogitCache, key: CacheKey, n_samples: int, n_classes: int, engine: Engine) -> None:
        self.cache, self.key, self.engine = cache, key, engine
        self.shape = (n_samples, n_classes)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        logits = self.cache.read_samples(self.key, "logits", 0, len(self))
        return np.array(logits, dtype) if dtype is not None and dtype != logits.dtype else np.asarray(logits)

    def __getitem__(self, samples: Any) -> Array:
        selected: Array = np.asarray(self)[samples]
        return selected


@dataclass(frozen=True, eq=False)
class Segment:
    """Samples of one cached condition: all of them, or the `selected`; each with the same weight."""

    key: CacheKey
    size: int
    selected: Indices | None = None
    weight: float = 1.0

    def __len__(self) -> int:
        return self.size if self.selected is None else len(self.selected)


@dataclass(frozen=True, eq=False)
class StoredSamples:
    """Segments of cached conditions, one after the other, read where a block of them is needed."""

    cache: LogitCache
    segments: tuple[Segment, ...]
    n_classes: int

    @cached_property
    def edges(self) -> list[int]:
        """Where each segment begins, and the end."""
        return [0, *np.cumsum([len(segment) for segment in self.segments]).tolist()]

    def read(self, low: int, high: int) -> tuple[Logits, Labels, Weights]:
        """The samples [low, high)."""
        pieces = [
            self._read_segment(segment, max(low, begin) - begin, min(high, end) - begin)
            for segment, (begin, end) in zip(self.segments, pairwise(self.edges), strict=True)
            if begin < high and low < end
        ]
        if len(pieces) == 1:
            return pieces[0]
        logits, labels, weights = zip(*pieces, strict=True)
        return np.concatenate(logits), np.concatenate(labels), np.concatenate(weights)

    def _read_segment(self, segment: Segment, low: int, high: int) -> tuple[Logits, Labels, Weights]:
        first, last, selected = low, high, None
        if segment.selected is not None:
            selected = segment.selected[low:high]
            first, last = int(selected.min()), int(selected.max()) + 1
        arrays = [self.cache.read_samples(segment.key, name, first, last) for name in ("logits", "labels")]
        if selected is not None:
            arrays = [array[selected - first] for array in arrays]
        logits, labels = arrays
        return logits, labels, np.full(len(logits), segment.weight)

    def blocks(self, starts: range, step: int) -> Iterator[Block]:
        """The blocks of `step` samples that begin at `starts`."""
        n_samples = self.edges[-1]
        at_once = _BLOCKS_PER_READ if starts.step == step else 1
        for k in range(0, len(starts), at_once):
            group = starts[k : k + at_once]
            chunk = self.read(group[0], min(group[-1] + step, n_samples))
            for low in group:
                yield cut(chunk, low - group[0], min(low + step, n_samples) - group[0], group[0])


class RemotePasses:
    """Passes over stored samples on the workers of an engine (see :class:`driftcal.core.passes.Passes`).

    A kernel travels by name, statistics come back. `for_each_block` and `blocks` read in this process, in order: their caller
    may do anything with the blocks.
    """

    is_local = False

    def __init__(self, samples: StoredSamples, engine: Engine) -> None:
        self._samples, self._engine = samples, engine
        self._shared_samples = engine.share(samples)
        self._step = block_length(samples.n_classes)
        self.n_samples = samples.edges[-1]
        self.subsample_stride = max(1, -(-self.n_samples // self._step) // SUBSAMPLE_BLOCKS)

    def tasks(self, stride: int = 1) -> list[range]:
        """Where the blocks of each task begin."""
        starts = range(0, self.n_samples, self._step * stride)
        n_tasks = max(N_ACCUMULATORS, -(-len(starts) // MAX_BLOCKS_PER_TASK))
        edges = [len(starts) * k // n_tasks for k in range(n_tasks + 1)]
        return [starts[low:high] for low, high in pairwise(edges) if low < high]

    def _run(self, function: Callable[..., Any], tasks: Sequence[range], *request: Any) -> Iterator[tuple[int, Any]]:
        """(task, result) in the order of tasks, each as soon as those before it are done."""
        shared_request = self._engine.share((self._step, request))
        results: dict[int, Any] = {}
        turn = 0
        pass_tasks = [_PassTask(starts) for starts in tasks]
        for number, result in self._engine.map(function, pass_tasks, self._shared_samples, shared_request):
            results[number] = result
            while turn in results:
                yield turn, results.pop(turn)
                turn += 1

    def scan(self) -> list[ScanTotals]:
        """The totals of each task."""
        return [totals for _, totals in self._run(_scan_task, self.tasks())]

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All blocks in order, of one length whatever `multiple` is, read in this process."""
        for starts in self.tasks():
            yield from self._samples.blocks(starts, self._step)

    def reduce(
        self,
        function: Callable[..., None],
        state: Array,
        merge: Merge,
        args: tuple[Any, ...],
        *,
        stride: int,
        per_sample: Array | None,
    ) -> Array:
        """The states of tasks travel, and the array per sample."""
        total: Array | None = None
        for _, task_state in self._run(
            _reduce_task, self.tasks(stride), function_name(function), state, args, per_sample
        ):
            if total is None:
                total = np.array(task_state)  # an array from another process is read-only
            else:
                merge(total, task_state)
        assert total is not None
        return total

    def map_samples(
        self, function: Callable[..., None], width: int, size: int | None, args: tuple[Any, ...]
    ) -> tuple[Float64, Float64]:
        """`width` numbers per sample travel, and the sums of tasks."""
        out, sums = np.empty((self.n_samples, width)), np.zeros(size or 0)
        tasks = self.tasks()
        for number, (written, task_sums) in self._run(_map_task, tasks, function_name(function), width, size, args):
            out[tasks[number][0] : tasks[number][0] + len(written)] = written
            sums += task_sums
        return out, sums

    def for_each_block(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """In this process and in order: the function writes where only this process can read."""
        for block in self.blocks():
            function(block.logits, block.labels, block.weights, block.start)


@dataclass(frozen=True)
class _PassTask:
    starts: range

    def __str__(self) -> str:
        return f"a pass over the samples from {self.starts[0]}"


def _scan_task(samples: StoredSamples, request: Any, task: _PassTask, report: Any) -> ScanTotals:
    totals = ScanTotals.empty(samples.n_classes)
    for block in samples.blocks(task.starts, request[0]):
        totals.add(block)
    return totals


def _reduce_task(samples: StoredSamples, request: Any, task: _PassTask, report: Any) -> Array:
    step, (name, state, args, per_sample) = request
    function, into, args, (per_sample,) = named_function(name), state.copy(), _writable(args), _writable([per_sample])
    for block in samples.blocks(task.starts, step):
        function(block.logits, block.labels, block.weights, *block.of(per_sample), into, *args)
    return np.asarray(into)


def _map_task(samples: StoredSamples, request: Any, task: _PassTask, report: Any) -> tuple[Float64, Float64]:
    step, (name, width, size, args) = request
    function, args, sums = named_function(name), _writable(args), np.zeros(size or 0)
    args = args if size is None else [sums, *args]
    begin, end = task.starts[0], min(task.starts[-1] + step, samples.edges[-1])
    out = np.empty((end - begin, width))
    for block in samples.blocks(task.starts, step):
        low = block.start - begin
        function(block.logits, block.labels, block.weights, out[low : low + len(block.labels)], *args)
    return out, sums


def _writable(args: Sequence[Any]) -> list[Any]:
    """Arguments from another process, whose arrays are read-only, as the kernels were compiled for."""
    return [unlocked(argument) if isinstance(argument, np.ndarray) else argument for argument in args]


def function_name(function: Callable[..., Any]) -> Any:
    """Module and name of a function, so that another process takes a compiled kernel from its own cache.

    >>> function_name(stack)
    ('driftcal.engines.remote_passes', 'stack')
    """
    plain = getattr(function, "py_func", function)
    module, name = getattr(plain, "__module__", None), getattr(plain, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name:
        return function
    return module, name


def named_function(name: Any) -> Callable[..., Any]:
    """The function that :func:`function_name` named."""
    if not isinstance(name, tuple):
        return name  # type: ignore[no-any-return]
    value: Any = importlib.import_module(name[0])
    for part in name[1].split("."):
        value = getattr(value, part)
    return value  # type: ignore[no-any-return]


#: Logits of one condition: an array, or a reference to cached ones.
ConditionLogits = Logits | StoredLogits


def stack(
    conditions: Sequence[ConditionLogits],
    labels: Labels,
    selected: Array | None = None,
    *,
    weights: Sequence[float] | None = None,
) -> tuple[Any, Labels | None]:
    """What a calibrator is fitted on: conditions of the same inputs one after the other, of each only the `selected` samples.

    Arrays become one array with its labels. Stored logits become :class:`LabelledLogits` whose passes run on workers; only
    these take `weights`, one for the samples of each condition.
    """
    if all(isinstance(logits, StoredLogits) for logits in conditions):
        first: Any = conditions[0]
        indices = None if selected is None else np.flatnonzero(selected)
        segments = tuple(
            Segment(logits.key, len(logits), indices, weight)  # type: ignore[union-attr]
            for logits, weight in zip(conditions, weights or [1.0] * len(conditions), strict=True)
        )
        samples = StoredSamples(first.cache, segments, first.shape[1])
        return LabelledLogits.from_passes(RemotePasses(samples, first.engine), samples.n_classes), None
    if len(conditions) == 1 and selected is None:
        return np.asarray(conditions[0]), labels
    pick: Any = slice(None) if selected is None else selected
    return np.concatenate([np.asarray(logits)[pick] for logits in conditions]), np.tile(labels[pick], len(conditions))


def map_logits(
    function: Callable[..., Any], conditions: Sequence[ConditionLogits], options: Mapping[str, Any]
) -> list[Any]:
    """``function(logits, **options)`` for every condition, in order: on workers where the logits are stored."""
    if not all(isinstance(logits, StoredLogits) for logits in conditions):
        return [function(np.asarray(logits), **options) for logits in conditions]
    if len({logits.engine for logits in conditions}) != 1:  # type: ignore[union-attr]
        raise InputError("conditions must be stored for one engine; these are for several. Collect them with one.")
    engine: Engine = conditions[0].engine  # type: ignore[union-attr]
    shared = engine.share((function_name(function), conditions[0].cache, dict(options)))  # type: ignore[union-attr]
    tasks = [_ConditionTask(logits.key, len(logits)) for logits in conditions]  # type: ignore[union-attr]
    results = dict(engine.map(_condition_task, tasks, shared))
    return [results[number] for number in range(len(conditions))]


@dataclass(frozen=True)
class _ConditionTask:
    key: CacheKey
    n_samples: int

    def __str__(self) -> str:
        return f"{self.key.shift} {self.key.level}"


def _condition_task(request: Any, task: _ConditionTask, report: Any) -> Any:
    name, cache, options = request
    return named_function(name)(cache.read_samples(task.key, "logits", 0, task.n_samples), **options)
