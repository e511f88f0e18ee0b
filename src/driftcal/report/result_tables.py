"""Results as tables: a row per calibrator, or a row per calibrator, shift and level."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from driftcal.core.messages import counted
from driftcal.errors import UnknownName
from driftcal.pipeline.evaluating.results import METRICS, PARTS, ResultRow, Results
from driftcal.report.comparison import compare_by_group, compare_calibrators, form_text, main_lines, plain_name
from driftcal.report.decisions import decision_table
from driftcal.report.shift_names import shift_title_and_name
from driftcal.report.table import Table, Value

#: The contents of a table: a row per calibrator, or all rows of the results.
CONTENTS = ("summary", "rows", "decisions")

#: Key -> heading of the summary.
_SUMMARY = {
    "group": "Group",
    "label": "Calibrator",
    "form": "Form",
    "tuned_on": "Tuned on",
    "in_domain_ece": "ECE in domain",
    "in_domain_to_ts": "÷ TS",
    "mean_ece": "ECE under shift",
    "under_shift_to_ts": "÷ TS",
    "under_shift_to_best_p": "÷ best -P",
    "mean_condition_ece": "ECE, single conditions",
    "worst_ece": "Worst ECE",
    "worst_shift": "Worst shift",
    "in_domain_accuracy": "Accuracy in domain",
    "mean_accuracy": "Accuracy under shift",
    "mean_nll": "NLL under shift",
    "mean_brier": "Brier under shift",
}
#: The columns of the summary that a terminal shows.
_HEADLINE = (
    "group", "label", "form", "in_domain_ece", "in_domain_to_ts", "mean_ece", "under_shift_to_ts", "under_shift_to_best_p",
    "worst_ece", "worst_shift", "in_domain_accuracy", "mean_accuracy",
)  # fmt: skip
#: The columns of an evaluation without shift, and their headings where they differ.
_IN_DOMAIN = (
    "group",
    "label",
    "tuned_on",
    "in_domain_ece",
    "in_domain_to_ts",
    "in_domain_accuracy",
    "mean_nll",
    "mean_brier",
)
_IN_DOMAIN_HEADINGS = {
    "in_domain_ece": "ECE",
    "in_domain_accuracy": "Accuracy",
    "mean_nll": "NLL",
    "mean_brier": "Brier",
}
#: The columns of the main table.
_MAIN = ("in_domain_ece", "mean_ece", "in_domain_accuracy", "mean_accuracy")
#: Key -> heading of the table of all rows.
_ROWS = {
    "group": "Group",
    "calibrator": "Calibrator",
    "shift": "Shift",
    "level": "Level",
    "n_samples": "Samples",
    "ece": "ECE",
    "null_ece": "Null ECE",
    "accuracy": "Accuracy",
    "confidence": "Confidence",
    "entropy": "Entropy",
    "nll": "NLL",
    "brier": "Brier",
}
#: Columns that are left out if they are empty.
_RATIOS = ("in_domain_to_ts", "under_shift_to_ts", "under_shift_to_best_p")
#: Columns in which the lowest or the highest value is best.
_LOWEST = {
    "in_domain_ece",
    "mean_ece",
    "mean_condition_ece",
    "worst_ece",
    "mean_nll",
    "mean_brier",
    "ece",
    "nll",
    "brier",
}
_HIGHEST = ("in_domain_accuracy", "mean_accuracy", "accuracy")


def result_table(results: Results, content: str = "summary") -> Table:
    """The summary by group, or every row with its intervals. The best values among the same data are bold."""
    if content not in CONTENTS:
        raise UnknownName.of("table", content, CONTENTS)
    if content == "decisions":
        return decision_table(results)
    if content == "rows":
        return _table(results, "rows", _ROWS, _every_row(results), within=("group", "shift", "level"))
    return _table(results, "summary", _summary_columns(results, _SUMMARY), _summary(results), within=("group",))


def _summary_columns(results: Results, keys: Iterable[str]) -> dict[str, str]:
    if results.in_domain_only:
        return {key: _IN_DOMAIN_HEADINGS.get(key, _SUMMARY[key]) for key in _IN_DOMAIN}
    return {key: _SUMMARY[key] for key in keys}


def headline_table(results: Results) -> Table:
    """The summary with the columns that fit a terminal: ECE, its ratios and accuracy."""
    rows = [{**row, "worst_shift": shift_title_and_name(str(row["worst_shift"]))} for row in _summary(results)]
    return _table(results, "summary", _summary_columns(results, _HEADLINE), rows, within=("group",))


def main_table_of(results: Results) -> Table:
    """The few rows and columns that a new reader needs, with full names; the same rows as the cards of the report."""
    lines, keys = compare_calibrators(results), _MAIN[::2] if results.in_domain_only else _MAIN
    rows: list[dict[str, Value]] = [
        {"name": plain_name(line, lines, results.metadata), **{key: getattr(line.summary, key) for key in keys}}
        for line in main_lines(lines, results.metadata)
    ]
    headings = _IN_DOMAIN_HEADINGS if results.in_domain_only else _SUMMARY
    columns = {"name": "", **{key: headings[key] for key in keys}}
    formats = dict.fromkeys(("in_domain_accuracy", "mean_accuracy"), ".1%")
    return Table("main", "", columns, rows, compare=keys, highest=_HIGHEST, within=(), formats=formats)


def headline_title(results: Results) -> str:
    """The line above the headline table."""
    if results.in_domain_only:
        return f"On these samples; ECE with {results.n_bins} bins. ÷ TS: divided by the ECE of temperature scaling."
    return (
        f"{results.suite}: {counted(len(results.shifts), 'shift')}, each pooled over its levels; ECE with {results.n_bins} bins. "
        "÷ TS: divided by the ECE of temperature scaling."
    )


def _table(
    results: Results, name: str, columns: dict[str, str], rows: list[dict[str, Value]], *, within: tuple[str, ...]
) -> Table:
    empty = {key for key in _RATIOS if all(row.get(key) is None for row in rows)}
    shown = {key: text for key, text in columns.items() if key not in empty and (key != "group" or results.groups)}
    return Table(
        name=name,
        title="",
        columns=shown,
        rows=rows,
        compare=[key for key in shown if key in _LOWEST or key in _HIGHEST],
        highest=_HIGHEST,
        within=within,
        formats={"level": "g", **dict.fromkeys(_RATIOS, ".2f")},
        missing={"group": "all"},
    )


def _summary(results: Results) -> list[dict[str, Value]]:
    records = []
    for group, lines in compare_by_group(results).items():
        for line in lines:
            record: dict[str, Value] = {"group": group} if results.groups else {}
            record |= {"calibrator": line.info.name, "label": line.info.label}
            record |= {"form": form_text(line.info), "tuned_on": line.info.tuned_on}
            values = {**asdict(line.summary), **asdict(line.ratios)}
            record |= {key: value for key, value in values.items() if key != "calibrator"}
            record |= {"in_domain_null_ece": line.in_domain_null_ece, "mean_null_ece": line.mean_null_ece}
            if line.in_domain_interval is not None:
                record["in_domain_ece_low"], record["in_domain_ece_high"] = line.in_domain_interval
            records.append(record)
    return records


def _every_row(results: Results) -> list[dict[str, Value]]:
    names = [field.name for field in fields(ResultRow) if field.name not in (*PARTS, "group")]
    records = []
    for row in results.rows:
        record: dict[str, Any] = {"group": row.group} if results.groups else {}
        record |= {name: getattr(row, name) for name in names}
        for metric in METRICS:
            if metric in row.intervals:
                record[f"{metric}_low"], record[f"{metric}_high"] = row.intervals[metric]
        records.append(record)
    return records
