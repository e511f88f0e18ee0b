"""A billion predictions on up to a thousand workers, simulated event by event: ``python -m benchmarks.speed.cluster_simulation``.

The closed formula of `driftcal.pipeline.scaling` beside a simulation of what it leaves out: tasks that vary, slow machines, workers
that die, a driver that hands out one task at a time. Writes cluster_simulation.md beside it; nothing here is measured.
"""

from __future__ import annotations

import heapq
from pathlib import Path

import numpy as np

from driftcal.pipeline.scaling import FIT_PASSES, Assumptions, Probe, Workload, estimate

#: 50 conditions of 20 million images, 1,000 classes; 200 images/s per worker (a small GPU), 150 kB per image.
WORK = Workload(rows=20_000_000, conditions=50, classes=1000, batch=256, fits=1)
PROBE = Probe(seconds_per_input=1 / 200, input_bytes=150_528, scores_per_second=2e8)
GIVEN = Assumptions(storage=20e9, merge=1e9, hand_over=0.0025, start=60.0, price=0.5)
SPREAD = 0.2  # of the logarithm of a task's time
SLOW_SHARE, SLOW = 0.01, 5.0  # one worker in a hundred is five times slower
LIFETIME = 100 * 3600.0  # seconds that a worker lives on average
TASK_SECONDS = 300.0


def collect(workers: int, rng: np.random.Generator) -> tuple[float, int, int]:
    """Seconds until every task is done, deaths, and twins started; storage counted as a rate all workers share."""
    per_task = max(1, round(TASK_SECONDS / PROBE.seconds_per_input))
    count = -(-WORK.inputs // per_task)
    share = GIVEN.storage / workers
    seconds = per_task * max(PROBE.seconds_per_input, (PROBE.input_bytes + 12 * WORK.classes) / share)
    slow = np.where(rng.random(workers) < SLOW_SHARE, SLOW, 1.0)
    free = [(GIVEN.start, worker) for worker in range(workers)]
    heapq.heapify(free)
    waiting, running, driver, end, deaths, twins = count, [], 0.0, 0.0, 0, 0
    while waiting:
        ready, worker = heapq.heappop(free)
        begun = driver = max(driver + GIVEN.hand_over, ready)
        took = seconds * slow[worker] * rng.lognormal(0, SPREAD)
        waiting -= 1
        death = rng.exponential(LIFETIME)
        if death < took:  # the task goes back, a new worker comes
            deaths += 1
            waiting += 1
            heapq.heappush(free, (begun + death + GIVEN.start, worker))
            continue
        running.append(begun + took)
        heapq.heappush(free, (begun + took, worker))
    for late in sorted(running)[-workers:]:  # nothing left to start: whoever is free takes a twin of what is late
        twin = driver + 3 * seconds + seconds * rng.lognormal(0, SPREAD)
        twins += twin < late
        end = max(end, min(late, twin))
    return end, deaths, twins


def fit(workers: int) -> float:
    """Seconds of the passes, as the formula has them: lanes shared out, statistics merged by one."""
    lanes = WORK.lanes
    a_pass = -(-lanes // workers) * WORK.scores / lanes / PROBE.scores_per_second
    reading = 4 * WORK.scores / GIVEN.storage
    return FIT_PASSES * (max(a_pass, reading) + lanes * GIVEN.hand_over)


def main() -> None:
    rng = np.random.default_rng(0)
    lines = []
    base = None
    for workers in (1, 10, 100, 300, 1000):
        seconds, deaths, twins = collect(workers, rng)
        total = seconds + fit(workers)
        base = base or total
        formula = estimate(WORK, PROBE, workers, GIVEN)
        lines.append(
            f"| {workers:,} | {seconds / 3600:,.1f} h | {fit(workers) / 3600:,.2f} h | {total / 3600:,.1f} h | "
            f"{base / total / workers:.0%} | {formula.seconds / 3600:,.1f} h | {deaths} | {twins} | "
            f"{workers * total / 3600 * GIVEN.price:,.0f} |"
        )
    text = f"""# A billion predictions, simulated

    python -m benchmarks.speed.cluster_simulation

{WORK.inputs:,} forward passes ({WORK.rows:,} images under {WORK.conditions:g} conditions) of {WORK.classes:,} classes:
{4 * WORK.scores / 1e12:.0f} TB of logits. Nothing in this table is measured. Assumed: {1 / PROBE.seconds_per_input:g} images/s per worker, {PROBE.input_bytes / 1e3:.0f} kB per image,
{GIVEN.storage / 1e9:g} GB/s from storage for all workers together, {PROBE.scores_per_second / 1e6:g} million scores/s and core in a pass, {FIT_PASSES} passes, {GIVEN.hand_over * 1e3:g} ms to hand out a
task, tasks of {TASK_SECONDS:g} s with a spread of {SPREAD:g} (log), one worker in {1 / SLOW_SHARE:g} {SLOW:g} times slower, a worker dies every {LIFETIME / 3600:g} h, a new one takes
{GIVEN.start:g} s to start, {GIVEN.price:g} per worker-hour.

| workers | collect | fit TS | together | of ideal | formula of `driftcal plan` | workers lost | twins | cost |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|
""" + "\n".join(lines)
    (Path(__file__).parent / "cluster_simulation.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
