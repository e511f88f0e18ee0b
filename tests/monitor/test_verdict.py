"""The verdict says what happened and what to do; "Nothing to do." stands beside nothing that says otherwise."""

import numpy as np
import pytest

import driftcal
from driftcal.monitor.monitor import Monitor
from driftcal.report.timeline import timeline_html


@pytest.fixture(scope="module")
def source(scenario):
    return scenario.windowed()


def monitor_of(source, *batches, **settings):
    """A monitor that received these batches: logits, or logits and labels."""
    monitor = Monitor(source, **settings)
    for batch in batches:
        logits, y = batch if isinstance(batch, tuple) else (batch, None)
        monitor.update(logits, y=y)
    return monitor


def test_nothing_is_to_do_for_clean_windows_with_correct_labels(scenario, source):
    summary = monitor_of(source, scenario.sample(1500)).summary()
    assert (summary.state, summary.labels_disagree, summary.recommendation) == ("ok", False, "Nothing to do.")


def test_a_third_of_the_stream_out_of_distribution_is_in_the_verdict(scenario, source):
    clean, noisy = scenario.sample(500)[0], scenario.sample(500, 20.0)[0]
    summary = monitor_of(source, clean, noisy, clean).summary()
    assert summary.state == "ok"
    assert "1 of 3 windows were out of distribution: do not trust the predictions" in summary.recommendation


def test_an_under_confident_calibrator_is_in_the_verdict(scenario):
    under_confident = driftcal.make_calibrator("base").fit(scenario.level_logits[0], scenario.y)
    reference = scenario.reference_of(under_confident, [z / 9 for z in scenario.level_logits])
    monitor = Monitor(under_confident, drift_reference=reference)
    monitor.update(scenario.sample(1500)[0] / 9)
    summary = monitor.summary()
    assert summary.large_gaps == 3
    assert all(window.overconfidence < -0.3 for window in monitor.windows())
    assert "differs from the estimated accuracy by more than 0.05 in 3 of 3 windows (-0." in summary.recommendation


def test_labels_that_contradict_the_estimate_change_state_and_verdict(scenario, source):
    logits, y = scenario.sample(1000)
    monitor = monitor_of(source, (logits, (y + 1) % 3))
    summary = monitor.summary()
    assert [window.state for window in monitor.windows()] == ["labels disagree"] * 2
    assert "labels are as predicted" in monitor.windows()[0].reason
    assert summary.labels_disagree
    assert "Labels contradict the estimates: accuracy 0.0" in summary.recommendation
    assert "Nothing to do" not in summary.recommendation


def test_a_few_contradicting_labels_per_window_count_together(scenario, source):
    logits, y = scenario.sample(5000)
    labels = [int(label + 1) % 3 if i % 250 == 0 else None for i, label in enumerate(y)]
    monitor = monitor_of(source, (logits, labels))
    summary = monitor.summary()
    assert [window.state for window in monitor.windows()] == ["ok"] * 10  # two labels each
    assert summary.labels_disagree
    assert "on 20 labels" in summary.recommendation
    assert "newest: ok, but over all windows labels contradict the estimates" in repr(summary)
    assert "like the validation data, but over all windows labels contradict the estimates." in timeline_html(
        monitor, title="m"
    )


def test_rejected_calibration_is_not_beside_a_plain_ok(scenario, source):
    summary = monitor_of(source, scenario.sample(1500, 2.2), scenario.sample(500)[0]).summary()
    assert (summary.state, summary.labels_disagree) == ("ok", False)
    assert summary.calibration == "rejected"
    assert summary.recommendation.startswith("Recalibrate: labels show that the confidence is not calibrated.")
    assert "newest: ok, but over all windows labels reject the calibration" in repr(summary)


@pytest.mark.parametrize("kind", ["samples", "labels"])
def test_much_that_could_not_be_used_is_in_the_verdict(scenario, source, kind):
    logits, y = scenario.sample(500)
    if kind == "samples":
        summary = monitor_of(source, logits, np.full((50, 3), np.nan)).summary()
        assert "50 of 550 samples could not be used (50 not finite): check what sends them." in summary.recommendation
    else:
        labels = ["nobody" if i < 20 else int(label) for i, label in enumerate(y)]
        summary = monitor_of(source, (logits, labels)).summary()
        assert "20 of 500 labels could not be used (20 unknown label): check class names" in summary.recommendation


@pytest.mark.parametrize(
    ("noise", "advice"),
    [
        (2.2, "The inputs have shifted. Serve the windowed form"),
        (20.0, "The inputs are out of distribution. Do not trust"),
    ],
)
def test_the_newest_window_comes_first(scenario, source, noise, advice):
    summary = monitor_of(source, scenario.sample(500)[0], scenario.sample(500, noise)[0]).summary()
    assert summary.recommendation.startswith(advice)


def test_a_window_that_cannot_be_judged_says_why(scenario, source):
    few = monitor_of(source, scenario.sample(20)[0]).summary()
    assert few.recommendation == (
        "The newest window cannot be judged: 20 samples are too few: at least 50 are needed. Wait for more samples."
    )
    assert monitor_of(source).summary().recommendation == "No samples yet."
    without = Monitor(source.calibrator)
    without.update(scenario.sample(500)[0])
    assert "no drift reference: tune again with this version. Collect labels" in without.summary().recommendation
