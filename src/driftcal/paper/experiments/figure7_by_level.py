"""Figure 7: ECE and accuracy against the level of shift, averaged over the shifts."""

from __future__ import annotations

from driftcal.paper.calibrator_names import PAPER_COLUMNS, headings, label
from driftcal.paper.captions import ECE_CAPTION, LINES_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Lines, Panel
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults
from driftcal.report.table import Table, Value

#: Metric -> name of its table, and of its axis.
_METRICS = {"ece": ("by-level", "ECE"), "accuracy": ("by-level-accuracy", "accuracy")}


def by_level(context: ExperimentContext) -> ExperimentResult:
    """ECE and accuracy at each level."""
    tables = [_table(context, metric) for metric in _METRICS]
    figures = [_figure(context, setup) for setup in context.setups]
    note = f"{context.settings.caption()}."
    return ExperimentResult("by-level", "ECE and accuracy by level of shift", tables, figures, [note])


def _table(context: ExperimentContext, metric: str) -> Table:
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        for level in _common_levels(results):
            values = {name: results.mean_at_level(name, level, metric) for name in PAPER_COLUMNS}
            rows.append({"network": setup.label, "level": int(level), **values})
    name, title = _METRICS[metric]
    return Table(
        name,
        f"{title[0].upper()}{title[1:]} by level of shift, averaged over the shifts",
        {"network": "Network", "level": "Level", **headings(PAPER_COLUMNS)},
        rows,
        compare=PAPER_COLUMNS,
        highest=metric == "accuracy",
    )


def _figure(context: ExperimentContext, setup: Setup) -> Lines:
    results = context.suite_results(setup)
    levels = _common_levels(results)
    panels = [
        Panel(
            title,
            levels,
            {label(name): [results.mean_at_level(name, level, metric) for level in levels] for name in PAPER_COLUMNS},
            "level of shift, 0 is clean",
            title,
            ticks=[f"{level:g}" for level in levels],
        )
        for metric, (_, title) in _METRICS.items()
    ]
    return Lines(
        f"by-level-{setup.name}",
        f"{setup.label}: mean over {len(results.shifts())} shifts, level by level",
        "ECE (left, lower is better) and accuracy (right) at each level, averaged over the shifts. "
        f"{LINES_CAPTION} Methods that keep the accuracy lie on one line. {method_legend(PAPER_COLUMNS)} {ECE_CAPTION}",
        panels,
    )


def _common_levels(results: SuiteResults) -> list[float]:
    """The levels that every shift has."""
    first, *others = (set(shift.levels) for shift in results.results.shifts)
    return sorted(first.intersection(*others))
