"""Estimates of the time and cost of a run on k workers, and of the largest useful number of workers.

The time has five parts. Each follows from a measured speed or from an assumption that can be changed:

- **compute**: ceil(tasks / k) rounds of shift, model and writing of logits, since tasks have equal size;
- **storage**: reading and writing bytes, as far as this takes longer than computing; all workers share the storage;
- **passes**: a fit reads all scores a few times; a pass is cut into `n_fit_tasks` tasks;
- **merge**: distributing tasks and adding statistics, which one process does alone;
- **start**: starting the workers.

T(k) = start + ceil(tasks / k)·task + max(0, bytes / storage rate − compute − passes) + passes(k) + merge
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.scaling.temperature import nll_sums
from driftcal.core.blocks import BLOCK_SCORES
from driftcal.core.passes import N_ACCUMULATORS
from driftcal.engines.remote_passes import MAX_BLOCKS_PER_TASK
from driftcal.pipeline.collecting.collect import TASKS_PER_WORKER, Collector
from driftcal.pipeline.collecting.conditions import Condition

#: Passes of a fit over all scores, without those over a subsample.
FIT_PASSES = 8
#: The smallest useful share of the ideal speed-up.
MIN_EFFICIENCY = 0.5
#: Times that logits are read or written before a fit: they are written, and read and written again to merge parts.
_LOGIT_TRANSFERS = 3
#: The largest number of workers that is considered.
_MAX_WORKERS = 1 << 20


@dataclass(frozen=True)
class Assumptions:
    """What a measurement on one machine cannot show.

    Parameters
    ----------
    storage_rate
        Bytes per second that all workers together get from the storage.
    merge_rate
        Bytes of statistics that one process adds per second.
    seconds_per_task
        The time to send a task and to receive its result, one task after the other.
    start_seconds
        The time to start a worker and to open the model there.
    price
        The price of a worker for an hour.
    """

    storage_rate: float = 1e9
    merge_rate: float = 1e9
    seconds_per_task: float = 0.005
    start_seconds: float = 20.0
    price: float = 0.0


@dataclass(frozen=True)
class MeasuredSpeed:
    """The speed of one core: seconds to read, shift and run an input, its bytes, and scores per second of a pass."""

    seconds_per_input: float
    input_bytes: float
    scores_per_second: float

    @classmethod
    def of(cls, collector: Collector, conditions: Sequence[Condition], *, seconds: float = 1.0) -> MeasuredSpeed:
        """Time a few batches under a few of the conditions, and a pass over their logits, for about `seconds`."""
        source, model = collector.source, collector.model
        timed = conditions[:: max(1, len(conditions) // 4)]
        inputs, _, indices = next(source.batches(model.batch_size))
        for shift, level in timed:  # the first call may compile
            if shift is not None:
                shift(inputs[:1], level, indices=indices[:1])
        logits = model.logits(inputs)
        n_samples, spent = 0, 0.0
        while spent < seconds or not n_samples:
            shift, level = timed[n_samples // len(inputs) % len(timed)]
            begun = time.perf_counter()
            inputs, _, indices = next(source.batches(model.batch_size))
            if shift is not None and level:
                inputs = shift(inputs, level, seed=collector.random_state, indices=indices)
            model.logits(inputs)
            spent += time.perf_counter() - begun
            n_samples += len(inputs)
        return cls(spent / n_samples, inputs[:1].nbytes, _scores_per_second(logits, seconds / 4))


def _scores_per_second(logits: np.ndarray[Any, Any], seconds: float) -> float:
    n_classes = logits.shape[1]
    block = np.resize(logits, (max(1, BLOCK_SCORES // n_classes), n_classes))
    labels, weights, sums = np.zeros(len(block), np.int64), np.ones(len(block)), np.zeros(3)
    nll_sums(block, labels, weights, sums, 1.0)  # the first call may compile
    n_passes, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds or not n_passes:
        nll_sums(block, labels, weights, sums, 1.0)
        n_passes += 1
    return n_passes * block.size / (time.perf_counter() - begun)


@dataclass(frozen=True)
class Workload:
    """The size of a run: `n_samples` inputs under each of `n_conditions`, and `n_fits` fits on all logits.

    `statistic_bytes` is the size of the statistics that a task of a pass returns; isotonic regression has 64 bytes per
    sample.
    """

    n_samples: int
    n_conditions: float
    n_classes: int
    batch_size: int = 256
    n_fits: int = 1
    statistic_bytes: float = 64.0

    @property
    def n_inputs(self) -> int:
        """The number of inputs of the model."""
        return round(self.n_samples * self.n_conditions)

    @property
    def n_scores(self) -> float:
        """Numbers in all logits."""
        return float(self.n_inputs) * self.n_classes

    @property
    def logit_bytes(self) -> float:
        """Bytes of all logits."""
        return 4 * self.n_scores

    @property
    def n_fit_tasks(self) -> int:
        """Tasks that a pass of a fit is cut into: one per accumulator, more for very many scores."""
        return max(N_ACCUMULATORS, math.ceil(self.n_scores / BLOCK_SCORES / MAX_BLOCKS_PER_TASK))


@dataclass(frozen=True)
class Estimate:
    """Seconds on `n_workers` in total and of each part, the cost, and the share of the ideal speed-up."""

    n_workers: int
    seconds: float
    compute: float
    storage: float
    passes: float
    merge: float
    start: float
    cost: float
    efficiency: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class ClusterEstimate:
    """Estimates for several numbers of workers, the largest useful number, and what limits it."""

    estimates: Sequence[Estimate]
    max_useful_workers: int
    limit: str


def estimate(work: Workload, speed: MeasuredSpeed, n_workers: int, assumptions: Assumptions | None = None) -> Estimate:
    """T(k) for k = `n_workers`, by the formula at the top of this module.

    >>> work, speed = Workload(n_samples=50_000, n_conditions=100, n_classes=1000), MeasuredSpeed(0.01, 150_528, 2e8)
    >>> one, ten = (estimate(work, speed, k) for k in (1, 10))
    >>> round(one.seconds / ten.seconds)
    10
    """
    assumed = assumptions or Assumptions()
    one_worker = sum(_parts(work, speed, 1, assumed).values())
    parts = _parts(work, speed, n_workers, assumed)
    seconds = sum(parts.values())
    return Estimate(
        n_workers,
        seconds,
        **parts,
        cost=n_workers * seconds / 3600 * assumed.price,
        efficiency=one_worker / (n_workers * seconds),
    )


def _parts(work: Workload, speed: MeasuredSpeed, n_workers: int, assumed: Assumptions) -> dict[str, float]:
    n_batches = math.ceil(work.n_samples / work.batch_size)
    n_shards = max(1, min(n_batches, math.ceil(TASKS_PER_WORKER * n_workers / max(1.0, work.n_conditions))))
    shard_samples = min(math.ceil(n_batches / n_shards) * work.batch_size, work.n_samples)
    n_tasks = max(1, round(n_shards * work.n_conditions))
    compute = math.ceil(n_tasks / n_workers) * shard_samples * speed.seconds_per_input
    n_passes, n_fit_tasks = work.n_fits * FIT_PASSES, work.n_fit_tasks
    pass_seconds = math.ceil(n_fit_tasks / n_workers) * work.n_scores / n_fit_tasks / speed.scores_per_second
    passes = n_passes * pass_seconds
    n_bytes = work.n_inputs * speed.input_bytes + work.logit_bytes * (_LOGIT_TRANSFERS + n_passes)
    storage = max(0.0, n_bytes / assumed.storage_rate - compute - passes)  # workers read while they compute
    merge_seconds = work.statistic_bytes / assumed.merge_rate + assumed.seconds_per_task
    merge = n_passes * n_fit_tasks * merge_seconds + n_tasks * assumed.seconds_per_task
    return {"compute": compute, "storage": storage, "passes": passes, "merge": merge, "start": assumed.start_seconds}


def estimate_cluster(
    work: Workload, speed: MeasuredSpeed, n_workers: Sequence[int], assumptions: Assumptions | None = None
) -> ClusterEstimate:
    """Estimates for each number of workers, and the largest number with at least half of the ideal speed-up."""
    useful = 1
    while useful < _MAX_WORKERS and estimate(work, speed, 2 * useful, assumptions).efficiency >= MIN_EFFICIENCY:
        useful *= 2
    beyond = estimate(work, speed, 2 * useful, assumptions)
    ideal_compute = work.n_inputs * speed.seconds_per_input / beyond.n_workers
    ideal_passes = work.n_fits * FIT_PASSES * work.n_scores / speed.scores_per_second / beyond.n_workers
    lost_seconds = {
        "there are too few batches for more tasks": beyond.compute - ideal_compute,
        "the storage delivers no more bytes per second": beyond.storage,
        "a pass of a fit has too few tasks": beyond.passes - ideal_passes,
        "one process distributes all tasks and adds all statistics": beyond.merge,
        "workers take longer to start than to compute": beyond.start,
    }
    estimates = [estimate(work, speed, k, assumptions) for k in n_workers]
    return ClusterEstimate(estimates, useful, max(lost_seconds, key=lambda reason: lost_seconds[reason]))
