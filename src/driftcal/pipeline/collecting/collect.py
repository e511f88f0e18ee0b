"""Collecting the logits of a model on shifted data, on any engine, into a cache that survives a kill."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from driftcal.cache import CacheKey
from driftcal.core.dataset import LabelledLogits
from driftcal.core.progress import Progress
from driftcal.data import Source
from driftcal.engines import LocalEngine
from driftcal.engines.remote_passes import ConditionLogits, StoredLogits, stack
from driftcal.errors import InputError
from driftcal.models import Model, pooled_features
from driftcal.pipeline.collecting.conditions import Condition, condition_name, shift_identity
from driftcal.pipeline.collecting.run import OnProgress, Run
from driftcal.pipeline.collecting.shards import (
    CachedCondition,
    Job,
    Shard,
    collect_shard,
    find_missing,
    finish_entry,
    shifted_inputs,
)
from driftcal.shifts.shift import Shift
from driftcal.types import Array, Indices, Labels, Logits

#: Tasks per worker if there are several workers. Several short tasks leave no worker idle for long at the end.
TASKS_PER_WORKER = 4


class LogitProvider(Protocol):
    """The data that tuning needs: labels, and the logits of the same samples under any shift and level."""

    @property
    def labels(self) -> Labels:
        """The label of each sample."""

    @property
    def n_classes(self) -> int:
        """Columns of the logits."""

    @property
    def is_remote(self) -> bool:
        """Whether logits stay with the workers, so that this process gets statistics of them only."""

    def logits(self, shift: Shift | None, level: float, *, keep: bool = True) -> Logits:
        """All logits of a condition; with ``keep=False`` they are not kept in memory."""

    def logits_of(self, shift: Shift, level: float, indices: Indices) -> Logits:
        """The logits of some samples, computed anew."""

    def condition(self, shift: Shift | None, level: float) -> ConditionLogits:
        """The logits of a condition, or a reference to them if they stay with the workers."""

    def accuracy(self, shift: Shift | None, level: float) -> float:
        """The share of samples whose largest logit is that of the label."""


class Collector:
    """A model's logits on one source under any shift and level, each computed at most once.

    A cache keeps them under the fingerprints of model, data and shift. A run that was killed continues from there and
    ends with the same bytes. Without a cache they are kept in memory. Level 0 of every shift is the clean condition.
    `evaluated` counts the inputs that the model was run on. `blocks` are the collectors of the blocks of the source; []
    if it is cached as a whole.

    Parameters
    ----------
    model, source
        The model, and the data that it runs on.
    run
        Cache, engine and progress.
    random_state
        The seed of the shifts.
    model_fingerprint
        The model's fingerprint, if the caller has it: hashing large weights takes seconds.
    n_shards
        How many tasks each condition is cut into. None: enough tasks for all workers.
    block_size
        The cache keeps every `block_size` samples under a key of their own, and a source that begins with the same
        samples and has more of them computes only those. None: one key for all samples.
    """

    def __init__(
        self,
        model: Model,
        source: Source,
        *,
        run: Run | None = None,
        random_state: int = 0,
        model_fingerprint: str | None = None,
        n_shards: int | None = None,
        block_size: int | None = None,
    ) -> None:
        if not len(source):
            raise InputError(f"{source.name} must have samples to evaluate; it has none. Check the split.")
        self.run = run or Run()
        self.model, self.source, self.random_state = model, source, random_state
        self.cache = self.run.logit_cache
        self.on_progress: OnProgress | None = self.run.on_progress
        self.engine = self.run.engine or LocalEngine()
        self.n_shards = n_shards
        self.evaluated = 0
        self._memory: dict[Any, Logits] = {}
        self._parts: dict[bytes, Collector] = {}
        model.prepare(source.inputs(source.indices[:16]))
        self._model_fingerprint = model_fingerprint or model.fingerprint
        self._job: Any = None
        self._finished: set[str] = set()  # digests of keys that workers have finished
        self.blocks: list[Collector] = [] if block_size is None or self.is_remote else self._in_blocks(block_size)

    @property
    def labels(self) -> Labels:
        """The label of each sample."""
        return self.source.labels

    @property
    def n_classes(self) -> int:
        """Columns of the logits."""
        return self.model.n_classes

    @property
    def passes(self) -> float:
        """Inputs that the model was run on, as a multiple of the source."""
        return self.evaluated / len(self.source)

    @property
    def is_remote(self) -> bool:
        """Whether logits stay in the cache, and workers compute statistics of them."""
        return self.cache is not None and self.engine.remote

    def logits(self, shift: Shift | None, level: float = 0, *, keep: bool = True) -> Logits:
        """Logits of the source, float32 (n, C), at a level; with ``keep=False`` they are not kept in memory."""
        if self.blocks:
            return np.concatenate([block.logits(shift, level, keep=keep) for block in self.blocks])
        if self.cache is not None:
            self.gather([(shift, level)])
            return self.cache.finish(self.key(shift, level), len(self.source)).logits
        key = _memory_key(shift, level)
        if key in self._memory:
            return self._memory[key]
        logits = self._in_memory(shift, level)
        if keep:
            self._memory[key] = logits
        return logits

    def condition(self, shift: Shift | None, level: float = 0) -> ConditionLogits:
        """The logits, or a reference to them if they stay with the workers."""
        if not self.is_remote:
            return self.logits(shift, level)
        assert self.cache is not None
        self.gather([(shift, level)])
        return StoredLogits(self.cache, self.key(shift, level), len(self.source), self.n_classes, self.engine)

    def features(self, shift: Shift | None, level: float, layers: Sequence[str]) -> dict[str, Array]:
        """Pooled layer features of the source under a condition; computed in this process, and kept in the cache."""
        if self.blocks:
            by_block = [block.features(shift, level, layers) for block in self.blocks]
            return {layer: np.concatenate([features[layer] for features in by_block]) for layer in layers}
        key = self.features_key(shift, level, layers)
        entry = None if self.cache is None else self.cache.get(key)
        if entry is not None:
            return {layer: entry.arrays[f"layer{k}"] for k, layer in enumerate(layers)}
        name, parts = f"features of {condition_name(shift, level)}", []
        for inputs, _, indices in self.source.batches(self.model.batch_size):
            shifted = shifted_inputs(shift, inputs, level, self.random_state, indices)
            parts.append(pooled_features(self.model, shifted, layers))
            self._count(name, len(inputs))
        features = {layer: np.concatenate([part[layer] for part in parts]) for layer in layers}
        if self.cache is not None:
            arrays = {f"layer{k}": features[layer] for k, layer in enumerate(layers)}
            logits = self.logits(shift, level)
            self.cache.put(key, logits=logits, labels=self.labels, indices=self.source.indices, **arrays)
        return features

    def accuracy(self, shift: Shift | None, level: float = 0) -> float:
        """The share of samples whose largest logit is that of the label."""
        data = stack([self.condition(shift, level)], self.labels)[0]
        if isinstance(data, LabelledLogits):
            return data.accuracy
        return float(np.mean(data.argmax(axis=1) == self.labels))

    def logits_of(self, shift: Shift, level: float, indices: Indices) -> Logits:
        """The logits of some samples, computed anew: a search tries levels on a subsample first."""
        part = Collector(
            self.model,
            self.source.subset(indices),
            run=Run(engine=self.engine),
            random_state=self.random_state,
            model_fingerprint=self._model_fingerprint,
        )
        logits = part.logits(shift, level)
        self.evaluated += len(indices)
        return logits

    def part_logits(self, shift: Shift, level: float, indices: Indices) -> Logits:
        """The logits of some samples; a cache keeps them, unlike those of `logits_of`."""
        part = self._parts.get(indices.tobytes())
        if part is None:
            part = self._parts[indices.tobytes()] = Collector(
                self.model,
                self.source.subset(indices),
                run=self.run,
                random_state=self.random_state,
                model_fingerprint=self._model_fingerprint,
            )
        part.on_progress, before = self.on_progress, part.evaluated
        logits = part.logits(shift, level, keep=False)
        self.evaluated += part.evaluated - before
        return logits

    def key(self, shift: Shift | None, level: float) -> CacheKey:
        """What these logits depend on."""
        common: dict[str, Any] = {
            "model": self._model_fingerprint,
            "source": self.source.fingerprint,
            "batch_size": self.model.batch_size,
        }
        if shift is None or level == 0:
            return CacheKey(**common)
        identity = {"shift": shift_identity(shift)}
        return CacheKey(**common, shift=shift.name, level=float(level), seed=self.random_state, extra=identity)

    def features_key(self, shift: Shift | None, level: float, layers: Sequence[str]) -> CacheKey:
        """What these features depend on: what the logits depend on, and the layers."""
        key = self.key(shift, level)
        return dataclasses.replace(key, extra={**key.extra, "layers": list(layers)})

    def missing(self, conditions: Iterable[Condition]) -> float:
        """How many passes over the source these conditions would take now: none for what the cache holds."""
        distinct = self._distinct(conditions)
        if self.blocks:
            inputs = sum(block.missing(distinct.values()) * len(block.source) for block in self.blocks)
            return inputs / len(self.source)
        if self.cache is None:
            return float(len(distinct))
        ranges = self._missing_ranges(list(distinct.values()))
        return sum(stop - start for condition in ranges for start, stop in condition) / len(self.source)

    def gather(self, conditions: Iterable[Condition]) -> None:
        """Compute what the cache lacks of these conditions, all at once."""
        if self.blocks:
            all_conditions = list(conditions)
            for block in self.blocks:
                block.gather(all_conditions)
            return
        distinct = {
            digest: condition
            for digest, condition in self._distinct(conditions).items()
            if digest not in self._finished
        }
        if self.cache is None or not distinct:
            return
        unfinished = list(distinct.values())
        shards = [
            Shard(shift, level, start, stop, self.key(shift, level))
            for (shift, level), ranges in zip(unfinished, self._missing_ranges(unfinished), strict=True)
            for low, high in ranges
            for start, stop in self._cuts(low, high, len(unfinished))
        ]
        for _ in self._map(collect_shard, shards):
            pass
        n = len(self.source)
        for _ in self._map(finish_entry, [CachedCondition(self.key(*condition), n) for condition in unfinished]):
            pass
        self._finished |= set(distinct)

    def _in_blocks(self, block_size: int) -> list[Collector]:
        """A collector of each block of the source; [] if there is no cache."""
        if self.cache is None:
            return []
        if block_size < 1 or block_size % self.model.batch_size:
            raise InputError(
                f"block_size must be a multiple of the model's batch size {self.model.batch_size}; it is {block_size}."
            )
        run = Run(cache=self.cache, engine=self.engine, progress=self._count)
        return [
            Collector(
                self.model,
                self.source.subset(np.arange(start, min(start + block_size, len(self.source)))),
                run=run,
                random_state=self.random_state,
                model_fingerprint=self._model_fingerprint,
            )
            for start in range(0, len(self.source), block_size)
        ]

    def _distinct(self, conditions: Iterable[Condition]) -> dict[str, Condition]:
        return {self.key(shift, level).digest: (shift, level) for shift, level in conditions}

    def _missing_ranges(self, conditions: Sequence[Condition]) -> list[list[tuple[int, int]]]:
        """The ranges of samples of each condition that the cache lacks, as the workers see it."""
        n = len(self.source)
        ranges = dict(self._map(find_missing, [CachedCondition(self.key(*condition), n) for condition in conditions]))
        return [ranges[number] for number in range(len(conditions))]

    def _in_memory(self, shift: Shift | None, level: float) -> Logits:
        shards = [Shard(shift, level, *cut, None) for cut in self._cuts(0, len(self.source), 1)]
        parts = dict(self._map(collect_shard, shards))
        return np.concatenate([parts[number] for number in range(len(shards))])

    def _cuts(self, low: int, high: int, n_conditions: int) -> Iterator[tuple[int, int]]:
        """[low, high) cut into shards of whole batches."""
        size, n = self.model.batch_size, len(self.source)
        n_shards = self.n_shards or 1
        if self.n_shards is None and self.engine.workers > 1:
            n_shards = math.ceil(TASKS_PER_WORKER * self.engine.workers / n_conditions)
        length = max(1, math.ceil(n / size / n_shards)) * size
        while low < high:
            stop = min(high, (low // length + 1) * length)
            yield low, stop
            low = stop

    def _map(self, function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        if self._job is None:
            self._job = self.engine.share(Job(self.model, self.source, self.cache, self.random_state))
        holds_gil = function is collect_shard and self.model.framework in ("callable", "sklearn", "keras")
        return self.engine.map(function, tasks, self._job, report=self._count, holds_gil=holds_gil)

    @contextmanager
    def progress(self, title: str, n_inputs: int) -> Iterator[None]:
        """Inside, show a progress bar over about `n_inputs` inputs, if the run wants one."""
        if not self.run.wants_bar:
            yield
            return
        bar = Progress(title, n_inputs, shown=True)
        self.on_progress = bar
        try:
            yield
        finally:
            bar.close()
            self.on_progress = self.run.on_progress

    def _count(self, name: str, n_samples: int) -> None:
        self.evaluated += n_samples
        if self.on_progress is not None:
            self.on_progress(name, n_samples)


def _memory_key(shift: Shift | None, level: float) -> Any:
    return None if shift is None or not level else (shift_identity(shift), float(level))
