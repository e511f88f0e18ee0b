"""Tables and bars of means over the shifts, for several experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftcal.paper.calibrator_names import label
from driftcal.paper.captions import BARS_CAPTION, INTERVALS_CAPTION, METRIC_CAPTIONS, method_legend, shift_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.published import published
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import METRICS_WITH_INTERVALS, SuiteResults
from driftcal.pipeline.evaluating.results import ResultRow
from driftcal.report.table import Value

#: The meaning of the suffix -P.
SUFFIX_NOTE = "-P: tuned on the validation images at ten levels of noise; without: on clean ones."


def mean_row(results: SuiteResults, calibrators: Sequence[str], metric: str) -> dict[str, Value]:
    """The mean of each calibrator over the shifts, with its interval if there is one."""
    row: dict[str, Value] = {}
    for name in calibrators:
        row[name] = results.mean(name, metric)
        if results.replicates and metric in METRICS_WITH_INTERVALS:
            row[f"{name}_low"], row[f"{name}_high"] = results.interval(name, metric)
    return row


def interval_of(row: ResultRow, metric: str) -> tuple[float, float] | None:
    """The interval of a metric, None if it has none."""
    if metric not in row.intervals:
        return None
    low, high = row.intervals[metric]
    return float(low), float(high)


def row_with_intervals(rows: Mapping[str, ResultRow], metric: str = "ece") -> dict[str, Value]:
    """The metric of each calibrator, with its interval if there is one."""
    cells: dict[str, Value] = {}
    for name, row in rows.items():
        cells[name] = getattr(row, metric)
        interval = interval_of(row, metric)
        if interval is not None:
            cells[f"{name}_low"], cells[f"{name}_high"] = interval
    return cells


def published_values(setup: Setup, table: str) -> Mapping[str, float]:
    """The paper's values for a setup; {} for suites that the paper does not use."""
    return published(table, setup.data, setup.network.name) if setup.uses_paper_suite else {}


def published_rows(setup: Setup, table: str, numbers: str) -> list[dict[str, Value]]:
    """A row with the paper's values, or no row; `numbers` is the source of the values."""
    values = published_values(setup, table)
    return [{"network": setup.label, "numbers": numbers, **values}] if values else []


def circles_caption(values: Mapping[str, Sequence[float | None]]) -> str:
    """The meaning of circles, after a space; "" if there are no published values."""
    has_circles = any(value is not None for series in values.values() for value in series)
    return " Circles: the figures printed in the paper." if has_circles else ""


def mean_bars(
    context: ExperimentContext, table: str, metric: str, calibrators: Sequence[str], axis: str, *, title: str = ""
) -> Bars:
    """Bars of means over the shifts, a group per network, with intervals and the paper's values.

    Parameters
    ----------
    context : the setups.
    table : name of the figure and of the paper's table.
    metric : the metric.
    calibrators : names of the calibrators.
    axis : label of the y axis.
    title : further text of the title.
    """
    setups = context.setups
    by_setup = [context.suite_results(setup) for setup in setups]
    has_intervals = context.settings.n_resamples > 0 and metric in METRICS_WITH_INTERVALS
    printed = {label(name): [published_values(setup, table).get(name) for setup in setups] for name in calibrators}
    return Bars(
        table,
        f"{axis[0].upper()}{axis[1:]}{title}",
        "One group per network. Each bar is the mean over all shifts, each pooled over its levels (lower is better). "
        f"{BARS_CAPTION}{f'; {INTERVALS_CAPTION}' if metric in METRICS_WITH_INTERVALS else ''}."
        f"{circles_caption(printed)} {method_legend(calibrators)} {METRIC_CAPTIONS[metric]} {context.settings.caption()}.",
        [setup.label for setup in setups],
        {label(name): [results.mean(name, metric) for results in by_setup] for name in calibrators},
        axis,
        intervals={
            label(name): [results.interval(name, metric) if has_intervals else None for results in by_setup]
            for name in calibrators
        },
        published=printed,
    )


def shift_bars(
    context: ExperimentContext, setup: Setup, name: str, metric: str, calibrators: Sequence[str], axis: str
) -> Bars:
    """Bars of one network, a group per shift, each pooled over its levels.

    Parameters
    ----------
    context : the settings and results.
    setup : the network.
    name : name of the figure.
    metric : the metric.
    calibrators : names of the calibrators.
    axis : label of the y axis.
    """
    results = context.suite_results(setup)
    shifts = [shift.name for shift in results.results.shifts]
    rows = {label(calibrator): [results.row(calibrator, shift) for shift in shifts] for calibrator in calibrators}
    return Bars(
        name,
        f"{setup.label}: {axis} of every shift",
        f"One group per shift, pooled over its levels, the clean one included; lower is better. {BARS_CAPTION}; "
        f"{INTERVALS_CAPTION}.{shift_legend(setup.suite)} {method_legend(calibrators)} {METRIC_CAPTIONS[metric]} "
        f"{context.settings.caption()}.",
        shifts,
        {series: [getattr(row, metric) for row in values] for series, values in rows.items()},
        axis,
        intervals={series: [interval_of(row, metric) for row in values] for series, values in rows.items()},
    )
