"""Passes over cached logits on the workers of an engine: workers read the samples and send back statistics.

A pass uses the same blocks and accumulators as a pass over an array (see :mod:`driftcal.core.passes`). One accumulator
is one task, and accumulators merge in order. The number of workers and their timing therefore do not change the result.
With more than `MAX_BLOCKS_PER_TASK` blocks per accumulator there are more tasks, so that more than eight workers are
used. Sums then differ from those of an array in the last digits.
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
from driftcal.core.blocks import Block, Chunk, block_length, cut
from driftcal.core.dataset import LabelledLogits
from driftcal.core.kernels import part_of
from driftcal.core.passes import N_ACCUMULATORS, Merge, stride_of_subsample
from driftcal.core.scan import ScanTotals
from driftcal.core.validation import unlocked
from driftcal.engines import Engine
from driftcal.errors import InputError
from driftcal.types import Array, Float64, Indices, Labels, Logits, Weights

#: Largest number of blocks in a task: 64 million scores, some seconds of work.
MAX_BLOCKS_PER_TASK = 256
#: Blocks that are read at once: fewer requests to an object store.
_BLOCKS_PER_READ = 16


class StoredLogits:
    """Logits in a cache that are read only when they are needed.

    ``np.asarray(stored)`` and ``stored[samples]`` read them in this process. With :func:`stack` and :func:`map_logits`,
    workers read them.
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
    """Samples of one cached condition, all or the `selected` ones, each with the same weight."""

    key: CacheKey
    size: int
    selected: Indices | None = None
    weight: float = 1.0

    def __len__(self) -> int:
        return self.size if self.selected is None else len(self.selected)


@dataclass(frozen=True, eq=False)
class StoredSamples:
    """Segments of cached conditions, one after the other, read block by block."""

    cache: LogitCache
    segments: tuple[Segment, ...]
    n_classes: int

    @cached_property
    def edges(self) -> list[int]:
        """The first sample of each segment, then the number of samples."""
        return [0, *np.cumsum([len(segment) for segment in self.segments]).tolist()]

    @property
    def n_scores(self) -> int:
        """Scores of all samples."""
        return int(self.edges[-1]) * self.n_classes

    def read(self, low: int, high: int) -> Chunk:
        """The samples [low, high)."""
        chunks = [
            self._read_segment(segment, max(low, begin) - begin, min(high, end) - begin)
            for segment, (begin, end) in zip(self.segments, pairwise(self.edges), strict=True)
            if begin < high and low < end
        ]
        if len(chunks) == 1:
            return chunks[0]
        logits, labels, weights = zip(*chunks, strict=True)
        return Chunk(np.concatenate(logits), np.concatenate(labels), np.concatenate(weights))

    def _read_segment(self, segment: Segment, low: int, high: int) -> Chunk:
        start, stop, selected = low, high, None
        if segment.selected is not None:
            selected = segment.selected[low:high]
            start, stop = int(selected.min()), int(selected.max()) + 1
        logits, labels = (self.cache.read_samples(segment.key, name, start, stop) for name in ("logits", "labels"))
        if selected is not None:
            logits, labels = logits[selected - start], labels[selected - start]
        return Chunk(logits, labels, np.full(len(logits), segment.weight))

    def blocks(self, starts: range, step: int) -> Iterator[Block]:
        """The blocks of `step` samples that begin at `starts`."""
        n_samples = self.edges[-1]
        blocks_per_read = _BLOCKS_PER_READ if starts.step == step else 1  # with a stride, blocks are not neighbours
        for k in range(0, len(starts), blocks_per_read):
            group = starts[k : k + blocks_per_read]
            chunk = self.read(group[0], min(group[-1] + step, n_samples))
            for low in group:
                yield cut(chunk, low - group[0], min(low + step, n_samples) - group[0], group[0])


