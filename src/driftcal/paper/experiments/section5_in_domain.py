"""Section 5.2: ECE on clean images."""

from __future__ import annotations

from driftcal.paper.calibrator_names import PAPER_COLUMNS, headings, label
from driftcal.paper.captions import BARS_CAPTION, ECE_CAPTION, INTERVALS_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.mean_tables import interval_of, row_with_intervals
from driftcal.report.table import Table, Value


def in_domain(context: ExperimentContext) -> ExperimentResult:
    """ECE on clean test images, and the null ECE."""
    by_setup = [context.suite_results(setup) for setup in context.setups]
    rows: list[dict[str, Value]] = []
    for setup, results in zip(context.setups, by_setup, strict=True):
        cells = row_with_intervals({name: results.clean(name) for name in PAPER_COLUMNS})
        rows.append({"network": setup.label, **cells, "null_ece": results.clean("base").null_ece})
    table = Table(
        "in-domain",
        "ECE in domain, on clean images",
        {"network": "Network", **headings(PAPER_COLUMNS), "null_ece": "Null ECE of Base"},
        rows,
        compare=PAPER_COLUMNS,
    )
    figure = Bars(
        "in-domain",
        "ECE on clean images",
        "The cost of tuning on noise if nothing shifts: ECE on clean test images, lower is better. "
        f"{BARS_CAPTION}; {INTERVALS_CAPTION}. {method_legend(PAPER_COLUMNS)} {ECE_CAPTION} {context.settings.caption()}.",
        [setup.label for setup in context.setups],
        {label(name): [results.clean(name).ece for results in by_setup] for name in PAPER_COLUMNS},
        "ECE in domain",
        intervals={
            label(name): [interval_of(results.clean(name), "ece") for results in by_setup] for name in PAPER_COLUMNS
        },
    )
    note = (
        "The null ECE is the expected ECE of a perfectly calibrated model with the same confidences on as many images."
    )
    return ExperimentResult("in-domain", "In domain", [table], [figure], [f"{context.settings.caption()}. {note}"])
