"""Logits of a model on shifted data: computed once, on any engine, kept in a store, resumed after a kill."""

from __future__ import annotations

import dataclasses
import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.cache import CacheKey, LogitCache
from driftcal.core.dataset import LabelledLogits
from driftcal.data import Source
from driftcal.engines import Engine, LocalEngine
from driftcal.engines.remote_passes import ConditionLogits, StoredLogits, stack
from driftcal.errors import InputError
from driftcal.io.fingerprint import fingerprint
from driftcal.models import Model, pooled_features
from driftcal.shifts.shift import Shift
from driftcal.types import Array, Labels, Logits

#: Seconds of work that a kill may cost.
_PART_SECONDS = 2.0
#: Tasks per worker, where there are several: the last ones to finish then leave the others idle for a short time only.
_TASKS_PER_WORKER = 4

#: Called with what is being computed and how many rows of it were just done.
OnProgress = Callable[[str, int], None]
Condition = tuple[Shift, float]


@dataclass(frozen=True, eq=False)
class Job:
    """What a worker needs for any shard of a collection; it gets this once."""

    model: Model
    source: Source
    store: LogitCache | None
    seed: int


@dataclass(frozen=True, eq=False)
class Shard:
    """The rows [start, stop) of a source under a shift at a level: whole batches, one task."""

    shift: Shift
    level: float
    start: int
    stop: int
    key: CacheKey | None

    def __str__(self) -> str:
        what = f"{self.shift.name} {self.level:g}" if self.level else "clean"
        return f"{what}, rows {self.start}..{self.stop - 1}"


