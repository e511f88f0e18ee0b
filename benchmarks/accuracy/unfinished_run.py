"""The uncalibrated model on what a run has cached so far, as a Markdown table: one row per shift and level.

    python -m benchmarks.accuracy.unfinished_run --cache FOLDER

Blocks of one condition are put together; a condition that is not complete has fewer images.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from driftcal.cache import CacheEntry, LogitCache
from driftcal.core.dataset import LabelledLogits
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.sample_scores import SampleScores
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.report.table import Table, to_markdown

N_BINS, N_RESAMPLES = 15, 200
_METRICS = ("accuracy", "ece", "calibration_gap")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    cache = LogitCache(parser.parse_args().cache)
    conditions: dict[tuple[str, str, float], list[CacheEntry]] = defaultdict(list)
    for key in list(cache.keys()):
        entry = cache.get(key)
        if entry is not None:
            conditions[key.model, key.shift, float(key.level)].append(entry)
    rows = [{"shift": shift, "level": level, **_row(conditions[model, shift, level])}
            for model, shift, level in sorted(conditions)]  # fmt: skip
    columns = {
        "shift": "Shift", "level": "Level", "images": "Images", "accuracy": "Accuracy", "ece": "ECE",
        "calibration_gap": "Confidence − accuracy", "null_ece": "Null ECE",
    }  # fmt: skip
    print(to_markdown(Table("unfinished", "What is cached", columns, rows, intervals=True)))


def _row(entries: list[CacheEntry]) -> dict[str, float]:
    logits = np.concatenate([entry.logits for entry in entries])
    labels = np.concatenate([entry.arrays["labels"] for entry in entries])
    scores = SampleScores.of(LabelledLogits(logits, labels))
    statistics = Statistics.of_samples(scores, n_bins=N_BINS)
    bootstrap = ImageBootstrap(len(labels), N_RESAMPLES, N_BINS)
    intervals = bootstrap.intervals(statistics, bootstrap.replicates([[scores]])[0])
    row: dict[str, float] = {"images": len(labels), "null_ece": statistics.null_ece}
    for metric in _METRICS:
        row[metric] = getattr(statistics, metric)
        row[f"{metric}_low"], row[f"{metric}_high"] = intervals[metric]
    return row


if __name__ == "__main__":
    main()
