"""Figure 4: ECE of every shift, pooled over its levels."""

from __future__ import annotations

from driftcal.paper.calibrator_names import PAPER_COLUMNS, PAPER_METHODS, headings, label
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.mean_tables import row_with_intervals, shift_bars
from driftcal.paper.setups.setup import Setup
from driftcal.paper.suite_results import SuiteResults
from driftcal.report.table import Table, Value


def each_shift(context: ExperimentContext) -> ExperimentResult:
    """The micro-averaged ECE of each shift."""
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        for shift in results.results.shifts:
            by_calibrator = {name: results.row(name, shift.name) for name in PAPER_COLUMNS}
            rows.append({"network": setup.label, "shift": shift.name, **row_with_intervals(by_calibrator)})
    table = Table(
        "per-shift",
        "ECE of each shift, pooled over its levels",
        {"network": "Network", "shift": "Shift", **headings(PAPER_COLUMNS)},
        rows,
        compare=PAPER_COLUMNS,
    )
    figures = [
        shift_bars(context, setup, f"per-shift-{setup.name}", "ece", PAPER_COLUMNS, "ECE") for setup in context.setups
    ]
    notes = [_count_improved(context.suite_results(setup), setup) for setup in context.setups]
    return ExperimentResult("per-shift", "ECE shift by shift", [table], figures, notes)


def _count_improved(results: SuiteResults, setup: Setup) -> str:
    """On how many shifts each method has a lower ECE if tuned on noise."""
    shifts = results.shifts()
    counts = {m: sum(results.row(f"{m}-p", s).ece < results.row(m, s).ece for s in shifts) for m in PAPER_METHODS}
    listed = ", ".join(f"{label(method)} on {count}" for method, count in counts.items())
    return f"{setup.label}: tuning on noise lowers the ECE of {listed} of {len(shifts)} shifts."
