"""What an engine costs and what a second worker brings, in one run: ``python -m benchmarks.speed.engines FOLDER``.

Tasks of a second each, in a bare loop, through `here` and through Ray; a network's forward pass over a source through one
and through two Ray workers; a fit over stored logits. Ratios come from one run, in turns. Writes engines.md beside it.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.speed.measure import PeakMemory, machine
from driftcal import open_model
from driftcal.cache import CacheKey, LogitCache
from driftcal.calibrators import make_calibrator
from driftcal.data import from_arrays
from driftcal.engines import open_engine
from driftcal.engines.remote_passes import StoredLogits, stack
from driftcal.pipeline.collect import Collector
from driftcal.shifts import get_shift

TASKS = 4
ROUNDS = 5
IMAGES = 4096


def make_net():
    """A small convolutional network for 32×32 images, 10 classes, on one thread."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU()]
    for _ in range(3):
        layers += [torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))


def burn(loops: int, task: int, tell: object) -> float:
    """Work for about a second on one core; how long it took by its own clock."""
    begun = time.perf_counter()
    a = np.full((64, 64), 1e-3)
    for _ in range(loops):
        a = a @ a * 1e-3 + 1e-3
    return time.perf_counter() - begun


def loops_per_second() -> int:
    burn(1000, 0, None)
    begun = time.perf_counter()
    burn(20_000, 0, None)
    return round(20_000 / (time.perf_counter() - begun))


def seconds_of(action: object) -> float:
    begun = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - begun


def overhead(engines: dict[str, object]) -> dict[str, tuple[float, float]]:
    """Seconds per task, and the share of them that was not spent inside tasks; medians over the rounds, in turns."""
    loops = loops_per_second()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("loop", *engines)}

    def note(name: str, run: object) -> None:
        begun = time.perf_counter()
        inside = sum(run())  # type: ignore[operator]
        wall = time.perf_counter() - begun
        found[name].append((wall / TASKS, wall / inside - 1))

    for _ in range(ROUNDS):
        note("loop", lambda: [burn(loops, k, None) for k in range(TASKS)])
        for name, engine in engines.items():
            kept = engine.keep(loops)
            note(name, lambda e=engine, k=kept: [seconds for _, seconds in e.map(burn, range(TASKS), k)])
    return {
        name: tuple(statistics.median(column) for column in zip(*times, strict=True)) for name, times in found.items()
    }  # type: ignore[misc]


def hand_over(engine: object) -> float:
    """Seconds per task that does nothing."""
    kept = engine.keep(0)
    list(engine.map(burn, range(4), kept))
    return seconds_of(lambda: list(engine.map(burn, range(200), kept))) / 200


def forward(folder: Path, engines: dict[str, object]) -> dict[str, float]:
    """Inputs per second of a collection, medians over the rounds."""
    rng = np.random.default_rng(0)
    source = from_arrays(rng.random((IMAGES, 32, 32, 3), np.float32), np.arange(IMAGES) % 10)
    model, store, shift = (
        open_model("benchmarks.speed.engines:make_net", batch_size=32),
        LogitCache(folder),
        get_shift("gaussian"),
    )
    collectors = {
        name: Collector(model, source, store=store, seed=k, engine=e) for k, (name, e) in enumerate(engines.items())
    }
    for collector in collectors.values():
        collector.gather([(shift, 0.5)])  # opens the model on every worker
    found: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(ROUNDS):
        for name, collector in collectors.items():
            found[name].append(
                len(source) / seconds_of(lambda c=collector, n=number: c.gather([(shift, 0.01 * (n + 1))]))
            )
    return {name: statistics.median(rates) for name, rates in found.items()}


def fits(folder: Path, engine: object) -> list[tuple[str, int, float, float, float]]:
    """(method, rows, seconds on an array, seconds on workers, memory of the caller there)."""
    found = []
    for n in (800, 20_000, 200_000):  # the first loads what every fit loads, and is not shown
        rng, store, parts, arrays = np.random.default_rng(0), LogitCache(folder / str(n)), [], []
        labels = rng.integers(0, 100, n // 8)
        for k in range(8):
            logits = rng.standard_normal((n // 8, 100), np.float32) * 2
            logits[np.arange(len(labels)), labels] += 4 - k / 3
            key = CacheKey("m", "s", level=k)
            store.put(key, logits=logits, labels=labels)
            arrays.append(logits)
            parts.append(StoredLogits(store, key, len(labels), 100, engine))
        whole, everywhere = np.concatenate(arrays), np.tile(labels, 8)
        del arrays
        for method in ("ts", "ets", "ir", "irm"):
            with PeakMemory() as memory:
                far = seconds_of(lambda m=method, p=parts, y=labels: make_calibrator(m).fit(*stack(p, y)))
            near = seconds_of(lambda m=method, x=whole, y=everywhere: make_calibrator(m).fit(x, y))
            found.append((method, n, near, far, memory.megabytes))
    return [line for line in found if line[1] > 800]


def main(folder: Path) -> None:
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
    warnings.simplefilter("ignore")
    time.sleep(5)  # whatever was running before has stopped by then
    before = os.getloadavg()
    begun = time.perf_counter()
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    import ray

    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    one, two = open_engine("ray", workers=1), open_engine("ray", workers=2)
    list(two.map(burn, range(2), two.keep(1)))
    start = time.perf_counter() - begun
    costs = overhead({"here": open_engine("here"), "ray": one})
    tiny = hand_over(one)
    rates = forward(folder / "store", {"one": one, "two": two})
    lines = fits(folder / "fits", two)
    ray.shutdown()
    text = f"""# Engines

    python -m benchmarks.speed.engines FOLDER

{machine()}. Load average before: {before[0]:.2f}, after: {os.getloadavg()[0]:.2f}. A Ray cluster on this machine, import to first answer: {start:.1f} s.

| tasks of about a second | seconds per task | over the bare loop | not spent inside tasks |
|---|---:|---:|---:|
| bare loop | {costs["loop"][0]:.3f} | | {costs["loop"][1]:.2%} |
| `here` | {costs["here"][0]:.3f} | {costs["here"][0] / costs["loop"][0] - 1:+.1%} | {costs["here"][1]:.2%} |
| `ray`, one worker | {costs["ray"][0]:.3f} | {costs["ray"][0] / costs["loop"][0] - 1:+.1%} | {costs["ray"][1]:.2%} |

`here` adds a loop and nothing else, so its column "over the bare loop" shows how much the machine's speed itself varies. A task that does nothing takes {tiny * 1e3:.1f} ms through `ray`.

| forward pass, {IMAGES:,} images, a small convolutional net | images per second |
|---|---:|
| one Ray worker | {rates["one"]:,.0f} |
| two Ray workers | {rates["two"]:,.0f} ({rates["two"] / rates["one"]:.2f}×) |

| fit on 8 stored shards of 100 classes | rows | one array, all cores | two Ray workers | caller's memory there |
|---|---:|---:|---:|---:|
"""
    text += "\n".join(f"| {m} | {n:,} | {near:.2f} s | {far:.2f} s | {mb:.1f} MB |" for m, n, near, far, mb in lines)
    text += f"\n\nThe logits are {20_000 * 400 / 1e6:.0f} MB and {200_000 * 400 / 1e6:.0f} MB. TS and ETS bring back a few numbers per pass; IR and IRM sort the true class' score of every row in the caller, whatever the number of classes.\n"
    (Path(__file__).parent / "engines.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
