"""Writing a table of records as CSV, JSON, Markdown, LaTeX, HTML or for a terminal; all tables of driftcal use it.

Names in a table may come from files and models. Each format escapes them, so that a name is always text.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from driftcal.core.messages import printable

Value = float | int | str | None


@dataclass(frozen=True)
class Table:
    """Rows of values under headings.

    Parameters
    ----------
    name : file name without ending.
    title : what the table shows.
    columns : key of a row -> heading. Rows may hold more keys: CSV and JSON write all of them.
    rows : one mapping per line.
    compare : keys whose best value is printed bold. If all values are equal, none is bold.
    highest : True if the highest value is best, or the keys for which it is; otherwise the lowest is best.
    within : None if the cells of each row are compared. Otherwise the cells of each column are compared, among the rows
        that agree in these keys; ``()`` compares all rows.
    intervals : whether ``KEY_low`` and ``KEY_high`` are printed after ``KEY``.
    digits : decimals of a float.
    formats : key -> format specification, instead of `digits`.
    missing : key -> text for None, instead of a dash.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, Value]]
    compare: Sequence[str] = ()
    highest: bool | Sequence[str] = False
    within: Sequence[str] | None = None
    intervals: bool = False
    digits: int = 3
    formats: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def to_csv(table: Table) -> str:
    """Comma-separated values with all digits and all keys, as spreadsheets and pandas read them.

    A name that a spreadsheet would run as a formula gets an apostrophe in front, so that it is shown as text.
    """
    keys = list(dict.fromkeys([*table.columns, *(key for row in table.rows for key in row)]))
    out = io.StringIO()
    # text is always quoted, because a carriage return inside a name would end the line
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(keys)
    writer.writerows([escape_cell(row.get(key)) for key in keys] for row in table.rows)
    return out.getvalue()


def to_json(table: Table) -> str:
    """A list of objects, one per row, with all digits and all keys."""
    rows = [dict(row) for row in table.rows]
    return json.dumps(rows, ensure_ascii=False, allow_nan=False, indent=1, default=float) + "\n"


