"""The text of a report: ratios without verdicts."""

from dataclasses import replace

import pytest
from report_fixture import digits_results

from driftcal.pipeline.evaluating.results import POOLED, WINDOWED, Results
from driftcal.report.headline import GLOSSARY, report_text


def with_ece(results: Results, values: dict[str, tuple[float, float]]) -> Results:
    """The results with other ECEs (in domain, under shift) for some calibrators."""

    def changed(row):
        if row.calibrator not in values:
            return row
        ece = values[row.calibrator][row.level == POOLED]
        return replace(row, ece=ece, intervals={"ece": (ece - 0.01, ece + 0.01)})

    return replace(results, rows=tuple(map(changed, results.rows)), metadata={"method": "irm-p"})


@pytest.mark.parametrize(
    ("scaling", "featured", "headline", "lower", "higher"),
    [
        ((0.02, 0.2), (0.03, 0.05), "0.25 × that of temperature scaling under shift and 1.50 × in domain.", 3, 0),
        ((0.02, 0.05), (0.01, 0.2), "4.00 × that of temperature scaling under shift and 0.50 × in domain.", 0, 3),
        ((0.02, 0.2), (0.02, 0.195), "0.97 × that of temperature scaling under shift and 1.00 × in domain.", 0, 0),
    ],
)  # fmt: skip
def test_the_headline_gives_ratios_to_temperature_scaling(scaling, featured, headline, lower, higher):
    results = with_ece(digits_results(), {"ts": scaling, "irm-p": featured, "ts-p": (0.5, 0.5)})
    text = report_text(results)
    assert text.headline == f"The ECE of IRM-P is {headline}"
    assert f"on {lower} of 3 shifts and higher on {higher}." in " ".join(text.notes)
    assert [line.info.name for line in text.cards] == ["base", "ts", "irm", "irm-p"]


def test_the_headline_names_the_best_p_if_it_is_another_calibrator():
    results = with_ece(digits_results(), {"ts": (0.02, 0.2), "irm-p": (0.03, 0.1), "ts-p": (0.1, 0.05)})
    assert report_text(results).headline.endswith("Under shift it is 2.00 × that of the best -P, TS-P.")


@pytest.mark.parametrize("value", [0.01, 0.05, 0.2, 0.4])
def test_no_text_contains_a_verdict(value):
    results = with_ece(digits_results(), {"ts": (0.02, 0.2), "irm-p": (0.03, value)})
    text = report_text(results)
    for word in ("solved", "better", "worse", "help", "price", "gain", "honest"):
        assert word not in " ".join([text.headline, *text.notes])


def test_the_headline_without_temperature_scaling_gives_the_ece():
    results = digits_results()
    only = replace(results, calibrators=results.calibrators[:1])
    assert report_text(only).headline.startswith("The ECE of Base is ")
    assert report_text(only).cards[0].info.name == "base"
    without_ts = replace(results, calibrators=[info for info in results.calibrators if info.method != "ts"])
    assert report_text(without_ts).headline.startswith("The ECE of IRM-P is ")


def test_the_form_of_a_windowed_calibrator_is_in_the_notes():
    results = digits_results()
    infos = [replace(c, form=WINDOWED, window_size=100) if c.name == "irm-p" else c for c in results.calibrators]
    assert (
        "IRM-P adapts to windows of 100 unlabelled samples." in report_text(replace(results, calibrators=infos)).notes
    )


def test_every_term_of_the_page_is_in_the_glossary():
    assert {"ECE", "Null ECE", "÷ TS", "÷ best -P", "NLL", "Brier", "-P", "Form", "Entropy", "Interval"} <= set(
        GLOSSARY
    )
