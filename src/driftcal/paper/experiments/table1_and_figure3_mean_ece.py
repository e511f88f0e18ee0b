"""Table 1 and Figure 3: mean ECE under shift of every calibrator."""

from __future__ import annotations

from driftcal.paper.calibrator_names import BASELINE_METHODS, PAPER_COLUMNS, PAPER_METHODS, headings, label
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.mean_tables import SUFFIX_NOTE, mean_bars, mean_row, published_rows
from driftcal.paper.published import where
from driftcal.paper.verdict import verdict
from driftcal.report.table import Table, Value


def mean_ece(context: ExperimentContext) -> ExperimentResult:
    """Mean ECE with driftcal's and the published settings, the paper's numbers, and a test of the paper's claim."""
    ours, as_published = context.both_settings
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        for settings in (ours, as_published):
            # other experiments use the results of the chosen settings with all methods
            more = BASELINE_METHODS if settings == context.settings else ()
            results = context.suite_results(setup, (*PAPER_METHODS, *more), settings=settings)
            rows.append({"network": setup.label, "numbers": settings.name, **mean_row(results, PAPER_COLUMNS, "ece")})
        rows += published_rows(setup, "table1", "paper") + published_rows(setup, "reference", "authors' code")
    table = Table(
        "table1",
        "Mean ECE over all shifts, each pooled over its levels",
        {"network": "Network", "numbers": "Settings", **headings(PAPER_COLUMNS)},
        rows,
        compare=PAPER_COLUMNS,
    )
    notes = [f"Settings: ours is {ours.caption()}; as published is {as_published.caption()}. {SUFFIX_NOTE}"]
    if any(row["numbers"] == "paper" for row in rows):
        notes.append(f"paper: {where('table1')}.")
    return ExperimentResult(
        "table1",
        "Mean ECE under shift",
        [table, claim_table(context)],
        [mean_bars(context, "table1", "ece", PAPER_COLUMNS, "mean ECE under shift")],
        notes,
    )


def claim_table(context: ExperimentContext) -> Table:
    """Whether tuning on noise lowers the mean ECE: both means and their difference with intervals."""
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        for method in PAPER_METHODS:
            row: dict[str, Value] = {"network": setup.label, "method": label(method)}
            for key, calibrator in (("clean_tuned", method), ("perturbed", f"{method}-p")):
                row[key] = results.mean(calibrator)
                row[f"{key}_low"], row[f"{key}_high"] = results.interval(calibrator)
            gain = results.difference(method, f"{method}-p")
            row |= {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
            row["verdict"] = verdict(gain.low, gain.high)
            rows.append(row)
    return Table(
        "table1-claim",
        f"Does tuning on noise lower the mean ECE under shift? 95 % intervals over images; {context.settings.caption()}",
        {
            "network": "Network",
            "method": "Method",
            "clean_tuned": "tuned on clean images",
            "perturbed": "tuned on noise (-P)",
            "gain": "gain",
            "verdict": "The paper's claim",
        },
        rows,
        intervals=True,
    )
