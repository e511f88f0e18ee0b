"""The lines of a report: the featured calibrator, its baselines, and the ratios of their ECE."""

from dataclasses import replace

import pytest
from report_fixture import digits_results

from driftcal.pipeline.evaluating.results import PER_SAMPLE, WINDOWED, CalibratorInfo
from driftcal.report.comparison import (
    best_p_line,
    clean_tuned_line,
    compare_by_group,
    compare_calibrators,
    featured_line,
    form_text,
    main_lines,
)


def test_the_featured_calibrator_is_the_tuned_one_or_the_best_under_shift():
    lines = compare_calibrators(digits_results())
    assert featured_line(lines, {"method": "ts"}).info.name == "ts-p"
    assert featured_line(lines, {"calibrator": "TS-P"}).info.name == "ts-p"
    best = min((line for line in lines if line.info.name.endswith("-p")), key=lambda line: line.summary.mean_ece)
    assert featured_line(lines) is best
    assert featured_line(lines, {"calibrator": "unknown"}) is best
    assert best_p_line(lines) is best
    assert clean_tuned_line(lines, best).info.name == best.info.name.removesuffix("-p")
    assert featured_line([]) is None


def test_the_main_lines_are_the_baselines_and_the_featured_calibrator():
    lines = compare_calibrators(digits_results())
    assert [line.info.name for line in main_lines(lines, {"calibrator": "irm-p"})] == ["base", "ts", "ts-p", "irm-p"]
    assert [line.info.name for line in main_lines(lines, {"calibrator": "ts-p"})] == ["base", "ts", "ts-p"]
    assert main_lines([]) == []


def test_ratios_divide_by_temperature_scaling_and_by_the_best_p():
    results = digits_results()
    ratios = {ratio.calibrator: ratio for ratio in results.ratios()}
    summary = {line.calibrator: line for line in results.summary()}
    best = min(("ts-p", "irm-p"), key=lambda name: summary[name].mean_ece)
    assert (ratios["ts"].in_domain_to_ts, ratios["ts"].under_shift_to_ts) == (1, 1)
    assert ratios[best].under_shift_to_best_p == 1
    for name, line in summary.items():
        assert ratios[name].in_domain_to_ts == pytest.approx(line.in_domain_ece / summary["ts"].in_domain_ece)
        assert ratios[name].under_shift_to_ts == pytest.approx(line.mean_ece / summary["ts"].mean_ece)
        assert ratios[name].under_shift_to_best_p == pytest.approx(line.mean_ece / summary[best].mean_ece)


def test_ratios_without_a_baseline_are_missing():
    results = digits_results()
    without_p = replace(results, calibrators=[info for info in results.calibrators if not info.name.endswith("-p")])
    assert {ratio.under_shift_to_best_p for ratio in without_p.ratios()} == {None}
    without_ts = replace(results, calibrators=[info for info in results.calibrators if info.method != "ts"])
    assert {ratio.under_shift_to_ts for ratio in without_ts.ratios()} == {None}
    assert all(ratio.under_shift_to_best_p is not None for ratio in without_ts.ratios())


def test_the_lines_of_a_group_are_those_of_its_rows():
    results = digits_results(grouped=True)
    by_group = compare_by_group(results)
    assert list(by_group) == [None, *results.groups]
    for group, lines in by_group.items():
        assert [line.summary for line in lines] == results.summary(group)
        assert [line.ratios for line in lines] == results.ratios(group)


def test_the_form_names_the_size_of_the_window():
    info = CalibratorInfo("w", "W", "window-ts", "gaussian", True)
    assert form_text(info) == PER_SAMPLE
    assert form_text(replace(info, form=WINDOWED)) == "windowed"
    assert form_text(replace(info, form=WINDOWED, window_size=100)) == "windowed (100)"
