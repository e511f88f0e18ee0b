"""The table writer: any name stays in its cell, the best is bold, the terminal shows names as text."""

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from driftcal.report.table import FORMATS, Table, to_csv, to_json, to_latex, to_markdown, to_terminal


def test_the_best_of_a_row_is_bold_and_a_missing_value_is_a_dash():
    rows = [{"net": "a_b", "x": 0.1234, "y": 0.1233, "x_low": 0.1, "x_high": 0.2}, {"net": "c", "x": -0.5}]
    table = Table("t", "T", {"net": "Net", "x": "X", "y": "Y"}, rows, ("x", "y"), intervals=True)
    text = to_markdown(table)
    assert "| a\\_b | 0.123 \\[0.100, 0.200\\] | 0.123 |" in text, "equal as printed: none is best"
    assert "| c | −0.500 | – |" in text
    better = Table(
        "t", "T", {"net": "Net", "x": "X", "y": "Y"}, [{"net": "a", "x": 0.1, "y": 0.2}], ("x", "y"), highest=True
    )
    assert "**0.200**" in to_markdown(better)
    assert "\\textbf{0.200}" in to_latex(better)
    parsed = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert parsed[0]["x_high"] == "0.2"
    assert parsed[1]["y"] == ""
    assert json.loads(to_json(table))[0]["x"] == 0.1234


def test_the_best_of_a_column_is_found_among_rows_of_the_same_data():
    rows = [
        {"data": "a", "name": "p", "ece": 0.2, "accuracy": 0.5},
        {"data": "a", "name": "q", "ece": 0.1, "accuracy": 0.5},
        {"data": "b", "name": "p", "ece": 0.05, "accuracy": 0.4},
        {"data": "b", "name": "q", "ece": 0.06, "accuracy": 0.9},
    ]
    columns = {"name": "Name", "ece": "ECE", "accuracy": "Accuracy"}
    table = Table("t", "", columns, rows, ("ece", "accuracy"), highest=("accuracy",), within=("data",))
    lines = to_markdown(table).splitlines()[2:]
    assert lines == [
        "| p | 0.200 | 0.500 |",
        "| q | **0.100** | 0.500 |",
        "| p | **0.050** | 0.400 |",
        "| q | 0.060 | **0.900** |",
    ]


@given(st.text(min_size=1))
def test_any_name_stays_in_its_cell(name):
    table = Table("t", name, {"net": name, "x": "X"}, [{"net": name, "x": 0.5}])
    assert len(to_markdown(table).splitlines()) == 3
    assert len(to_latex(table).splitlines()) == 8
    assert len(list(csv.reader(io.StringIO(to_csv(table))))) == 2
    assert json.loads(to_json(table)) == [{"net": name, "x": 0.5}]


def test_a_terminal_table_shows_names_as_text(capsys):
    from rich.console import Console

    name = "[red]x[/red]\x1b[31m"
    rows = [{"net": name, "x": 0.5}, {"net": "b", "x": 0.25}]
    console = Console(width=80, force_terminal=False, markup=False, highlight=False, emoji=False)
    console.print(to_terminal(Table("t", "", {"net": "Net", "x": "X"}, rows, ("x",), within=())))
    out = capsys.readouterr().out
    assert "[red]x[/red]\\x1b[31m" in out
    assert "\x1b" not in out
    assert "0.500" in out


def test_formats_by_name():
    table = Table("t", "", {"x": "X"}, [{"x": 1}])
    assert list(FORMATS) == ["csv", "json", "latex", "markdown"]
    assert all(write(table).endswith("\n") for write in FORMATS.values())
