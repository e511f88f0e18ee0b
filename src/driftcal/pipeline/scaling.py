"""How long a run takes on k workers, what it costs, and where more of them stop helping.

The model has four parts, each from a measured probe or an assumption that can be changed:

- **compute**: tasks of equal size, done k at a time: ceil(tasks / k) rounds of shift, model and writing the answers;
- **read**: bytes in and out of storage, which all workers share;
- **passes**: a fit goes over all scores a few times, lane by lane; at most `lanes` workers help;
- **merge**: what one process does alone: handing out tasks, adding up statistics.

T(k) = start + rounds(k)·(task + handing over) + max(0, bytes / storage − compute) + passes(k) + merge
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
from driftcal.pipeline.collect import Collector, Condition

#: Passes over all scores that tuning one method takes (docs/how-data-flows.md), previews left out; and of an evaluation.
FIT_PASSES = 8
#: Workers below this share of the ideal speed-up are not worth their price.
WORTH = 0.5


@dataclass(frozen=True)
class Assumptions:
    """What a probe on one machine cannot see."""

    storage: float = 1e9  # bytes per second that all workers together get from the storage
    merge: float = 1e9  # bytes of statistics that one process adds up per second
    hand_over: float = 0.005  # seconds to hand out a task and take its answer; a driver does one at a time
    start: float = 20.0  # seconds until a worker is ready and has opened the model
    price: float = 0.0  # of a worker-hour


@dataclass(frozen=True)
class Probe:
    """What one core of this machine does, measured."""

    seconds_per_input: float  # read, shift, model
    input_bytes: float
    scores_per_second: float  # of a pass of a fit

    @classmethod
    def of(cls, collector: Collector, conditions: Sequence[Condition], *, seconds: float = 1.0) -> Probe:
        """Time a few batches under a few of the shifts, and a pass over their logits, for about so many seconds each."""
        source, model = collector.source, collector.model
        some = conditions[:: max(1, len(conditions) // 4)]
        inputs, _, indices = next(source.batches(model.batch_size))
        for shift, level in some:  # the first call may compile
            if shift is not None:
                shift(inputs[:1], level, indices=indices[:1])
        logits = model.logits(inputs)
        rows, spent = 0, 0.0
        while spent < seconds or not rows:
            shift, level = some[rows // len(inputs) % len(some)]
            begun = time.perf_counter()
            inputs, _, indices = next(source.batches(model.batch_size))
            if shift is not None and level:
                inputs = shift(inputs, level, seed=collector.random_state, indices=indices)
            model.logits(inputs)
            spent += time.perf_counter() - begun
            rows += len(inputs)
        width = logits.shape[1]
        block = np.resize(logits, (max(1, BLOCK_SCORES // width), width))
        labels, weights, sums = np.zeros(len(block), np.int64), np.ones(len(block)), np.zeros(3)
        nll_sums(block, labels, weights, sums, 1.0)
        passes, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds / 4 or not passes:
            nll_sums(block, labels, weights, sums, 1.0)
            passes += 1
        rate = passes * block.size / (time.perf_counter() - begun)
        return cls(spent / rows, inputs[:1].nbytes, rate)


@dataclass(frozen=True)
class Workload:
    """What has to be done: `conditions` passes of `rows` inputs, `classes` scores each; `fits` calibrators fitted on it."""

    rows: int
    conditions: float
    classes: int
    batch: int = 256
    fits: int = 1
    state: float = 64.0  # bytes of statistics that a lane sends back per pass; isotonic curves: 64 per row

    @property
    def inputs(self) -> int:
        """Forward passes of the model."""
        return round(self.rows * self.conditions)

    @property
    def scores(self) -> float:
        """Numbers in all logits."""
        return float(self.inputs) * self.classes

    @property
    def lanes(self) -> int:
        """How many workers a pass of a fit can use."""
        return max(N_ACCUMULATORS, math.ceil(self.scores / BLOCK_SCORES / MAX_BLOCKS_PER_TASK))


@dataclass(frozen=True)
class Estimate:
    """Seconds on so many workers, part by part; `cost` in the currency of the price."""

    workers: int
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


def estimate(work: Workload, probe: Probe, workers: int, given: Assumptions | None = None) -> Estimate:
    """T(k) for k = `workers`; the model is in this module's first lines.

    >>> work, probe = Workload(rows=50_000, conditions=100, classes=1000), Probe(0.01, 150_528, 2e8)
    >>> one, ten = (estimate(work, probe, k) for k in (1, 10))
    >>> round(one.seconds / ten.seconds)
    10
    """
    given = given or Assumptions()
    one = _parts(work, probe, 1, given)
    here = _parts(work, probe, workers, given)
    seconds = sum(here.values())
    return Estimate(
        workers,
        seconds,
        here["compute"],
        here["storage"],
        here["passes"],
        here["merge"],
        here["start"],
        workers * seconds / 3600 * given.price,
        sum(one.values()) / (workers * seconds),
    )


def _parts(work: Workload, probe: Probe, workers: int, given: Assumptions) -> dict[str, float]:
    batches = math.ceil(work.rows / work.batch)
    shards = max(1, min(batches, math.ceil(4 * workers / max(1.0, work.conditions))))
    rows = math.ceil(batches / shards) * work.batch
    tasks = max(1, round(shards * work.conditions))
    compute = math.ceil(tasks / workers) * min(rows, work.rows) * probe.seconds_per_input
    travelling = work.inputs * probe.input_bytes + 4 * work.scores * (
        3 + work.fits * FIT_PASSES
    )  # parts are merged once
    lanes = work.lanes
    a_pass = math.ceil(lanes / workers) * work.scores / lanes / probe.scores_per_second
    passes = work.fits * FIT_PASSES * a_pass
    merge = work.fits * FIT_PASSES * lanes * (work.state / given.merge + given.hand_over) + tasks * given.hand_over
    storage = max(
        0.0, travelling / given.storage - compute - passes
    )  # reading hides behind computing until it is slower
    return {"compute": compute, "storage": storage, "passes": passes, "merge": merge, "start": given.start}


def scaling(
    work: Workload, probe: Probe, workers: Sequence[int], given: Assumptions | None = None
) -> tuple[list[Estimate], int, str]:
    """Estimates for each number of workers; the largest number still worth its price, and what stands in the way then."""
    found = [estimate(work, probe, k, given) for k in workers]
    k = 1
    while k < 1 << 20 and estimate(work, probe, 2 * k, given).efficiency >= WORTH:
        k *= 2
    beyond = estimate(work, probe, 2 * k, given)
    waits = {
        "there are too few batches to share out": beyond.compute - work.inputs * probe.seconds_per_input / (2 * k),
        "the storage gives no more bytes per second": beyond.storage,
        "a pass of a fit has no more lanes": beyond.passes
        - work.fits * FIT_PASSES * work.scores / probe.scores_per_second / (2 * k),
        "one process hands out all tasks and adds up all statistics": beyond.merge,
        "workers take longer to start than to work": beyond.start,
    }
    return found, k, max(waits, key=lambda reason: waits[reason])
