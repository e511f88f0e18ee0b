"""The text of a report: ratios without verdicts."""

from dataclasses import replace

import pytest
from report_fixture import digits_results

from driftcal.pipeline.evaluating.results import IN_DOMAIN, POOLED, WINDOWED, Results
from driftcal.report.headline import GLOSSARY, report_text


def with_ece(results: Results, values: dict[str, tuple[float, float]]) -> Results:
    """The results with other ECEs (in domain, under shift) for some calibrators."""

    def changed(row):
        if row.calibrator not in values:
            return row
        ece = values[row.calibrator][row.level == POOLED]
        return replace(row, ece=ece, intervals={"ece": (ece - 0.01, ece + 0.01)})

    return replace(results, rows=tuple(map(changed, results.rows)), metadata={"method": "irm-p"})


TS, BASE = "that of temperature scaling", "that of the uncalibrated model"


@pytest.mark.parametrize(
    ("base", "scaling", "featured", "headline", "lower", "higher"),
    [
        ((0.24, 0.4), (0.12, 0.2), (0.18, 0.05), f"under shift is 0.12 × {BASE} and 0.25 × {TS}; in domain it is 0.75 × and 1.50 ×.", 3, 0),
        ((0.12, 0.1), (0.12, 0.05), (0.06, 0.2), f"under shift is 2.00 × {BASE} and 4.00 × {TS}; in domain it is 0.50 × and 0.50 ×.", 0, 3),
        ((0.2, 0.2), (0.02, 0.2), (0.021, 0.1), f"under shift is 0.50 × {BASE} and 0.50 × {TS}; in domain it is 0.10 × {BASE}, with no clear difference from temperature scaling.", 3, 0),
        ((0.02, 0.2), (0.02, 0.2), (0.021, 0.1), f"under shift is 0.50 × {BASE} and 0.50 × {TS}; in domain it shows no clear difference from either.", 3, 0),
        ((0.2, 0.2), (0.2, 0.1), (0.1, 0.101), f"under shift is 0.51 × {BASE}, with no clear difference from temperature scaling; in domain it is 0.50 × {BASE} and 0.50 × {TS}.", 0, 0),
        ((0.02, 0.2), (0.02, 0.2), (0.02, 0.199), "under shift shows no clear difference from the uncalibrated model and temperature scaling; in domain it shows no clear difference from either.", 0, 0),
    ],
)  # fmt: skip
def test_the_headline_gives_ratios_to_both_baselines(base, scaling, featured, headline, lower, higher):
    results = with_ece(digits_results(), {"base": base, "ts": scaling, "irm-p": featured, "ts-p": (0.5, 0.5)})
    text = report_text(results)
    assert text.headline == f"Per sample (IRM-P), the ECE {headline}"
    assert f"on {lower} of 3 shifts and higher on {higher}." in " ".join(text.notes)
    assert [line.info.name for line in text.cards] == ["base", "ts", "irm", "irm-p"]


def test_the_headline_says_that_temperature_scaling_was_kept():
    changed = with_ece(digits_results(), {"base": (0.2, 0.4), "ts": (0.1, 0.1)})
    text = report_text(replace(changed, metadata={"calibrator": "ts"}))
    assert text.headline == (
        "Per sample, temperature scaling was kept: its ECE under shift is 0.25 × that of the uncalibrated model; "
        "in domain it is 0.50 × that of the uncalibrated model."
    )


def test_the_notes_name_the_best_p_if_it_is_another_calibrator():
    results = with_ece(digits_results(), {"ts": (0.02, 0.2), "irm-p": (0.03, 0.1), "ts-p": (0.1, 0.05)})
    assert (
        "The best -P of the paper, TS-P, has an ECE of 0.050 under shift and 0.100 in domain."
        in report_text(results).notes
    )


@pytest.mark.parametrize(("in_domain", "warned"), [(0.02, False), (0.2, True)])
def test_a_cost_in_domain_is_a_warning(in_domain, warned):
    results = with_ece(digits_results(), {"ts": (0.02, 0.2), "irm-p": (in_domain, 0.1)})
    warnings = [note for note in report_text(results).notes if note.startswith("Warning: ")]
    assert len(warnings) == warned
    assert all("costs 0.180 of ECE in domain" in note for note in warnings)


@pytest.mark.parametrize("value", [0.01, 0.05, 0.2, 0.4])
def test_no_text_contains_a_verdict(value):
    results = with_ece(digits_results(), {"ts": (0.02, 0.2), "irm-p": (0.03, value)})
    text = report_text(results)
    for word in ("solved", "better", "worse", "help", "price", "gain", "honest"):
        assert word not in " ".join([text.headline, *text.notes])


def test_the_headline_without_temperature_scaling_gives_the_ece():
    results = digits_results()
    only = replace(results, calibrators=results.calibrators[:1])
    assert report_text(only).headline.startswith("Per sample (Base), the ECE is ")
    assert report_text(only).cards[0].info.name == "base"
    without_ts = replace(results, calibrators=[info for info in results.calibrators if info.method != "ts"])
    assert TS not in report_text(without_ts).headline
    assert BASE in report_text(without_ts).headline


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


@pytest.mark.parametrize(
    ("ece", "sentence"),
    [
        (0.2, " Temperature scaling is better here: fit with method='ts'."),
        (0.051, " IRM is no better here than temperature scaling: there is no clear difference."),
        (0.01, ""),
    ],
)
def test_a_report_of_scores_says_if_temperature_scaling_is_better(ece, sentence):
    results = digits_results()
    rows = [row for row in results.rows if row.level in (0, POOLED) and row.shift == results.shifts[0].name]
    only = replace(
        results, suite=IN_DOMAIN, rows=rows, shifts=[replace(results.shifts[0], name=IN_DOMAIN, levels=(0,))]
    )
    only = replace(only, rows=[replace(row, shift=IN_DOMAIN) for row in rows])
    changed = replace(with_ece(only, {"ts": (0.05, 0.05), "irm": (ece, ece)}), metadata={"calibrator": "irm"})
    assert changed.in_domain_only
    headline = report_text(changed).headline
    assert headline.startswith(f"The ECE of IRM is {ece:.3f} on these samples")
    assert headline.endswith(f"for the uncalibrated scores.{sentence}")
