"""Appendix C.3: ECE and accuracy against the number of validation images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.sample_scores import SampleScores
from driftcal.paper.calibrator_names import PAPER_COLUMNS, headings, label
from driftcal.paper.captions import ECE_CAPTION, LINES_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext, capped
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Lines, Panel
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import LEFT_OUT
from driftcal.pipeline.tuning.fit import fit_or_uncalibrated
from driftcal.report.table import Table, Value
from driftcal.types import Labels, Logits

#: Numbers of validation images.
_SIZES = (50, 100, 250, 500, 1000, 2500, 5000, 10000, 25000)
#: Random subsets of validation images of each size.
_N_SUBSETS = 3
#: Metric -> its name in the table.
_METRICS = {"ece": "mean ECE", "accuracy": "mean accuracy"}
#: Size -> calibrator -> metric -> its value for each subset.
_BySize = dict[int, dict[str, dict[str, list[float]]]]


@dataclass(frozen=True)
class _Subset:
    """A random subset of the validation images; size 0 and number 0 mean the uncalibrated model."""

    size: int
    number: int


def validation_size(context: ExperimentContext) -> ExperimentResult:
    """Mean ECE and accuracy of calibrators that are tuned on fewer images.

    The perturbation levels are those of all validation images; only calibrators are tuned on fewer images.
    """
    rows: list[dict[str, Value]] = []
    figures = []
    for setup in context.setups:
        by_size = _measure_by_size(context, setup)
        for size, by_calibrator in by_size.items():
            for metric, quantity in _METRICS.items():
                row: dict[str, Value] = {"network": setup.label, "images": size, "quantity": quantity}
                for name in PAPER_COLUMNS:
                    values = by_calibrator[name][metric]
                    row[name] = float(np.mean(values))
                    row[f"{name}_low"], row[f"{name}_high"] = min(values), max(values)
                rows.append(row)
        figures.append(_figure(setup, by_size))
    table = Table(
        "val-size",
        "Mean ECE and accuracy under shift by number of validation images",
        {"network": "Network", "images": "Validation images", "quantity": "Quantity", **headings(PAPER_COLUMNS)},
        rows,
    )
    note = (
        f"Each number is the mean of {_N_SUBSETS} random subsets of the validation images; the CSV file has the range. "
        f"{context.settings.caption()}."
    )
    return ExperimentResult("val-size", "Size of the validation set", [table], figures, [note])


def _figure(setup: Setup, by_size: _BySize) -> Lines:
    panels = [
        Panel(
            f"{quantity} under shift",
            list(by_size),
            {
                label(name): [float(np.mean(values[name][metric])) for values in by_size.values()]
                for name in PAPER_COLUMNS
            },
            "validation images",
            f"{quantity} under shift",
            logarithmic=True,
            y_limits=(0.0, None) if metric == "ece" else (None, None),
        )
        for metric, quantity in _METRICS.items()
    ]
    return Lines(
        f"val-size-{setup.name}",
        f"{setup.label}: how many validation images calibrators need",
        "Mean ECE (left, lower is better) and accuracy (right) over all shifts against the number of validation images; "
        f"means of {_N_SUBSETS} random subsets. {LINES_CAPTION} Methods that keep the accuracy lie on one line. "
        f"{method_legend(PAPER_COLUMNS)} {ECE_CAPTION}",
        panels,
    )


def _measure_by_size(context: ExperimentContext, setup: Setup) -> _BySize:
    labels = context.collector(setup, setup.validation).labels
    logits = [np.asarray(level) for level in context.perturbed(setup).by_level]
    n = len(labels)
    calibrators: dict[tuple[_Subset, str], Calibrator] = {}
    for size in [*(s for s in _SIZES if s < n / 1.5), n]:  # sizes close to all images add little
        for number in range(_N_SUBSETS if size < n else 1):
            chosen = np.random.default_rng([context.settings.seed, number]).permutation(n)[:size]
            for name in PAPER_COLUMNS[1:]:
                levels = logits if name.endswith("-p") else logits[:1]
                fitted = _fit(context, name, [level[chosen] for level in levels], labels[chosen])
                calibrators[_Subset(size, number), name] = fitted
    uncalibrated = (_Subset(0, 0), "base")
    (base,) = context.candidates(setup, ())
    measured = _measure(context, setup, {**calibrators, uncalibrated: base.calibrator})
    by_size: _BySize = {}
    for subset in dict.fromkeys(subset for subset, _ in calibrators):
        by_calibrator = by_size.setdefault(
            subset.size, {name: {metric: [] for metric in _METRICS} for name in PAPER_COLUMNS}
        )
        for name in PAPER_COLUMNS:
            for metric, value in measured[uncalibrated if name == "base" else (subset, name)].items():
                by_calibrator[name][metric].append(value)
    return by_size


def _fit(context: ExperimentContext, name: str, levels: Sequence[Logits], labels: Labels) -> Calibrator:
    samples = np.concatenate(levels), np.tile(labels, len(levels))
    method = capped(name.removesuffix("-p"), context.settings.t_max)
    return fit_or_uncalibrated(method, *samples).calibrator


def _measure(
    context: ExperimentContext, setup: Setup, calibrators: Mapping[tuple[_Subset, str], Calibrator]
) -> dict[tuple[_Subset, str], dict[str, float]]:
    """Mean ECE and accuracy over the shifts. Each condition is read once; the statistics of the levels are added."""
    collector = context.collector(setup, setup.test)

    def statistics(calibrator: Calibrator, logits: Logits) -> Statistics:
        scores = SampleScores.of_probabilities(collector.labels, calibrator.predict_proba(logits))
        return Statistics.of_samples(scores, n_bins=context.settings.n_bins)

    shifts = [shift for shift in setup.shifts if shift.name not in LEFT_OUT]
    clean_logits = collector.logits(shifts[0], 0)
    clean = {key: statistics(calibrator, clean_logits) for key, calibrator in calibrators.items()}
    by_shift: dict[tuple[_Subset, str], list[Statistics]] = {key: [] for key in calibrators}
    for shift in shifts:
        pooled = dict(clean)
        for level in [level for level in shift.levels or () if level]:
            logits = collector.logits(shift, level)
            for key, calibrator in calibrators.items():
                pooled[key] += statistics(calibrator, logits)
        for key in calibrators:
            by_shift[key].append(pooled[key])
    return {
        key: {metric: float(np.mean([getattr(statistics, metric) for statistics in pooled])) for metric in _METRICS}
        for key, pooled in by_shift.items()
    }
