"""The overhead of an engine and the speed-up of a second worker: ``python -m benchmarks.speed.engines FOLDER``.

Tasks of a second each, in a bare loop, on the local engine and on Ray; a network's forward pass over a source on one and on
two Ray workers; a fit on stored logits. Ratios come from one run, in alternation. Writes engines.md beside this file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import PeakMemory, machine, seconds_of, table_row
from driftcal import open_model
from driftcal.cache import CacheKey, LogitCache
from driftcal.calibrators import make_calibrator
from driftcal.data import from_arrays
from driftcal.engines import Engine, open_engine
from driftcal.engines.remote_passes import StoredLogits, stack
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.run import Run
from driftcal.shifts import get_shift

N_TASKS = 4
N_ROUNDS = 5
N_IMAGES = 4096
#: Samples of the fits; the first one loads what every fit loads, and is not shown.
FIT_SIZES = (800, 20_000, 200_000)


@dataclass(frozen=True)
class Overhead:
    """Seconds per task, and the share of the time that was not spent inside tasks."""

    seconds_per_task: float
    outside: float


@dataclass(frozen=True)
class FitTiming:
    """Seconds of a fit on an array and on workers, and the memory of the calling process there."""

    method: str
    n_samples: int
    local_seconds: float
    worker_seconds: float
    caller_megabytes: float


def make_net() -> Any:
    """A small convolutional network for 32×32 images, 10 classes, on one thread."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU()]
    for _ in range(3):
        layers += [torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))


def work(loops: int, task: int, report: object) -> float:
    """Compute on one core; returns its own duration in seconds."""
    start = time.perf_counter()
    a = np.full((64, 64), 1e-3)
    for _ in range(loops):
        a = a @ a * 1e-3 + 1e-3
    return time.perf_counter() - start


def loops_per_second() -> int:
    work(1000, 0, None)
    return round(20_000 / work(20_000, 0, None))


def measure_overhead(engines: Mapping[str, Engine]) -> dict[str, Overhead]:
    """The overhead of a bare loop and of each engine; medians over the rounds, which alternate."""
    loops = loops_per_second()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ("loop", *engines)}

    def record(name: str, run: Callable[[], list[float]]) -> None:
        start = time.perf_counter()
        inside = sum(run())
        seconds = time.perf_counter() - start
        times[name].append((seconds / N_TASKS, seconds / inside - 1))

    for _ in range(N_ROUNDS):
        record("loop", lambda: [work(loops, k, None) for k in range(N_TASKS)])
        for name, engine in engines.items():
            shared = engine.share(loops)
            record(name, lambda e=engine, k=shared: [seconds for _, seconds in e.map(work, range(N_TASKS), k)])
    return {name: Overhead(*map(statistics.median, zip(*rounds, strict=True))) for name, rounds in times.items()}


def seconds_per_empty_task(engine: Engine) -> float:
    shared = engine.share(0)
    list(engine.map(work, range(4), shared))
    return seconds_of(lambda: list(engine.map(work, range(200), shared))) / 200


def images_per_second(folder: Path, engines: Mapping[str, Engine]) -> dict[str, float]:
    """The speed of a collection on each engine; medians over the rounds."""
    rng = np.random.default_rng(0)
    source = from_arrays(rng.random((N_IMAGES, 32, 32, 3), np.float32), np.arange(N_IMAGES) % 10)
    model = open_model("benchmarks.speed.engines:make_net", batch_size=32)
    cache, shift = LogitCache(folder), get_shift("gaussian")
    collectors = {
        name: Collector(model, source, run=Run(cache, engine), random_state=seed)
        for seed, (name, engine) in enumerate(engines.items())
    }
    for collector in collectors.values():
        collector.gather([(shift, 0.5)])  # opens the model on every worker
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(N_ROUNDS):
        for name, collector in collectors.items():
            condition = (shift, 0.01 * (number + 1))
            rates[name].append(len(source) / seconds_of(lambda c=collector, x=condition: c.gather([x])))
    return {name: statistics.median(values) for name, values in rates.items()}


