"""Results as tables: a row per calibrator, or a row per calibrator, shift and level."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from driftcal.errors import UnknownName
from driftcal.pipeline.results import METRICS, ResultRow, Results
from driftcal.report.numbers import lines_by_group
from driftcal.report.table import Table, Value

#: What a table can hold.
CONTENTS = ("summary", "rows")

_SUMMARY = {
    "group": "Group",
    "label": "Calibrator",
    "tuned_on": "Tuned on",
    "in_domain_ece": "ECE in domain",
    "mean_ece": "ECE under drift",
    "worst_ece": "Worst ECE",
    "worst_shift": "Worst shift",
    "in_domain_accuracy": "Accuracy in domain",
    "mean_accuracy": "Accuracy under drift",
    "mean_nll": "NLL under drift",
    "mean_brier": "Brier under drift",
}
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
_LOWEST = {"in_domain_ece", "mean_ece", "worst_ece", "mean_nll", "mean_brier", "ece", "nll", "brier"}
_HIGHEST = ("in_domain_accuracy", "mean_accuracy", "accuracy")


def result_table(results: Results, content: str = "summary") -> Table:
    """The summary by group, or every row with its intervals. Only calibrators on the same data are compared."""
    if content not in CONTENTS:
        raise UnknownName.of("table", content, CONTENTS)
    every_row = content == "rows"
    columns = {
        key: text for key, text in (_ROWS if every_row else _SUMMARY).items() if key != "group" or results.groups
    }
    return Table(
        name=content,
        title="",
        columns=columns,
        rows=_every_row(results) if every_row else _summary(results),
        compare=[key for key in columns if key in _LOWEST or key in _HIGHEST],
        highest=_HIGHEST,
        within=("group", "shift", "level") if every_row else ("group",),
        formats={"level": "g"},
        missing="all",
    )


def _summary(results: Results) -> list[dict[str, Value]]:
    records = []
    for group, lines in lines_by_group(results).items():
        for line in lines:
            record: dict[str, Value] = {"group": group} if results.groups else {}
            record |= {"calibrator": line.info.name, "label": line.info.label, "tuned_on": line.info.tuned_on}
            record |= {key: value for key, value in asdict(line.summary).items() if key != "calibrator"}
            record |= {"in_domain_ece_floor": line.in_domain_floor, "mean_ece_floor": line.mean_floor}
            if line.in_domain_interval is not None:
                record["in_domain_ece_low"], record["in_domain_ece_high"] = line.in_domain_interval
            records.append(record)
    return records


def _every_row(results: Results) -> list[dict[str, Value]]:
    plain = [field.name for field in fields(ResultRow) if field.name not in ("bins", "intervals", "group")]
    records = []
    for row in results.rows:
        record: dict[str, Any] = {"group": row.group} if results.groups else {}
        record |= {name: getattr(row, name) for name in plain}
        for metric in METRICS:
            if metric in row.intervals:
                record[f"{metric}_low"], record[f"{metric}_high"] = row.intervals[metric]
        records.append(record)
    return records