class Collector:
    """A model's logits on one source under any shift and level, each computed at most once.

    With a `store` they are kept there under the fingerprints of model, data and shift: a run that was killed goes on where
    it was and ends with the same bytes. Without one they are kept in memory. Level 0 of every shift is the same clean
    pass. `evaluated` counts the inputs the model was asked about. The `engine` decides where the model runs; `shards` cuts
    each condition into so many tasks (default: as many as keep its workers busy).
    """

    def __init__(
        self,
        model: Model,
        source: Source,
        *,
        store: LogitCache | None = None,
        seed: int = 0,
        on_progress: OnProgress | None = None,
        engine: Engine | None = None,
        shards: int | None = None,
    ) -> None:
        if not len(source):
            raise InputError(f"{source.name} must have rows to evaluate; it has none. Check the split.")
        self.model, self.source, self.store, self.seed = model, source, store, seed
        self.engine = engine or LocalEngine()
        self.on_progress, self.shards = on_progress, shards
        self.evaluated = 0
        self._memory: dict[Any, Logits] = {}
        model.prepare(source.inputs(source.indices[:16]))
        self._model_print = model.fingerprint
        self._job: Any = None
        self._there: set[str] = set()  # digests of keys that workers have finished

    @property
    def labels(self) -> Labels:
        """The label of each row."""
        return self.source.labels

    @property
    def passes(self) -> float:
        """Inputs the model was asked about, as a multiple of the source."""
        return self.evaluated / len(self.source)

    @property
    def spread(self) -> bool:
        """Whether logits stay in the store, and whoever wants to know something about them asks the workers."""
        return self.store is not None and self.engine.remote

    def logits(self, shift: Shift, level: float = 0, *, keep: bool = True) -> Logits:
        """float32 (n, C) of the source under `shift` at `level`; with ``keep=False`` memory does not hold on to them."""
        if self.store is not None:
            self.gather([(shift, level)])
            entry = self.store.finish(self.key(shift, level), len(self.source))
            return entry.logits
        key = _memory_key(shift, level)
        if key in self._memory:
            return self._memory[key]
        found = self._in_memory([(shift, level)])[0]
        if keep:
            self._memory[key] = found
        return found

    def part(self, shift: Shift, level: float = 0) -> ConditionLogits:
        """The logits, or where the logits are: what :func:`driftcal.engines.remote_passes.stack` and `map_logits` take."""
        if not self.spread:
            return self.logits(shift, level)
        assert self.store is not None
        self.gather([(shift, level)])
        return StoredLogits(self.store, self.key(shift, level), len(self.source), self.model.n_classes, self.engine)

    def features(self, shift: Shift, level: float, layers: Sequence[str]) -> dict[str, Array]:
        """Pooled features of the source under `shift` at `level`, layer by layer; computed here, and kept in the store."""
        key = self.features_key(shift, level, layers)
        entry = None if self.store is None else self.store.get(key)
        if entry is not None:
            return {layer: entry.arrays[f"layer{k}"] for k, layer in enumerate(layers)}
        what, found = f"features of {shift.name} {level:g}" if level else "features of clean", []
        for inputs, _, indices in self.source.batches(self.model.batch_size):
            shifted = shift(inputs, level, seed=self.seed, indices=indices) if level else inputs
            found.append(pooled_features(self.model, shifted, layers))
            self._count(what, len(inputs))
        together = {layer: np.concatenate([part[layer] for part in found]) for layer in layers}
        if self.store is not None:
            more = {f"layer{k}": together[layer] for k, layer in enumerate(layers)}
            logits = self.logits(shift, level)
            self.store.put(key, logits=logits, labels=self.labels, indices=self.source.indices, **more)
        return together

    def accuracy(self, shift: Shift, level: float = 0) -> float:
        """The share of rows whose largest logit is the label's."""
        data = stack([self.part(shift, level)], self.labels)[0]
        if isinstance(data, LabelledLogits):
            return data.accuracy
        return float(np.mean(data.argmax(axis=1) == self.labels))

    def some(self, shift: Shift, level: float, rows: Array) -> Logits:
        """The same for some rows only, computed anew: what a search looks at before it knows where to look."""
        part = Collector(self.model, self.source.subset(rows), seed=self.seed, engine=self.engine)
        logits = part.logits(shift, level)
        self.evaluated += len(rows)
        return logits

    def key(self, shift: Shift, level: float) -> CacheKey:
        """What decides these logits."""
        common: dict[str, Any] = {
            "model": self._model_print,
            "source": self.source.fingerprint,
            "batch_size": self.model.batch_size,
        }
        if level == 0:
            return CacheKey(**common)
        identity = {"shift": shift_identity(shift)}
        return CacheKey(**common, shift=shift.name, level=float(level), seed=self.seed, extra=identity)

    def features_key(self, shift: Shift, level: float, layers: Sequence[str]) -> CacheKey:
        """What decides these features: what decides the logits, and where one looks."""
        key = self.key(shift, level)
        return dataclasses.replace(key, extra={**key.extra, "layers": list(layers)})

    def missing(self, conditions: Iterable[Condition]) -> float:
        """How many passes over the source these conditions would take now: what is stored is free, level 0 shared."""
        wanted = self._distinct(conditions)
        if self.store is None:
            return float(len(wanted))
        gaps = self._gaps(list(wanted.values()))
        return sum(stop - start for ranges in gaps for start, stop in ranges) / len(self.source)

    def gather(self, conditions: Iterable[Condition]) -> None:
        """See to it that all these conditions are in the store, whatever is missing of them computed in one go."""
        wanted = {digest: c for digest, c in self._distinct(conditions).items() if digest not in self._there}
        if self.store is None or not wanted:
            return
        listed = list(wanted.values())
        shards = [
            Shard(shift, level, start, stop, self.key(shift, level))
            for (shift, level), gaps in zip(listed, self._gaps(listed), strict=True)
            for low, high in gaps
            for start, stop in self._cuts(low, high, len(listed))
        ]
        for _ in self._run(collect_shard, shards):
            pass
        n = len(self.source)
        for _ in self._run(_finish, [_Finish(self.key(*condition), n) for condition in listed]):
            pass
        self._there |= set(wanted)

    def _distinct(self, conditions: Iterable[Condition]) -> dict[str, Condition]:
        return {self.key(shift, level).digest: (shift, level) for shift, level in conditions}

    def _gaps(self, conditions: Sequence[Condition]) -> list[list[tuple[int, int]]]:
        """The row ranges of each condition that are not in the store; looked up where the tasks run."""
        n = len(self.source)
        found = dict(self._run(_look, [_Finish(self.key(*condition), n) for condition in conditions]))
        return [found[number] for number in range(len(conditions))]

    def _in_memory(self, conditions: Sequence[Condition]) -> list[Logits]:
        n = len(self.source)
        shards = [Shard(*c, *cut, None) for c in conditions for cut in self._cuts(0, n, len(conditions))]
        answers = dict(self._run(collect_shard, shards))
        each = len(shards) // len(conditions)
        return [np.concatenate([answers[i] for i in range(k, k + each)]) for k in range(0, len(shards), each)]

    def _cuts(self, low: int, high: int, conditions: int) -> Iterator[tuple[int, int]]:
        """[low, high) in shards that begin where batches begin."""
        size, n = self.model.batch_size, len(self.source)
        wanted = self.shards or 1
        if self.shards is None and self.engine.workers > 1:
            wanted = math.ceil(_TASKS_PER_WORKER * self.engine.workers / conditions)
        rows = max(1, math.ceil(n / size / wanted)) * size
        while low < high:
            stop = min(high, (low // rows + 1) * rows)
            yield low, stop
            low = stop

    def _run(self, function: Callable[..., Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        if self._job is None:
            self._job = self.engine.share(Job(self.model, self.source, self.store, self.seed))
        holds_gil = function is collect_shard and self.model.framework in ("callable", "sklearn", "keras")
        return self.engine.map(function, tasks, self._job, report=self._count, holds_gil=holds_gil)

    def _count(self, what: str, rows: int) -> None:
        self.evaluated += rows
        if self.on_progress is not None:
            self.on_progress(what, rows)


def collect_shard(job: Job, shard: Shard, report: OnProgress) -> Logits | None:
    """Compute a shard: into the store, part by part, or where there is none, as the answer."""
    batches = _compute(job, shard, report)
    if job.store is None or shard.key is None:
        return np.concatenate([logits for _, logits in batches])
    labels, indices = job.source.labels, job.source.indices
    waiting: list[tuple[int, Logits]] = []
    begun = time.monotonic()

    def flush() -> None:
        assert job.store is not None
        assert shard.key is not None
        start = waiting[0][0]
        logits = np.concatenate([rows for _, rows in waiting])
        here = slice(start, start + len(logits))
        job.store.put_part(shard.key, start, logits=logits, labels=labels[here], indices=indices[here])
        waiting.clear()

    for batch in batches:
        waiting.append(batch)
        if time.monotonic() - begun > _PART_SECONDS:
            flush()
            begun = time.monotonic()
    if waiting:
        flush()
    return None


def _compute(job: Job, shard: Shard, report: OnProgress) -> Iterator[tuple[int, Logits]]:
    what = f"{shard.shift.name} {shard.level:g}" if shard.level else "clean"
    start = shard.start
    for inputs, labels, indices in job.source.batches(job.model.batch_size, shard.start, shard.stop):
        if shard.level:
            inputs = shard.shift(inputs, shard.level, seed=job.seed, indices=indices)
        yield start, job.model.logits(inputs)
        start += len(labels)
        report(what, len(labels))


@dataclass(frozen=True, eq=False)
class _Finish:
    key: CacheKey
    n: int

    def __str__(self) -> str:
        return f"the stored rows of {self.key.shift} {self.key.level}"


def _look(job: Job, task: _Finish, report: OnProgress) -> list[tuple[int, int]]:
    assert job.store is not None
    return job.store.missing(task.key, task.n)


def _finish(job: Job, task: _Finish, report: OnProgress) -> None:
    assert job.store is not None
    job.store.finish(task.key, task.n)


def _memory_key(shift: Shift, level: float) -> Any:
    return (shift_identity(shift), float(level)) if level else None


def shift_identity(shift: Shift) -> str:
    """A fingerprint of everything that decides what a shift does, its own parameters and a user's code included."""
    parts: dict[str, Any] = {"name": shift.name, "kind": type(shift).__name__}
    if dataclasses.is_dataclass(shift):
        parts |= {field.name: _plain(getattr(shift, field.name)) for field in dataclasses.fields(shift)}
    else:
        parts["code"] = _plain(type(shift).__call__)
    return fingerprint(parts)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value if value.dtype != object else [repr(v) for v in value.tolist()]
    if isinstance(value, tuple | list):
        return [fingerprint({"value": _plain(v)}) for v in value]
    if callable(value) and not dataclasses.is_dataclass(value):
        try:
            return inspect.getsource(value)
        except (OSError, TypeError):  # typed in a console: its bytecode is all there is
            code = getattr(value, "__code__", None)
            return [code.co_code.hex(), repr(code.co_consts)] if code else repr(type(value))
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
