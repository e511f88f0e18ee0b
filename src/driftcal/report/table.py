"""The numbers as tables: CSV, JSON, LaTeX and Markdown, of the summary or of every row."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from driftcal.errors import UnknownName
from driftcal.report.numbers import lines_by_group
from driftcal.results import METRICS, ResultRow, Results

Record = dict[str, Any]

#: What a table can hold.
CONTENTS = ("summary", "rows")

# column of the summary -> (heading, +1 where lower is better, -1 where higher is, 0 for words)
_SUMMARY = {
    "group": ("Group", 0),
    "label": ("Calibrator", 0),
    "tuned_on": ("Tuned on", 0),
    "in_domain_ece": ("ECE in domain", 1),
    "mean_ece": ("ECE under drift", 1),
    "worst_ece": ("Worst ECE", 1),
    "worst_shift": ("Worst shift", 0),
    "in_domain_accuracy": ("Accuracy in domain", -1),
    "mean_accuracy": ("Accuracy under drift", -1),
    "mean_nll": ("NLL under drift", 1),
    "mean_brier": ("Brier under drift", 1),
}
_ROWS = {
    "group": ("Group", 0),
    "calibrator": ("Calibrator", 0),
    "shift": ("Shift", 0),
    "level": ("Level", 0),
    "rows": ("Rows", 0),
    "ece": ("ECE", 1),
    "ece_floor": ("Floor", 0),
    "accuracy": ("Accuracy", -1),
    "confidence": ("Confidence", 0),
    "entropy": ("Entropy", 0),
    "nll": ("NLL", 1),
    "brier": ("Brier", 1),
}


def to_csv(results: Results, what: str = "summary") -> str:
    """Comma-separated values with all digits, as spreadsheets and pandas read them.

    Names that a spreadsheet would run as a formula get an apostrophe in front, which it shows as plain text.
    """
    records = records_of(results, what)
    columns = list(dict.fromkeys(key for record in records for key in record))
    out = io.StringIO()
    # Text is always quoted: a carriage return inside a name would end the line otherwise.
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    writer.writerows([escape_cell(record.get(column)) for column in columns] for record in records)
    return out.getvalue()


def to_json(results: Results, what: str = "summary") -> str:
    """A list of objects, one per line of the table, all digits."""
    return json.dumps(records_of(results, what), ensure_ascii=False, allow_nan=False, indent=1, default=float) + "\n"


def to_markdown(results: Results, what: str = "summary") -> str:
    """A pipe table with three decimals, the best of each column bold."""
    columns, body = _shown(results, what)
    rule = ["---" if sense is None else "---:" for _, sense in columns]
    lines = [[escape_markdown(heading) for heading, _ in columns], rule]
    lines += [
        [f"**{escape_markdown(cell)}**" if best else escape_markdown(cell) for cell, best in line] for line in body
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_latex(results: Results, what: str = "summary") -> str:
    r"""A ``tabular`` for the booktabs package with three decimals, the best of each column bold."""
    columns, body = _shown(results, what)
    layout = "".join("l" if sense is None else "r" for _, sense in columns)
    lines = [
        "% needs \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{layout}}}",
        "\\toprule",
        f"{' & '.join(escape_latex(heading) for heading, _ in columns)} \\\\",
        "\\midrule",
        *(f"{' & '.join(_bold(cell) if best else escape_latex(cell) for cell, best in line)} \\\\" for line in body),
        "\\bottomrule",
        "\\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


#: name of a format -> function of (results, what) that gives its text
FORMATS: dict[str, Callable[..., str]] = {
    "csv": to_csv,
    "json": to_json,
    "latex": to_latex,
    "markdown": to_markdown,
}


def records_of(results: Results, what: str = "summary") -> list[Record]:
    """The lines of a table as plain mappings: the summary by group, or every row with its intervals."""
    if what not in CONTENTS:
        raise UnknownName.of("table", what, CONTENTS)
    return _row_records(results) if what == "rows" else _summary_records(results)


def _summary_records(results: Results) -> list[Record]:
    records = []
    for group, lines in lines_by_group(results).items():
        for line in lines:
            record: Record = {"group": group} if results.groups else {}
            record |= {"calibrator": line.info.name, "label": line.info.label, "tuned_on": line.info.tuned_on}
            record |= {key: value for key, value in asdict(line.summary).items() if key != "calibrator"}
            record |= {"in_domain_ece_floor": line.in_domain_floor, "mean_ece_floor": line.mean_floor}
            if line.in_domain_interval is not None:
                record["in_domain_ece_low"], record["in_domain_ece_high"] = line.in_domain_interval
            records.append(record)
    return records


def _row_records(results: Results) -> list[Record]:
    plain = [field.name for field in fields(ResultRow) if field.name not in ("bins", "intervals", "group")]
    records = []
    for row in results.rows:
        record: Record = {"group": row.group} if results.groups else {}
        record |= {name: getattr(row, name) for name in plain}
        for metric in METRICS:
            if metric in row.intervals:
                record[f"{metric}_low"], record[f"{metric}_high"] = row.intervals[metric]
        records.append(record)
    return records


def _shown(results: Results, what: str) -> tuple[list[tuple[str, int | None]], list[list[tuple[str, bool]]]]:
    """Headings, each with None for words, and lines of (text, is it the best)."""
    records = records_of(results, what)
    known = _ROWS if what == "rows" else _SUMMARY
    columns = [name for name in known if name != "group" or results.groups]
    part = _comparable(what)
    seen: dict[tuple[Any, ...], set[float]] = defaultdict(set)
    for record in records:
        for name in columns:
            if known[name][1]:
                seen[(name, *part(record))].add(known[name][1] * round(record[name], 3))
    body = []
    for record in records:
        line = []
        for name in columns:
            rivals = seen.get((name, *part(record)), set())
            best = len(rivals) > 1 and min(rivals) == known[name][1] * round(record[name], 3)  # no prize when all tie
            line.append((_short(record[name], name), best))
        body.append(line)
    numeric = {name for name in columns if records and isinstance(records[0][name], int | float)}
    return [(known[name][0], 0 if name in numeric else None) for name in columns], body


def _comparable(what: str) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Lines compete only with lines of the same data."""
    if what == "rows":
        return lambda record: (record.get("group"), record["shift"], record["level"])
    return lambda record: (record.get("group"),)


def _short(value: Any, name: str) -> str:
    if value is None:
        return "all"
    if isinstance(value, str | int):
        return str(value)
    return f"{value:g}" if name == "level" else f"{value:.3f}"


def escape_cell(value: Any) -> Any:
    """Text that no spreadsheet takes for a formula (CWE-1236)."""
    if value is None:
        return ""
    if isinstance(value, str) and value.lstrip()[:1] in ("=", "+", "-", "@", "＝", "＋", "－", "＠"):
        return f"'{value}"
    return f"'{value}" if isinstance(value, str) and value[:1] in ("\t", "\r", "\n") else value


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def _bold(words: str) -> str:
    return f"\\textbf{{{escape_latex(words)}}}"


def escape_latex(words: str) -> str:
    """Words that LaTeX prints as they are."""
    return "".join(_LATEX.get(character, character) for character in _one_line(words))


def escape_markdown(words: str) -> str:
    """Words that Markdown prints as they are."""
    escaped = re.sub(r"([\\`*_{}\[\]|~#$])", r"\\\1", _one_line(words))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _one_line(words: Sequence[str] | str) -> str:
    return " ".join("".join(words).split())
