"""The summary of all windows: its recommendation depends on the worst state, its text is short."""

import numpy as np
import pytest

import driftcal
from driftcal.monitor.monitor import Monitor


@pytest.fixture(scope="module")
def calibrated(scenario):
    """A calibrator tuned on clean samples: no calibration gap on clean windows."""
    calibrator = driftcal.TemperatureScaling().fit(scenario.level_logits[0], scenario.y)
    reference = scenario.reference_of(calibrator, scenario.level_logits)
    return lambda **settings: Monitor(calibrator, drift_reference=reference, **settings)


def test_nothing_is_to_do_if_every_window_is_ok(scenario, calibrated):
    monitor = calibrated(window_size=500)
    monitor.update(scenario.sample(1500)[0])
    summary = monitor.summary()
    assert (summary.state, summary.worst_state, summary.large_gaps) == ("ok", "ok", 0)
    assert summary.recommendation == "Nothing to do."


@pytest.mark.parametrize(
    ("noise", "state", "advice"),
    [(20.0, "out of distribution", "do not trust the predictions"), (2.2, "inputs shifted", "collect labels for them")],
)
def test_earlier_bad_windows_are_in_the_recommendation(scenario, calibrated, noise, state, advice):
    monitor = calibrated(window_size=500)
    for part in (1.0, noise, 1.0):
        monitor.update(scenario.sample(500, part)[0])
    summary = monitor.summary()
    assert (summary.state, summary.worst_state) == ("ok", state)
    assert f"1 of 3 windows were {state.removeprefix('inputs ')}" in summary.recommendation
    assert advice in summary.recommendation


def test_a_large_calibration_gap_in_every_window_is_in_the_recommendation(scenario):
    under_confident = driftcal.TemperatureScaling().fit(scenario.level_logits[0] * 3, scenario.y)
    reference = scenario.reference_of(under_confident, scenario.level_logits)
    monitor = Monitor(under_confident, drift_reference=reference, window_size=500)
    monitor.update(scenario.sample(1500)[0])
    summary = monitor.summary()
    assert (summary.worst_state, summary.large_gaps) == ("ok", 3)
    assert all(window.overconfidence < -0.05 for window in monitor.windows())
    assert "differs from the estimated accuracy by more than 0.05 in 3 of 3 windows" in summary.recommendation


def test_a_window_that_has_just_begun_does_not_hide_the_state(scenario):
    monitor = scenario.monitor(window_size=500)
    monitor.update(scenario.sample(1000, 20.0)[0])
    before = monitor.summary()
    monitor.update(scenario.sample(7)[0])
    summary = monitor.summary()
    assert (summary.state, summary.newest, summary.since) == ("out of distribution", 1, 0)
    assert (before.state, before.since) == (summary.state, summary.since)
    assert summary.recommendation == before.recommendation
    few = scenario.monitor()
    few.update(scenario.sample(7)[0])
    assert (few.summary().state, few.summary().newest) == ("cannot tell", 0)


@pytest.mark.parametrize(
    ("name", "advice"), [("ts", "Pass them to driftcal recalibrate"), ("level-ts", "Serve its windowed form")]
)
def test_the_recommendation_after_rejected_calibration_fits_the_calibrator(scenario, name, advice):
    levels = np.repeat(np.arange(len(scenario.noises)), len(scenario.y))
    options = {"levels": levels} if name == "level-ts" else {}
    calibrator = driftcal.make_calibrator(name).fit(
        np.concatenate(scenario.level_logits), np.tile(scenario.y, len(scenario.noises)), **options
    )
    monitor = driftcal.Monitor(calibrator, drift_reference=scenario.drift_reference)
    logits, y = scenario.sample(2000)
    monitor.update(logits, y=(y + 1) % 3)
    assert monitor.summary().calibration == "rejected"
    assert advice in monitor.summary().recommendation


def test_monitor_and_summary_are_short_as_text(scenario):
    monitor = scenario.monitor(window_size=100)
    assert len(repr(monitor).splitlines()) < 10
    for i, noise in enumerate((1.0, 2.2, 20.0)):
        logits, y = scenario.sample(2000, noise, seed=i)
        monitor.update(logits, y=y)
    monitor.update([[float("nan")] * 3])
    monitor.update([["a", "b", "c"]])
    for text in (repr(monitor), repr(monitor.summary())):
        assert len(text.splitlines()) < 10
        assert "6,000 samples in 60 windows" in text
        assert "1 not finite" in text
        assert monitor.summary().recommendation in text
    assert repr(monitor).startswith("Monitor(")