class RemotePasses:
    """Passes over stored samples on the workers of an engine (see :class:`driftcal.core.passes.Passes`).

    Workers get the name of a kernel and send back statistics. `for_each_block` and `blocks` read in this process, in
    order, because their callers use objects of this process.
    """

    is_local = False

    def __init__(self, samples: StoredSamples, engine: Engine) -> None:
        self._samples, self._engine = samples, engine
        self._shared_samples = engine.share(samples)
        self._step = block_length(samples.n_classes)
        self.n_samples = samples.edges[-1]
        self.subsample_stride = stride_of_subsample(self.n_samples, -(-self.n_samples // self._step))

    def tasks(self, stride: int = 1) -> list[range]:
        """The first samples of the blocks of each task."""
        starts = range(0, self.n_samples, self._step * stride)
        n_tasks = max(N_ACCUMULATORS, -(-len(starts) // MAX_BLOCKS_PER_TASK))
        edges = [len(starts) * k // n_tasks for k in range(n_tasks + 1)]
        return [starts[low:high] for low, high in pairwise(edges) if low < high]

    def _run(self, function: Callable[..., Any], tasks: Sequence[range], *request: Any) -> Iterator[tuple[int, Any]]:
        """(task, result) in the order of tasks, each as soon as those before it are done."""
        shared_request = self._engine.share((self._step, request))
        results: dict[int, Any] = {}
        next_task = 0
        pass_tasks = [_PassTask(starts) for starts in tasks]
        for number, result in self._engine.map(function, pass_tasks, self._shared_samples, shared_request):
            results[number] = result
            while next_task in results:
                yield next_task, results.pop(next_task)
                next_task += 1

    def scan(self) -> list[ScanTotals]:
        """The totals of each task."""
        return [totals for _, totals in self._run(_scan_task, self.tasks())]

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All blocks in order, read in this process; `multiple` is ignored."""
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
        """The merged states of the tasks, in order."""
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
        """What `function` writes per sample, and what it sums."""
        out, sums = np.empty((self.n_samples, width)), np.zeros(size or 0)
        tasks = self.tasks()
        for number, (written, task_sums) in self._run(_map_task, tasks, function_name(function), width, size, args):
            out[tasks[number][0] : tasks[number][0] + len(written)] = written
            sums += task_sums
        return out, sums

    def for_each_block(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """Call the function in this process and in order, because it writes to arrays of this process."""
        for block in self.blocks():
            with part_of(self._samples.n_scores):
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
    function, into = named_function(name), state.copy()
    *args, per_sample = _writable([*args, per_sample])
    for block in samples.blocks(task.starts, step):
        with part_of(samples.n_scores):
            function(block.logits, block.labels, block.weights, *block.part_of(per_sample), into, *args)
    return np.asarray(into)


def _map_task(samples: StoredSamples, request: Any, task: _PassTask, report: Any) -> tuple[Float64, Float64]:
    step, (name, width, size, args) = request
    function, args, sums = named_function(name), _writable(args), np.zeros(size or 0)
    args = args if size is None else [sums, *args]
    first, stop = task.starts[0], min(task.starts[-1] + step, samples.edges[-1])
    out = np.empty((stop - first, width))
    for block in samples.blocks(task.starts, step):
        low = block.start - first
        with part_of(samples.n_scores):
            function(block.logits, block.labels, block.weights, out[low : low + len(block.labels)], *args)
    return out, sums


def _writable(args: Sequence[Any]) -> list[Any]:
    """Arguments from another process with writable arrays, the type that the kernels were compiled for."""
    return [unlocked(argument) if isinstance(argument, np.ndarray) else argument for argument in args]


def function_name(function: Callable[..., Any]) -> Any:
    """Module and name of a function: another process then loads the compiled kernel from its cache.

    >>> function_name(stack)
    ('driftcal.engines.remote_passes', 'stack')
    """
    plain = getattr(function, "py_func", function)
    module, name = getattr(plain, "__module__", None), getattr(plain, "__qualname__", "<")
    if module in (None, "__main__") or "<" in name:
        return function
    return module, name


def named_function(name: Any) -> Callable[..., Any]:
    """The function for the result of :func:`function_name`."""
    if not isinstance(name, tuple):
        return name  # type: ignore[no-any-return]
    module, qualified_name = name
    value: Any = importlib.import_module(module)
    for attribute in qualified_name.split("."):
        value = getattr(value, attribute)
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
    """The data of a fit: conditions of the same inputs one after the other, of each the `selected` samples.

    Arrays become one array with its labels. Stored logits become :class:`LabelledLogits` whose passes run on workers.
    Only stored logits take `weights`, one for each condition.
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
    part: Any = slice(None) if selected is None else selected
    stacked = np.concatenate([np.asarray(logits)[part] for logits in conditions])
    return stacked, np.tile(labels[part], len(conditions))


def map_logits(
    function: Callable[..., Any], conditions: Sequence[ConditionLogits], options: Mapping[str, Any]
) -> list[Any]:
    """``function(logits, **options)`` for every condition, in order; workers run it if the logits are stored."""
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
