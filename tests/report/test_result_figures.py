"""Figures of results: any name is text, the same bytes each time."""

from dataclasses import replace

import pytest
from report_fixture import digits_results, hostile_results

from driftcal.errors import UnknownName
from driftcal.report import write_figures


def test_figures_are_written_and_come_out_the_same(tmp_path):
    results = digits_results()
    first = write_figures(results, tmp_path / "one", formats=("svg", "png"))
    names = {"mean_ece", "ece_by_level", "accuracy_by_level", "shifts", "reliability", "perturbation_levels"}
    assert {path.name for path in first} == {f"{name}.{ending}" for name in names for ending in ("svg", "png")}
    for path, again in zip(first, write_figures(results, tmp_path / "two", formats=("svg", "png")), strict=True):
        assert path.stat().st_size > 4000
        assert path.read_bytes() == again.read_bytes()


def test_figures_as_pdf_with_names_that_look_like_formulas(tmp_path):
    odd = hostile_results()
    odd = replace(odd, calibrators=tuple(replace(c, label=f"$\\frac{{$ {c.label} 漢字") for c in odd.calibrators))
    paths = write_figures(odd, tmp_path, formats=("pdf",))
    assert len(paths) == 6
    assert all(path.read_bytes().startswith(b"%PDF") for path in paths)


def test_figures_without_data_are_left_out(tmp_path):
    paths = write_figures(replace(digits_results(), perturbation=None), tmp_path, formats=("svg",))
    assert "perturbation_levels.svg" not in {path.name for path in paths}
    with pytest.raises(UnknownName, match="pdf"):
        write_figures(digits_results(), tmp_path, formats=("pdff",))