def to_markdown(table: Table) -> str:
    """A pipe table, the best values bold.

    >>> columns = {"net": "Net", "a": "A", "b": "B"}
    >>> print(to_markdown(Table("t", "", columns, [{"net": "x", "a": 0.1, "b": 0.25}], ("a", "b"))))
    | Net | A | B |
    | --- | ---: | ---: |
    | x | **0.100** | 0.250 |
    <BLANKLINE>
    """
    rule = ["---" if text else "---:" for text in _text_columns(table).values()]
    lines = [[escape_markdown(heading) for heading in table.columns.values()], rule]
    lines += [[f"**{cell}**" if best else cell for cell, best in row] for row in _escaped(table, escape_markdown)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def to_latex(table: Table) -> str:
    r"""A ``tabular`` for the booktabs package, the best values bold."""
    layout = "".join("l" if text else "r" for text in _text_columns(table).values())
    lines = [[f"\\textbf{{{cell}}}" if best else cell for cell, best in row] for row in _escaped(table, escape_latex)]
    return "\n".join(
        [
            f"% {'; '.join(filter(None, [' '.join(table.title.split()), 'needs']))} \\usepackage{{booktabs}}",
            f"\\begin{{tabular}}{{{layout}}}",
            "\\toprule",
            f"{' & '.join(escape_latex(heading) for heading in table.columns.values())} \\\\",
            "\\midrule",
            *(f"{' & '.join(line)} \\\\" for line in lines),
            "\\bottomrule",
            "\\end{tabular}",
            "",
        ]
    )


def to_html(table: Table) -> str:
    """An HTML table in a region that scrolls sideways, the best values bold; the title is its label."""
    head = "".join(f'<th scope="col">{escape_html(heading)}</th>' for heading in table.columns.values())
    is_text = list(_text_columns(table).values())
    body = []
    for row in _escaped(table, escape_html):
        cells = [f"<strong>{cell}</strong>" if best else cell for cell, best in row]
        cells = [f"<bdi>{cell}</bdi>" if text else cell for cell, text in zip(cells, is_text, strict=True)]
        body.append(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape_html(table.title)}; scrolls sideways">'
        f'<table class="data"><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


#: Names of up to so many characters stay whole in tables with up to so many columns.
_LONGEST_NAME, _FEW_COLUMNS = 40, 6


def to_terminal(table: Table) -> Any:
    """A table for rich's console: numbers are aligned to the right, and the best values are bold."""
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for key, text in _text_columns(table).items():
        heading = Text(printable(table.columns[key]))
        longest = max((len(_cell(table, row, key)) for row in table.rows), default=0)
        drawn.add_column(
            heading,
            justify="left" if text else "right",
            overflow="fold",
            header_style="bold",
            # on a narrow terminal headings are broken first, then names, if there are few columns
            no_wrap=text and longest <= _LONGEST_NAME and len(table.columns) <= _FEW_COLUMNS,
        )
    for row in _escaped(table, printable):
        drawn.add_row(*(Text(cell, style="bold" if best else "") for cell, best in row))
    return drawn


#: Name of a format -> function that turns a table into its text.
FORMATS: dict[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "json": to_json,
    "latex": to_latex,
    "markdown": to_markdown,
}


def _escaped(table: Table, escape: Callable[[str], str]) -> list[list[tuple[str, bool]]]:
    """Each row as (escaped text, whether it is among the best)."""
    best = _best_cells(table)
    return [
        [(escape(_cell(table, row, key)), (i, key) in best) for key in table.columns]
        for i, row in enumerate(table.rows)
    ]


def _cell(table: Table, row: Mapping[str, Value], key: str) -> str:
    text = _printed(table, key, row.get(key))
    low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
    if table.intervals and low is not None and high is not None:
        text += f" [{_printed(table, key, low)}, {_printed(table, key, high)}]"
    return text


def _printed(table: Table, key: str, value: Value) -> str:
    if value is None:
        return table.missing.get(key, "–")
    if not isinstance(value, float):
        return str(value)
    return format(value, table.formats.get(key, f".{table.digits}f")).replace("-", "−")


def _best_cells(table: Table) -> set[tuple[int, str]]:
    """(row, key) of the cells to print bold; values are compared as they are printed."""
    compared: dict[tuple[Any, ...], dict[tuple[int, str], float]] = defaultdict(dict)
    for i, row in enumerate(table.rows):
        for key in table.compare:
            value = row.get(key)
            if isinstance(value, str) or value is None:
                continue
            comparison = (i,) if table.within is None else (key, *(row.get(name) for name in table.within))
            highest = table.highest if isinstance(table.highest, bool) else key in table.highest
            compared[comparison][i, key] = (-1 if highest else 1) * round(value, table.digits)
    return {
        cell
        for values in compared.values()
        if len(set(values.values())) > 1
        for cell, value in values.items()
        if value == min(values.values())
    }


def _text_columns(table: Table) -> dict[str, bool]:
    """Whether each column holds text, which is aligned to the left."""
    return {key: any(isinstance(row.get(key), str) for row in table.rows) for key in table.columns}


def escape_cell(value: Any) -> Any:
    """A cell of a CSV file that no spreadsheet takes for a formula (CWE-1236)."""
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


def escape_html(value: object) -> str:
    """Any value as HTML text; characters that UTF-8 or HTML cannot hold are written as escapes.

    >>> escape_html('<img src=x onerror="alert(1)">')
    '&lt;img src=x onerror=&quot;alert(1)&quot;&gt;'
    """
    plain = str(value).encode("utf-8", "backslashreplace").decode()
    return escape(re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", plain))


def escape_latex(text: str) -> str:
    """Text that LaTeX prints unchanged, on one line."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def escape_markdown(text: str) -> str:
    """Text that Markdown prints unchanged, on one line."""
    escaped = re.sub(r"([\\`*_{}\[\]|~#$])", r"\\\1", " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
