"""What the strongest level of the tuning noise does to -P on ImageNet: the levels of Algorithm 1, and -P without the last one.

    python -m benchmarks.accuracy.level_at_chance --imagenet FOLDER --weights FOLDER --networks resnet50 --tune-per-class 1

The last level lowers the accuracy to chance. The tables go to stdout as Markdown; logits are cached as in `driftcal paper`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from driftcal.calibrators import make_calibrator
from driftcal.paper.calibrator_names import PAPER_METHODS, label
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.paper_run import PaperRun
from driftcal.paper.setups import SetupOptions
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import evaluate_suite
from driftcal.pipeline.evaluating.candidate import Candidate, uncalibrated
from driftcal.report.table import Table, Value, to_markdown

_WITHOUT = "-p-without"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--imagenet", required=True, metavar="FOLDER")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--networks", required=True, help="names, separated by commas")
    parser.add_argument("--cache", default="runs/paper/cache", help="folder of cached logits")
    parser.add_argument("--tune-per-class", type=int)
    parser.add_argument("--test-images", type=int)
    arguments = parser.parse_args()
    options = SetupOptions(
        {"imagenet": arguments.imagenet}, arguments.networks.split(","), arguments.weights,
        n_test_images=arguments.test_images, tune_per_class=arguments.tune_per_class,
    )  # fmt: skip
    context = PaperRun.open("table1", options, cache=arguments.cache).context
    for setup in context.setups:
        print(to_markdown(levels(context, setup)))
        print(to_markdown(without_the_last(context, setup)))


def levels(context: ExperimentContext, setup: Setup) -> Table:
    """Accuracy and mean confidence of the uncalibrated network at every level of noise."""
    perturbed = context.perturbed(setup)
    base = uncalibrated(setup.validation.n_classes)
    rows: list[dict[str, Value]] = []
    for level, logits in zip((perturbed.record or {})["levels"], perturbed.by_level, strict=True):
        probabilities = base.predict_proba(np.asarray(logits))
        rows.append(
            {
                "variance": level["epsilon"],
                "target": level["target"],
                "accuracy": level["accuracy"],
                "confidence": float(probabilities.max(axis=1).mean()),
            }
        )
    columns = {
        "variance": "Variance of noise",
        "target": "Target",
        "accuracy": "Accuracy",
        "confidence": "Mean confidence",
    }
    return Table("levels", "Levels of the tuning noise", columns, rows)


def without_the_last(context: ExperimentContext, setup: Setup) -> Table:
    """The mean ECE under shift of each method, tuned on clean images, on all levels, and on all but the last one."""
    kept = [np.asarray(logits) for logits in context.perturbed(setup).by_level][:-1]
    labels = np.tile(setup.validation.labels, len(kept))
    fewer = [
        Candidate(f"{method}{_WITHOUT}", method, make_calibrator(method).fit(np.concatenate(kept), labels), "gaussian")
        for method in PAPER_METHODS
    ]
    results = evaluate_suite(
        context.collector(setup, setup.test), [*context.candidates(setup, PAPER_METHODS), *fewer], setup.shifts,
        suite=setup.suite, n_bins=context.settings.n_bins, n_resamples=context.settings.n_resamples,
        metadata=setup.metadata(),
    )  # fmt: skip
    rows: list[dict[str, Value]] = []
    for method in PAPER_METHODS:
        row: dict[str, Value] = {"method": label(method)}
        for column, name in (("clean", method), ("all", f"{method}-p"), ("fewer", f"{method}{_WITHOUT}")):
            row[column], row[f"{column}_in_domain"] = results.mean(name), results.clean(name).ece
        gain = results.difference(method, f"{method}{_WITHOUT}")
        row |= {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
        rows.append(row)
    columns = {
        "method": "Method", "clean": "Tuned on clean images", "all": "-P", "fewer": "-P without the last level",
        "gain": "Gain of the latter", "clean_in_domain": "In domain: clean", "all_in_domain": "-P",
        "fewer_in_domain": "-P without the last level",
    }  # fmt: skip
    return Table("without", f"{setup.label}: mean ECE under shift", columns, rows, intervals=True)


if __name__ == "__main__":
    main()
