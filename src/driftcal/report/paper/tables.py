"""An experiment's table as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from driftcal.bench.outcome import Table, Value
from driftcal.report.tables import escape_cell, escape_latex, escape_markdown


def table_csv(table: Table) -> str:
    """All digits and all columns, the ends of intervals too."""
    columns = list(dict.fromkeys([*table.columns, *(key for row in table.rows for key in row)]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(columns)
    writer.writerows([escape_cell(row.get(column)) for column in columns] for row in table.rows)
    return out.getvalue()


def table_markdown(table: Table) -> str:
    """A pipe table, the best of each row bold.

    >>> print(table_markdown(Table("t", "", {"net": "Net", "a": "A", "b": "B"}, [{"net": "x", "a": 0.1, "b": 0.25}], ("a", "b"))))
    | Net | A | B |
    | --- | ---: | ---: |
    | x | **0.100** | 0.250 |
    <BLANKLINE>
    """
    rule = ["---" if words else "---:" for words in _are_words(table).values()]
    lines = [[escape_markdown(heading) for heading in table.columns.values()], rule]
    for row in table.rows:
        best = _best(table, row)
        cells = {key: escape_markdown(cell) for key, cell in _cells(table, row).items()}
        lines.append([f"**{cell}**" if key in best else cell for key, cell in cells.items()])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table_latex(table: Table) -> str:
    r"""A ``tabular`` for the booktabs package, the best of each row bold."""
    layout = "".join("l" if words else "r" for words in _are_words(table).values())
    lines = [
        f"% {' '.join(table.title.split())}; needs \\usepackage{{booktabs}}",
        f"\\begin{{tabular}}{{{layout}}}",
        "\\toprule",
        f"{' & '.join(escape_latex(heading) for heading in table.columns.values())} \\\\",
        "\\midrule",
    ]
    for row in table.rows:
        best = _best(table, row)
        cells = {key: escape_latex(cell) for key, cell in _cells(table, row).items()}
        bold = [f"\\textbf{{{cell}}}" if key in best else cell for key, cell in cells.items()]
        lines.append(f"{' & '.join(bold)} \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def shown_cells(table: Table) -> list[dict[str, str]]:
    """The rows as they are read, for a terminal."""
    return [_cells(table, row) for row in table.rows]


def _cells(table: Table, row: Mapping[str, Value]) -> dict[str, str]:
    found = {}
    for key in table.columns:
        text = _number(row.get(key), table.digits)
        low, high = row.get(f"{key}_low"), row.get(f"{key}_high")
        if table.intervals and low is not None and high is not None:
            text += f" [{_number(low, table.digits)}, {_number(high, table.digits)}]"
        found[key] = text
    return found


def _number(value: Value, digits: int) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}f}".replace("-", "−") if isinstance(value, float) else str(value)


def _best(table: Table, row: Mapping[str, Value]) -> set[str]:
    """The keys of the best numbers as they are printed; none where all tie."""
    values = {key: round(v, table.digits) for key in table.rivals if isinstance(v := row.get(key), float | int)}
    if len(set(values.values())) < 2:
        return set()
    top = max(values.values()) if table.highest else min(values.values())
    return {key for key, value in values.items() if value == top}


def _are_words(table: Table) -> dict[str, bool]:
    """Which columns hold words."""
    return {key: any(isinstance(row.get(key), str) for row in table.rows) for key in table.columns}
