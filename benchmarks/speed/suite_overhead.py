"""The evaluation of a ResNet-20 on the CIFAR-10 affine suite beside its bare forward passes, in one run.

    python -m benchmarks.speed.suite_overhead --weights cifar10_resnet20.safetensors --cifar10 FOLDER

FOLDER holds CIFAR-10 in any published form. The evaluation is 90 conditions (82 distinct ones: all shifts share level 0) × 5,000
test images: reading, shifting, normalising, the model, writing logits to disk, 11 tuned calibrators, and the metrics of every
calibrator and condition, without bootstrap intervals. Bare means onnxruntime alone on normalised batches in memory. Bare passes
are timed between the shifts, so that both run on an equally busy machine. Writes suite_overhead.md and suite_overhead.json
beside this file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import tempfile
import time
from pathlib import Path

import driftcal
from driftcal.cache import LogitCache
from driftcal.metrics import METRICS, evaluate
from driftcal.paper.calibrator_names import PAPER_METHODS
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.paper_settings import OURS
from driftcal.paper.setups import SetupOptions, open_setups
from driftcal.paper.suite_results import evaluate_suite
from driftcal.shifts.custom import Custom

SETTINGS = dataclasses.replace(OURS, n_resamples=0)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    options = SetupOptions(
        {"cifar10": str(arguments.cifar10)}, [f"resnet20={arguments.weights}"], n_images=arguments.images
    )
    (setup,) = open_setups(options)
    shifts = setup.shifts[: arguments.shifts]
    with tempfile.TemporaryDirectory() as folder:
        # the perturbation levels and the fits come before the evaluation
        tuning = ExperimentContext([setup], SETTINGS, LogitCache(arguments.tuning_cache or folder))
        candidates = tuning.candidates(setup, PAPER_METHODS)
        context = ExperimentContext([setup], SETTINGS, LogitCache(arguments.cache or folder))
        collector, model = context.collector(setup, setup.test), setup.model
        batches = [model.preprocessing(inputs) for inputs, _, _ in setup.test.batches(model.batch_size)]

        def bare() -> float:
            start = time.perf_counter()
            for batch in batches:
                model.backend.run(batch)
            return time.perf_counter() - start

        shifts[0](setup.test.inputs()[:2], 1)  # compiles before the clock runs
        clean_logits = collector.logits(shifts[0], 0)
        identity = Custom("untouched", lambda inputs, level: inputs, (0,))
        evaluate_suite(collector, candidates, [identity], suite="none", n_bins=15, n_resamples=0)
        evaluate(setup.test.labels, candidates[0].calibrator.predict_proba(clean_logits), score_type="probabilities")
        bare()
        suite_seconds, bare_seconds, bare_passes, conditions = 0.0, 0.0, 0, 0
        for shift in shifts:
            bare_seconds += bare()
            bare_passes += 1
            start = time.perf_counter()
            evaluate_suite(collector, candidates, [shift], suite="affine", n_bins=15, n_resamples=0)
            suite_seconds += time.perf_counter() - start
            conditions += len(shift.levels) - 1
        suite_seconds += bare_seconds / bare_passes  # the clean pass, which was made before the clock ran
        start = time.perf_counter()
        for candidate in candidates:
            evaluate(setup.test.labels, candidate.calibrator.predict_proba(clean_logits), score_type="probabilities")
        all_metrics_seconds = time.perf_counter() - start
    passes = conditions + 1
    forward = bare_seconds / bare_passes * passes
    return {
        "images": len(setup.test), "shifts": len(shifts), "passes": passes, "calibrators": len(candidates),
        "bare_seconds": forward, "sweep_seconds": suite_seconds, "ratio": suite_seconds / forward,
        "seconds_per_bare_pass": bare_seconds / bare_passes,
        "sixteen_metrics_seconds": all_metrics_seconds,
        "ratio_with_all_sixteen": (suite_seconds + all_metrics_seconds * passes) / forward,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--cifar10", type=Path, required=True)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--shifts", type=int, default=9)
    parser.add_argument("--tuning-cache", type=Path, help="a cache that may hold logits for tuning", metavar="DIR")
    parser.add_argument("--cache", type=Path, help="an empty folder for the logits of the evaluation", metavar="DIR")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    timings = measure(arguments)
    record = {
        **timings,
        "version": driftcal.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }
    (arguments.output / "suite_overhead.json").write_text(json.dumps(record, indent=1) + "\n")
    (arguments.output / "suite_overhead.md").write_text(as_markdown(timings))
    print(as_markdown(timings))


def as_markdown(timings: dict[str, float]) -> str:
    return f"""# The affine suite beside its bare forward passes

ResNet-20 on CIFAR-10, {timings["images"]:,.0f} test images, {timings["shifts"]:.0f} shifts × 10 levels ({timings["passes"]:.0f} distinct conditions), \
{timings["calibrators"]:.0f} calibrators, no bootstrap intervals. One run; bare passes (onnxruntime alone, batches normalised beforehand) are \
timed between the shifts.

    python -m benchmarks.speed.suite_overhead --weights cifar10_resnet20.safetensors --cifar10 FOLDER

| | seconds | ratio |
|---|---:|---:|
| bare forward passes | {timings["bare_seconds"]:.1f} | 1 |
| the evaluation: reading, shifting, model, cache, calibrators, the nine metrics of a result row | {timings["sweep_seconds"]:.1f} | {timings["ratio"]:.2f} |
| the same with all {len(METRICS)} metrics of `driftcal.metrics.evaluate` for every calibrator and condition | \
{timings["sweep_seconds"] + timings["sixteen_metrics_seconds"] * timings["passes"]:.1f} | {timings["ratio_with_all_sixteen"]:.2f} |
"""


if __name__ == "__main__":
    main()