def time_fits(folder: Path, engine: Engine) -> list[FitTiming]:
    """Fits on eight stored shards of 100 classes, beside the same samples in one array."""
    timings = []
    for n in FIT_SIZES:
        rng, cache, shards, arrays = np.random.default_rng(0), LogitCache(folder / str(n)), [], []
        labels = rng.integers(0, 100, n // 8)
        for k in range(8):
            logits = rng.standard_normal((n // 8, 100), np.float32) * 2
            logits[np.arange(len(labels)), labels] += 4 - k / 3
            key = CacheKey("m", "s", level=k)
            cache.put(key, logits=logits, labels=labels)
            arrays.append(logits)
            shards.append(StoredLogits(cache, key, len(labels), 100, engine))
        all_logits, all_labels = np.concatenate(arrays), np.tile(labels, 8)
        del arrays
        for method in ("ts", "ets", "ir", "irm"):
            with PeakMemory() as memory:
                on_workers = seconds_of(lambda m=method, s=shards, y=labels: make_calibrator(m).fit(*stack(s, y)))
            local = seconds_of(lambda m=method, x=all_logits, y=all_labels: make_calibrator(m).fit(x, y))
            timings.append(FitTiming(method, n, local, on_workers, memory.megabytes))
    return [timing for timing in timings if timing.n_samples > FIT_SIZES[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="an empty folder for logits")
    folder = parser.parse_args().folder
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    warnings.simplefilter("ignore")
    time.sleep(5)  # programs that were just stopped have ended by then
    load_before = os.getloadavg()[0]
    start = time.perf_counter()
    import ray

    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    one, two = open_engine("ray", workers=1), open_engine("ray", workers=2)
    list(two.map(work, range(2), two.share(1)))
    start_seconds = time.perf_counter() - start
    overheads = measure_overhead({"local": open_engine("local"), "ray": one})
    empty_task = seconds_per_empty_task(one)
    rates = images_per_second(folder / "cache", {"one": one, "two": two})
    fits = time_fits(folder / "fits", two)
    ray.shutdown()

    def overhead_row(title: str, name: str) -> str:
        overhead, loop = overheads[name], overheads["loop"]
        over_loop = "" if name == "loop" else f"{overhead.seconds_per_task / loop.seconds_per_task - 1:+.1%}"
        return table_row([title, f"{overhead.seconds_per_task:.3f}", over_loop, f"{overhead.outside:.2%}"])

    text = f"""# Engines

    python -m benchmarks.speed.engines FOLDER

{machine()}. Load average before: {load_before:.2f}, after: {os.getloadavg()[0]:.2f}. A Ray cluster on this machine, import to first result: {start_seconds:.1f} s.

| tasks of about a second | seconds per task | over the bare loop | not spent inside tasks |
|---|---:|---:|---:|
{overhead_row("bare loop", "loop")}
{overhead_row("`local`", "local")}
{overhead_row("`ray`, one worker", "ray")}

`local` adds only a loop, so its column "over the bare loop" shows how much the speed of the machine varies. A task that does nothing takes {empty_task * 1e3:.1f} ms on `ray`.

| forward pass, {N_IMAGES:,} images, a small convolutional net | images per second |
|---|---:|
| one Ray worker | {rates["one"]:,.0f} |
| two Ray workers | {rates["two"]:,.0f} ({rates["two"] / rates["one"]:.2f}×) |

| fit on 8 stored shards of 100 classes | samples | one array, all cores | two Ray workers | memory of the caller |
|---|---:|---:|---:|---:|
"""
    for fit in fits:
        seconds = [f"{fit.local_seconds:.2f} s", f"{fit.worker_seconds:.2f} s"]
        text += table_row([fit.method, f"{fit.n_samples:,}", *seconds, f"{fit.caller_megabytes:.1f} MB"]) + "\n"
    text += (
        f"\nThe logits are {20_000 * 400 / 1e6:.0f} MB and {200_000 * 400 / 1e6:.0f} MB. TS and ETS return a few numbers per "
        "pass; IR and IRM sort the score of the true class of every sample in the caller, for any number of classes.\n"
    )
    (Path(__file__).parent / "engines.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
