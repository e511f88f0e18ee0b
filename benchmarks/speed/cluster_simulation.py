"""A billion predictions on up to a thousand workers, simulated event by event: ``python -m benchmarks.speed.cluster_simulation``.

The formula of `driftcal.pipeline.cluster_estimate` beside a simulation of what it leaves out: tasks of varying duration, slow
machines, worker failures, a driver that hands out one task at a time. Writes cluster_simulation.md beside this file; nothing
here is measured.
"""

from __future__ import annotations

import argparse
import heapq
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import table_row
from driftcal.pipeline.cluster_estimate import FIT_PASSES, Assumptions, MeasuredSpeed, Workload, estimate

#: 50 conditions of 20 million images, 1,000 classes; 200 images/s per worker (a small GPU), 150 kB per image.
WORK = Workload(n_samples=20_000_000, n_conditions=50, n_classes=1000, batch_size=256, n_fits=1)
SPEED = MeasuredSpeed(seconds_per_input=1 / 200, input_bytes=150_528, scores_per_second=2e8)
ASSUMPTIONS = Assumptions(storage_rate=20e9, merge_rate=1e9, seconds_per_task=0.0025, start_seconds=60.0, price=0.5)
LOG_STD = 0.2  # standard deviation of the logarithm of a task's duration
SLOW_SHARE, SLOW_FACTOR = 0.01, 5.0  # one worker in a hundred is five times slower
MEAN_LIFETIME = 100 * 3600.0  # seconds until a worker fails
TASK_SECONDS = 300.0


@dataclass(frozen=True)
class Collection:
    """Seconds until every task is done, worker failures, and tasks that a copy finished first."""

    seconds: float
    failures: int
    copies: int


def collect(workers: int, rng: np.random.Generator) -> Collection:
    """Simulate the forward passes; all workers share the rate of the storage."""
    per_task = max(1, round(TASK_SECONDS / SPEED.seconds_per_input))
    unstarted = -(-WORK.n_inputs // per_task)
    storage_rate = ASSUMPTIONS.storage_rate / workers
    seconds = per_task * max(SPEED.seconds_per_input, (SPEED.input_bytes + 12 * WORK.n_classes) / storage_rate)
    slowness = np.where(rng.random(workers) < SLOW_SHARE, SLOW_FACTOR, 1.0)
    free = [(ASSUMPTIONS.start_seconds, worker) for worker in range(workers)]
    heapq.heapify(free)
    ends, driver, failures = [], 0.0, 0
    while unstarted:
        ready, worker = heapq.heappop(free)
        start = driver = max(driver + ASSUMPTIONS.seconds_per_task, ready)
        duration = seconds * slowness[worker] * rng.lognormal(0, LOG_STD)
        unstarted -= 1
        lifetime = rng.exponential(MEAN_LIFETIME)
        if lifetime < duration:  # the task is started again, on a new worker
            failures += 1
            unstarted += 1
            heapq.heappush(free, (start + lifetime + ASSUMPTIONS.start_seconds, worker))
            continue
        ends.append(start + duration)
        heapq.heappush(free, (start + duration, worker))
    last, copies = 0.0, 0
    for end in sorted(ends)[-workers:]:  # all tasks have started: free workers start copies of late ones
        copy_end = driver + 3 * seconds + seconds * rng.lognormal(0, LOG_STD)
        copies += copy_end < end
        last = max(last, min(end, copy_end))
    return Collection(last, failures, copies)


def fit_seconds(workers: int) -> float:
    """The duration of the passes by the formula: tasks are shared out, one process merges statistics."""
    n_tasks = WORK.n_fit_tasks
    pass_seconds = -(-n_tasks // workers) * WORK.n_scores / n_tasks / SPEED.scores_per_second
    reading = WORK.logit_bytes / ASSUMPTIONS.storage_rate
    return FIT_PASSES * (max(pass_seconds, reading) + n_tasks * ASSUMPTIONS.seconds_per_task)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rng = np.random.default_rng(0)
    lines = []
    one_worker = None
    for workers in (1, 10, 100, 300, 1000):
        collection, fit = collect(workers, rng), fit_seconds(workers)
        total = collection.seconds + fit
        one_worker = one_worker or total
        formula = estimate(WORK, SPEED, workers, ASSUMPTIONS)
        cells = [
            f"{workers:,}",
            f"{collection.seconds / 3600:,.1f} h",
            f"{fit / 3600:,.2f} h",
            f"{total / 3600:,.1f} h",
        ]
        cells += [f"{one_worker / total / workers:.0%}", f"{formula.seconds / 3600:,.1f} h"]
        cost = workers * total / 3600 * ASSUMPTIONS.price
        lines.append(table_row([*cells, collection.failures, collection.copies, f"{cost:,.0f}"]))
    text = f"""# A billion predictions, simulated

    python -m benchmarks.speed.cluster_simulation

{WORK.n_inputs:,} forward passes ({WORK.n_samples:,} images under {WORK.n_conditions:g} conditions) of {WORK.n_classes:,} classes:
{WORK.logit_bytes / 1e12:.0f} TB of logits. Nothing in this table is measured. Assumed: {1 / SPEED.seconds_per_input:g} images/s per worker, {SPEED.input_bytes / 1e3:.0f} kB per image,
{ASSUMPTIONS.storage_rate / 1e9:g} GB/s from storage for all workers together, {SPEED.scores_per_second / 1e6:g} million scores/s and core in a pass, {FIT_PASSES} passes, {ASSUMPTIONS.seconds_per_task * 1e3:g} ms to hand out a
task, tasks of {TASK_SECONDS:g} s with a standard deviation of {LOG_STD:g} (log), one worker in {1 / SLOW_SHARE:g} {SLOW_FACTOR:g} times slower, a worker fails every {MEAN_LIFETIME / 3600:g} h, a new one takes
{ASSUMPTIONS.start_seconds:g} s to start, {ASSUMPTIONS.price:g} per worker-hour. Copies are second starts of late tasks that finished first.

| workers | collect | fit TS | together | of ideal | formula of `driftcal plan` | worker failures | copies | cost |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|
""" + "\n".join(lines)
    (Path(__file__).parent / "cluster_simulation.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
