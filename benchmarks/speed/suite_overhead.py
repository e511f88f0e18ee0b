"""The whole CIFAR-10 affine sweep of a ResNet-20 beside its bare forward passes, in one run.

    python -m benchmarks.speed.suite_overhead --weights cifar10_resnet20.safetensors --cifar10 FOLDER

FOLDER holds CIFAR-10 in any published form. The sweep is 90 conditions (82 distinct ones: level 0 is shared) × 5,000 test images: reading,
shifting, normalising, the model, storing logits on disk, 11 tuned calibrators, and all metrics of every calibrator and condition,
without bootstrap intervals. Bare means onnxruntime alone on batches that lie normalised in memory. Bare passes are timed
between shifts of the sweep, so that both see the same machine. Writes suite_overhead.md and suite_overhead.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

import driftcal
from driftcal.cache import LogitCache
from driftcal.metrics import METRICS, evaluate
from driftcal.paper.cases import Wish, open_cases
from driftcal.paper.settings import OURS
from driftcal.paper.sweep import run_sweep
from driftcal.paper.workbench import PAPER, Workbench
from driftcal.shifts.custom import Custom


def measure(given: argparse.Namespace) -> dict[str, float]:
    wish = Wish({"cifar10": str(given.cifar10)}, [f"resnet20={given.weights}"], images=given.images)
    (case,) = open_cases(wish)
    shifts = case.shifts[: given.shifts]
    with tempfile.TemporaryDirectory() as folder:
        tuning = Workbench([case], OURS, LogitCache(given.ladder or folder), draws=0)
        candidates = tuning.candidates(case, PAPER)  # the ladder and the fits come before the sweep
        bench = Workbench([case], OURS, LogitCache(given.store or folder), draws=0)
        collector, model = bench.collector(case, case.test), case.model
        batches = [model.preprocessing(inputs) for inputs, _, _ in case.test.batches(model.batch_size)]

        def bare() -> float:
            begun = time.perf_counter()
            for batch in batches:
                model.backend.run(batch)
            return time.perf_counter() - begun

        shifts[0](case.test.inputs()[:2], 1)  # compiled before the clock runs
        warm = collector.logits(shifts[0], 0)
        untouched = Custom("untouched", lambda inputs, level: inputs, (0,))
        run_sweep(collector, candidates, [untouched], suite="none", n_bins=15, draws=0)
        evaluate(case.test.labels, candidates[0].calibrator.predict_proba(warm), score_type="probabilities")
        bare()
        swept, bare_seconds, bare_passes, conditions = 0.0, 0.0, 0, 0
        for shift in shifts:
            bare_seconds += bare()
            bare_passes += 1
            begun = time.perf_counter()
            run_sweep(collector, candidates, [shift], suite="affine", n_bins=15, draws=0)
            swept += time.perf_counter() - begun
            conditions += len(shift.levels) - 1
        swept += bare_seconds / bare_passes  # the clean pass, made above before the clock ran
        begun = time.perf_counter()
        for candidate in candidates:
            evaluate(case.test.labels, candidate.calibrator.predict_proba(warm), score_type="probabilities")
        every = time.perf_counter() - begun
    passes = conditions + 1
    forward = bare_seconds / bare_passes * passes
    return {
        "images": len(case.test), "shifts": len(shifts), "passes": passes, "calibrators": len(candidates),
        "bare_seconds": forward, "sweep_seconds": swept, "ratio": swept / forward,
        "seconds_per_bare_pass": bare_seconds / bare_passes,
        "sixteen_metrics_seconds": every, "ratio_with_all_sixteen": (swept + every * passes) / forward,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--shifts", type=int, default=9)
    parser.add_argument("--ladder", type=Path, help="a store that may know the tuning rows already")
    parser.add_argument("--store", type=Path, help="an empty folder for the sweep's logits", metavar="DIR")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    found = measure(given)
    record = {
        **found,
        "version": driftcal.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    (given.output / "suite_overhead.json").write_text(json.dumps(record, indent=1) + "\n")
    (given.output / "suite_overhead.md").write_text(as_markdown(found))
    print(as_markdown(found))


def as_markdown(found: dict[str, float]) -> str:
    return f"""# The affine sweep beside its bare forward passes

ResNet-20 on CIFAR-10, {found["images"]:,.0f} test images, {found["shifts"]:.0f} shifts × 10 levels ({found["passes"]:.0f} distinct conditions), \
{found["calibrators"]:.0f} calibrators, no bootstrap intervals. One run; bare passes (onnxruntime alone, batches normalised beforehand) are \
timed between the shifts.

    python -m benchmarks.speed.suite_overhead --weights cifar10_resnet20.safetensors --cifar10 FOLDER

| | seconds | ratio |
|---|---:|---:|
| bare forward passes | {found["bare_seconds"]:.1f} | 1 |
| the sweep: reading, shifting, model, store, calibrators, the nine metrics of a result row | {found["sweep_seconds"]:.1f} | {found["ratio"]:.2f} |
| the same with all {len(METRICS)} metrics of `driftcal.metrics.evaluate` for every calibrator and condition | \
{found["sweep_seconds"] + found["sixteen_metrics_seconds"] * found["passes"]:.1f} | {found["ratio_with_all_sixteen"]:.2f} |
"""


if __name__ == "__main__":
    main()
