"""Tables and figures of results: all digits, no formula, rectangular, the same bytes each time."""

import csv
import io
import json
import re
from dataclasses import replace

import pytest
from report_fixture import digits_results, hostile_results

from driftcal.errors import UnknownName
from driftcal.pipeline.results import CalibratorInfo
from driftcal.report import result_table, write_figures
from driftcal.report.numbers import lines_of
from driftcal.report.table import to_csv, to_json, to_latex, to_markdown

# ---- tables ----


@pytest.mark.parametrize("what", ["summary", "rows"])
def test_csv_and_json_hold_all_digits(what):
    results = digits_results(grouped=True)
    lines = list(csv.DictReader(io.StringIO(to_csv(result_table(results, what)))))
    objects = json.loads(to_json(result_table(results, what)))
    expected = len(results.rows) if what == "rows" else len(results.calibrators) * (1 + len(results.groups))
    assert len(lines) == len(objects) == expected
    key = "ece" if what == "rows" else "mean_ece"
    for line, entry in zip(lines, objects, strict=True):
        assert float(line[key]) == entry[key]
        assert (line["group"] or None) == entry["group"]
    if what == "rows":
        assert [entry["ece"] for entry in objects] == [row.ece for row in results.rows]
        assert {"ece_low", "ece_high"} <= set(lines[0])


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "\r=1", '=cmd|" /C calc"!A0'])
def test_csv_runs_no_formula(name):
    results = digits_results()
    infos = [CalibratorInfo(name, name, "x", "clean rows", True), *results.calibrators[1:]]
    rows = [replace(row, calibrator=name if row.calibrator == "base" else row.calibrator) for row in results.rows]
    renamed = replace(results, calibrators=infos, rows=rows)
    for what in ("summary", "rows"):
        line = next(csv.DictReader(io.StringIO(to_csv(result_table(renamed, what)))))
        assert line["calibrator"] == f"'{name}"
        assert float(line["ece" if what == "rows" else "mean_ece"]) >= 0


@pytest.mark.parametrize("what", ["summary", "rows"])
def test_markdown_and_latex_are_rectangular_whatever_the_names(what):
    results = hostile_results()
    markdown = to_markdown(result_table(results, what)).splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in markdown}) == 1
    assert "<" not in "".join(markdown)
    latex = to_latex(result_table(results, what))
    body = latex.split("\\midrule\n")[1].split("\\bottomrule")[0].splitlines()
    assert len({len(re.findall(r"(?<!\\)&", line)) for line in body}) == 1
    assert all(line.endswith(r" \\") for line in body)
    assert not re.search(r"(?<!\\)[$#_%]", "".join(body))


def test_the_best_is_bold_once_per_part_and_never_when_all_tie():
    results = digits_results()
    table = to_markdown(result_table(results)).splitlines()
    ece = [line.split(" | ")[3] for line in table[2:]]
    best = min(line.summary.mean_ece for line in lines_of(results))
    assert [cell for cell in ece if cell.startswith("**")] == [f"**{best:.3f}**"]
    assert all("**" not in line.split(" | ")[6] for line in table[2:])  # accuracy: TS and IRM keep it
    assert f"\\textbf{{{best:.3f}}}" in to_latex(result_table(results))


def test_contents_by_name():
    with pytest.raises(UnknownName, match="summary"):
        result_table(digits_results(), "sumary")


# ---- figures ----


def test_figures_are_written_and_come_out_the_same(tmp_path):
    results = digits_results()
    first = write_figures(results, tmp_path / "one", formats=("svg", "png"))
    names = {"mean_ece", "ece_by_level", "accuracy_by_level", "shifts", "reliability", "ladder"}
    assert {path.name for path in first} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    for path, again in zip(first, write_figures(results, tmp_path / "two", formats=("svg", "png")), strict=True):
        assert path.stat().st_size > 4000
        assert path.read_bytes() == again.read_bytes()


def test_figures_as_pdf_with_names_that_look_like_formulas(tmp_path):
    odd = hostile_results()
    odd = replace(odd, calibrators=tuple(replace(c, label=f"$\\frac{{$ {c.label} 漢字") for c in odd.calibrators))
    paths = write_figures(odd, tmp_path, formats=("pdf",))
    assert len(paths) == 6
    assert all(path.read_bytes().startswith(b"%PDF") for path in paths)


def test_figures_leave_out_what_was_not_recorded(tmp_path):
    paths = write_figures(replace(digits_results(), perturbation=None), tmp_path, formats=("svg",))
    assert "ladder.svg" not in {path.name for path in paths}
    with pytest.raises(UnknownName, match="pdf"):
        write_figures(digits_results(), tmp_path, formats=("pdff",))
