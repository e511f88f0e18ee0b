"""Figure 2: accuracy, entropy and ECE against the level of one shift."""

from __future__ import annotations

from driftcal.paper.calibrator_names import PAPER_COLUMNS, PAPER_METHODS, label, with_suffixes
from driftcal.paper.captions import ECE_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Lines, Panel
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults
from driftcal.report.table import Table, Value

#: The shift of the paper's figure.
_SHIFT = "shear"
#: Metric -> its name in the figure.
_METRICS = {"accuracy": "accuracy", "entropy": "entropy, nats", "ece": "ECE"}


def one_shift(context: ExperimentContext) -> ExperimentResult:
    """The three metrics at every level of shear, or of the suite's first shift if it has no shear."""
    tables = [_table(context, metric) for metric in _METRICS]
    figures = [_figure(context, setup) for setup in context.setups]
    return ExperimentResult("shear", "One shift, level by level", tables, figures, [f"{context.settings.caption()}."])


def _table(context: ExperimentContext, metric: str) -> Table:
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        for name in PAPER_COLUMNS:
            values = {f"level_{k}": value for k, value in enumerate(_by_level(results, name, metric))}
            rows.append({"network": setup.label, "calibrator": label(name), **values})
    columns = {"network": "Network", "calibrator": "Calibrator"}
    levels = _level_labels(context.suite_results(context.setups[0]))
    columns |= {f"level_{k}": level for k, level in enumerate(levels)}
    title = _METRICS[metric]
    return Table(f"shear-{metric}", f"{title[0].upper()}{title[1:]} by level of the shift", columns, rows)


def _figure(context: ExperimentContext, setup: Setup) -> Lines:
    results = context.suite_results(setup)
    shift, ticks = _chosen_shift(results), _level_labels(results)
    calibrators = with_suffixes(PAPER_METHODS, "")
    panels = [
        Panel(
            title,
            range(len(ticks)),
            {label(name): _by_level(results, name, metric) for name in calibrators},
            f"level of {shift}",
            title,
            ticks=ticks,
        )
        for metric, title in _METRICS.items()
    ]
    return Lines(
        f"shear-{setup.name}",
        f"{setup.label}: {shift}, calibrators tuned on clean images",
        f"The level of {shift} rises from left to right. Where accuracy falls and the ECE rises, confidence falls more slowly "
        "than accuracy, or not at all. Entropy 0 means that one class has all probability. Methods that keep the accuracy lie "
        f"on one line. {method_legend(calibrators)} {ECE_CAPTION}",
        panels,
    )


def _chosen_shift(results: SuiteResults) -> str:
    names = [shift.name for shift in results.results.shifts]
    return _SHIFT if _SHIFT in names else names[0]


def _by_level(results: SuiteResults, calibrator: str, metric: str) -> list[float]:
    shift = _chosen_shift(results)
    return [float(getattr(results.row(calibrator, shift, level), metric)) for level in results.levels(shift)]


def _level_labels(results: SuiteResults) -> list[str]:
    shift = _chosen_shift(results)
    return list(next(info.labels for info in results.results.shifts if info.name == shift))
