"""One task of collecting logits: some samples under one condition, written to the cache part by part."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftcal.cache import CacheKey, LogitCache
from driftcal.data import Source
from driftcal.models import Model
from driftcal.pipeline.collecting.conditions import condition_name
from driftcal.pipeline.collecting.run import OnProgress
from driftcal.shifts.shift import Shift
from driftcal.types import Array, Indices, Logits

#: Seconds between two writes to the cache: a killed run loses at most this work.
_PART_SECONDS = 2.0


@dataclass(frozen=True, eq=False)
class Job:
    """What a worker needs for all shards. It is sent once."""

    model: Model
    source: Source
    cache: LogitCache | None
    seed: int


@dataclass(frozen=True, eq=False)
class Shard:
    """The samples [start, stop) of a source under one condition: whole batches, one task."""

    shift: Shift | None
    level: float
    start: int
    stop: int
    key: CacheKey | None

    def __str__(self) -> str:
        return f"{condition_name(self.shift, self.level)}, samples {self.start}..{self.stop - 1}"


def collect_shard(job: Job, shard: Shard, report: OnProgress) -> Logits | None:
    """Compute a shard and write it to the cache part by part; without a cache return the logits."""
    batches = _compute(job, shard, report)
    if job.cache is None or shard.key is None:
        return np.concatenate([logits for _, logits in batches])
    labels, indices = job.source.labels, job.source.indices
    unwritten: list[tuple[int, Logits]] = []
    begun = time.monotonic()

    def flush() -> None:
        assert job.cache is not None
        assert shard.key is not None
        start = unwritten[0][0]
        logits = np.concatenate([part for _, part in unwritten])
        chosen = slice(start, start + len(logits))
        job.cache.put_part(shard.key, start, logits=logits, labels=labels[chosen], indices=indices[chosen])
        unwritten.clear()

    for batch in batches:
        unwritten.append(batch)
        if time.monotonic() - begun > _PART_SECONDS:
            flush()
            begun = time.monotonic()
    if unwritten:
        flush()
    return None


def _compute(job: Job, shard: Shard, report: OnProgress) -> Iterator[tuple[int, Logits]]:
    name, start = condition_name(shard.shift, shard.level), shard.start
    for inputs, labels, indices in job.source.batches(job.model.batch_size, shard.start, shard.stop):
        yield start, job.model.logits(shifted_inputs(shard.shift, inputs, shard.level, job.seed, indices))
        start += len(labels)
        report(name, len(labels))


def shifted_inputs(shift: Shift | None, inputs: Array, level: float, seed: int, indices: Indices) -> Array:
    """The inputs under a shift; unchanged at level 0."""
    return inputs if shift is None or not level else shift(inputs, level, seed=seed, indices=indices)


@dataclass(frozen=True, eq=False)
class CachedCondition:
    """The cached samples of one condition."""

    key: CacheKey
    n_samples: int

    def __str__(self) -> str:
        return f"the cached samples of {self.key.shift} {self.key.level}"


def find_missing(job: Job, task: CachedCondition, report: OnProgress) -> list[tuple[int, int]]:
    """The ranges of samples that the cache lacks."""
    assert job.cache is not None
    return job.cache.missing(task.key, task.n_samples)


def finish_entry(job: Job, task: CachedCondition, report: OnProgress) -> None:
    """Join the parts of a complete condition."""
    assert job.cache is not None
    job.cache.finish(task.key, task.n_samples)
