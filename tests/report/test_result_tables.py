"""Tables of results: all digits, no formula, rectangular."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from report_fixture import digits_results, hostile_results

from driftcal.errors import UnknownName
from driftcal.pipeline.evaluating.results import CalibratorInfo
from driftcal.report import result_table
from driftcal.report.comparison import compare_calibrators
from driftcal.report.result_tables import headline_table, headline_title
from driftcal.report.shift_names import shift_title_and_name
from driftcal.report.table import to_csv, to_json, to_latex, to_markdown


@pytest.mark.parametrize("content", ["summary", "rows"])
def test_csv_and_json_hold_all_digits(content):
    results = digits_results(grouped=True)
    lines = list(csv.DictReader(io.StringIO(to_csv(result_table(results, content)))))
    objects = json.loads(to_json(result_table(results, content)))
    expected = len(results.rows) if content == "rows" else len(results.calibrators) * (1 + len(results.groups))
    assert len(lines) == len(objects) == expected
    key = "ece" if content == "rows" else "mean_ece"
    for line, entry in zip(lines, objects, strict=True):
        assert float(line[key]) == entry[key]
        assert (line["group"] or None) == entry["group"]
    if content == "rows":
        assert [entry["ece"] for entry in objects] == [row.ece for row in results.rows]
        assert {"ece_low", "ece_high"} <= set(lines[0])


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", '=cmd|" /C calc"!A0'])
def test_csv_runs_no_formula(name):
    results = digits_results()
    infos = [CalibratorInfo(name, name, "x", "clean samples", True), *results.calibrators[1:]]
    rows = [replace(row, calibrator=name if row.calibrator == "base" else row.calibrator) for row in results.rows]
    renamed = replace(results, calibrators=infos, rows=rows)
    for content in ("summary", "rows"):
        line = next(csv.DictReader(io.StringIO(to_csv(result_table(renamed, content)))))
        assert line["calibrator"] == f"'{name}"
        assert float(line["ece" if content == "rows" else "mean_ece"]) >= 0


@pytest.mark.parametrize("content", ["summary", "rows"])
def test_markdown_and_latex_are_rectangular_for_any_names(content):
    results = hostile_results()
    markdown = to_markdown(result_table(results, content)).splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown}) == 1
    assert "<" not in "".join(markdown)
    latex = to_latex(result_table(results, content))
    body = latex.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
    assert len({len(re.findall(r"(?<!\\)&", line)) for line in body}) == 1
    assert all(line.endswith(r" \\") for line in body)
    assert not re.search(r"(?<!\\)[$#_%]", "".join(body))


def test_the_best_is_bold_once_per_part_and_never_when_all_tie():
    results = digits_results()
    table = to_markdown(result_table(results)).splitlines()
    headings = [heading.strip() for heading in table[0].strip("|").split("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    columns = dict(zip(headings, zip(*cells, strict=True), strict=True))
    best = min(line.summary.mean_ece for line in compare_calibrators(results))
    assert [cell for cell in columns["ECE under shift"] if cell.startswith("**")] == [f"**{best:.3f}**"]
    assert not any("**" in cell for cell in columns["Accuracy in domain"])  # TS and IRM keep it
    assert f"\\textbf{{{best:.3f}}}" in to_latex(result_table(results))


def test_contents_by_name():
    with pytest.raises(UnknownName, match="summary"):
        result_table(digits_results(), "sumary")


def test_the_headline_table_has_the_ratios_and_the_form_of_each_calibrator():
    results = digits_results()
    table = headline_table(results)
    assert {"form", "in_domain_to_ts", "under_shift_to_ts", "under_shift_to_best_p"} <= set(table.columns)
    assert [row["under_shift_to_ts"] for row in table.rows] == [line.under_shift_to_ts for line in results.ratios()]
    assert {row["form"] for row in table.rows} == {"per-sample"}
    worst = {(row["worst_shift"], of.worst_shift) for row, of in zip(table.rows, results.summary(), strict=True)}
    assert all(text == shift_title_and_name(name) for text, name in worst)
    assert headline_title(replace(results, shifts=results.shifts[:1])).startswith(f"{results.suite}: 1 shift, ")
    ts = next(line for line in to_markdown(table).splitlines() if line.startswith("| TS |"))
    assert ts.count(" 1.00 ") == 2
    without_ts = replace(results, calibrators=[info for info in results.calibrators if info.method != "ts"])
    assert "under_shift_to_ts" not in headline_table(without_ts).columns
    assert "divided by the ECE of temperature scaling" in headline_title(results)
