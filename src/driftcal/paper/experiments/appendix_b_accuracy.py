"""Appendix B.2: accuracy in domain and at the strongest level, and its change by calibrators."""

from __future__ import annotations

from driftcal.paper.calibrator_names import label, with_suffixes
from driftcal.paper.captions import BARS_CAPTION, INTERVALS_CAPTION, method_legend
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiment_result import ExperimentResult
from driftcal.paper.figures.figure_data import Bars
from driftcal.paper.published import published_accuracy, where
from driftcal.report.table import Table, Value

#: Calibrators that may change the predicted class.
_CHANGING = with_suffixes(("ir", "ts-ir"), "", "-p")[1:]


def accuracy(context: ExperimentContext) -> ExperimentResult:
    """The accuracy of the uncalibrated model under each shift, and its change by calibrators."""
    table = _accuracy_table(context)
    notes = [f"paper: {where('accuracy')}; it does not name the network."] if "paper_clean" in table.columns else []
    return ExperimentResult("accuracy", "Accuracy", [table, _change_table(context)], [_figure(context)], notes)


def _accuracy_table(context: ExperimentContext) -> Table:
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results, printed = context.suite_results(setup), published_accuracy(setup.data)
        for shift in results.results.shifts:
            paper_clean, paper_strongest = printed.get(shift.name, (None, None))
            rows.append(
                {
                    "network": setup.label,
                    "shift": shift.name,
                    "clean": results.clean("base").accuracy,
                    "strongest": results.row("base", shift.name, shift.levels[-1]).accuracy,
                    "paper_clean": paper_clean,
                    "paper_strongest": paper_strongest,
                }
            )
    columns = {"network": "Network", "shift": "Shift", "clean": "In domain", "strongest": "Strongest level"}
    if any(row["paper_clean"] is not None for row in rows):
        columns |= {"paper_clean": "In domain, paper", "paper_strongest": "Strongest level, paper"}
    return Table("accuracy", "Accuracy of the uncalibrated model", columns, rows)


def _change_table(context: ExperimentContext) -> Table:
    rows: list[dict[str, Value]] = []
    for setup in context.setups:
        results = context.suite_results(setup)
        for name in _CHANGING:
            change = results.difference(name, "base", "accuracy")
            rows.append(
                {
                    "network": setup.label,
                    "calibrator": label(name),
                    "clean": results.clean(name).accuracy - results.clean("base").accuracy,
                    "under_shift": change.value,
                    "under_shift_low": change.low,
                    "under_shift_high": change.high,
                }
            )
    return Table(
        "accuracy-change",
        "Change of accuracy by calibrators that may change predictions; the others keep it. 95 % intervals over images",
        {"network": "Network", "calibrator": "Calibrator", "clean": "In domain", "under_shift": "Under shift"},
        rows,
        intervals=True,
    )


def _figure(context: ExperimentContext) -> Bars:
    changes = {
        label(name): [context.suite_results(setup).difference(name, "base", "accuracy") for setup in context.setups]
        for name in _CHANGING
    }
    return Bars(
        "accuracy",
        "Change of accuracy under shift",
        "Change of accuracy by calibrators that may change predictions, averaged over all shifts and levels: 0.01 is one "
        "percentage point. Temperatures (TS, ETS) and one isotonic curve for all classes (IRM) keep every prediction. "
        f"{BARS_CAPTION}; {INTERVALS_CAPTION}. {method_legend(_CHANGING)}",
        [setup.label for setup in context.setups],
        {series: [change.value for change in values] for series, values in changes.items()},
        "change of accuracy",
        intervals={series: [(change.low, change.high) for change in values] for series, values in changes.items()},
    )
