"""A monitor whose calibrator has a windowed form: its regression estimates the accuracy and tells shifts apart."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftcal
from driftcal.decisions import CoverageCurve, choose_threshold
from driftcal.errors import ArtefactError, InputError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.serving.service import MonitorService
from driftcal.report.timeline import timeline_html


@pytest.fixture(scope="module")
def source(scenario):
    opened = scenario.windowed()
    p = opened.calibrator.predict_proba(scenario.level_logits[0])
    curve = CoverageCurve.of(p.max(axis=1), p.argmax(axis=1) == scenario.y)
    return scenario.windowed(choose_threshold(curve, coverage=0.8))


def with_shares(scenario, shares, n=500):
    """Clean samples with other class shares."""
    logits, y = scenario.sample(20 * n, seed=3)
    weights = np.array(shares)[y]
    chosen = np.random.default_rng(0).choice(len(y), n, p=weights / weights.sum())
    return logits[chosen], y[chosen]


def numbers(monitor):
    return json.dumps([[w.to_dict() for w in monitor.windows()], monitor.summary().to_dict()], sort_keys=True)


@pytest.mark.parametrize("noise", [1.0, 2.2])
def test_estimate_and_confidence_are_those_of_the_windowed_form(scenario, source, noise):
    logits, y = scenario.sample(500, noise)
    monitor = Monitor(source)
    monitor.update(logits)
    (window,) = monitor.windows()
    expected = source.windowed.estimate_accuracy(logits)
    assert window.estimator == "window-ts"
    assert window.accuracy == pytest.approx(expected.accuracy, abs=1e-6)
    assert window.accuracy_interval == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert window.accuracy_interval[0] <= (logits.argmax(axis=1) == y).mean() <= window.accuracy_interval[1]
    assert monitor.summary().accuracy == window.accuracy
    served = source.windowed.windowed(500).predict_proba(logits)
    assert window.windowed_confidence == pytest.approx(served.max(axis=1).mean(), abs=2e-3)  # interpolated
    per_sample = source.calibrator.predict_proba(logits).max(axis=1)
    assert window.confidence == pytest.approx(per_sample.mean(), abs=1e-9)
    assert window.overconfidence == window.confidence - window.accuracy


def test_other_estimators_can_be_chosen(scenario, source):
    logits, _ = scenario.sample(500, 2.2)
    monitor = Monitor(source, estimator="atc")
    monitor.update(logits)
    (window,) = monitor.windows()
    assert window.estimator == "atc"
    assert window.accuracy == window.estimates["atc"] != window.estimates["window-ts"]
    with pytest.raises(InputError, match='"window-ts" is not in it'):
        scenario.monitor(estimator="window-ts")


def test_a_changed_class_mix_is_not_an_input_shift(scenario, source):
    monitor = Monitor(source)
    for logits in (scenario.sample(500)[0], with_shares(scenario, (0.7, 0.2, 0.1))[0], scenario.sample(500, 2.2)[0]):
        monitor.update(logits)
    assert [window.state for window in monitor.windows()] == ["ok", "class mix changed", "inputs shifted"]


def test_a_window_unlike_all_simulated_shifts_is_never_ok(scenario, source):
    logits = np.abs(scenario.sample(500)[0]) * 40
    monitor = Monitor(source)
    monitor.update(logits)
    (window,) = monitor.windows()
    assert window.extrapolates
    assert window.state != "ok"
    assert "unlike all simulated shifts" in window.reason
    low, high = window.accuracy_interval
    assert low <= min(window.estimates.values()) <= max(window.estimates.values()) <= high


@pytest.mark.parametrize(("noise", "error"), [(1.0, 0.02), (2.2, 0.05)])
def test_accepted_predictions_and_their_accuracy(scenario, source, noise, error):
    logits, y = scenario.sample(1000, noise)
    monitor = Monitor(source, window_size=500)
    monitor.update(logits)
    accepted = source.calibrator.predict_proba(logits).max(axis=1) >= source.threshold.confidence
    correct = (logits.argmax(axis=1) == y)[accepted].mean()
    summary = monitor.summary()
    assert summary.accepted_share == accepted.mean()
    assert summary.accepted_accuracy == pytest.approx(correct, abs=error)
    assert monitor.windows()[0].accepted_share == accepted[:500].mean()
    assert f"accepted: {accepted.mean():.1%} of the predictions" in repr(summary)
    assert f"{accepted.mean():.1%} of the predictions" in timeline_html(monitor, title="m")
    text = MonitorService(monitor).prometheus_text()
    assert f"driftcal_accepted_share {accepted[500:].mean()}" in text
    assert "driftcal_accepted_accuracy" in text
    assert "driftcal_windowed_confidence" in text


def test_without_an_accepted_prediction_their_accuracy_is_not_known(scenario, source):
    monitor = Monitor(source)
    monitor.update(np.zeros((100, 3)))
    (window,) = monitor.windows()
    assert (window.accepted_share, window.accepted_accuracy) == (0, None)
    assert monitor.summary().accepted_accuracy is None


def test_parts_merge_and_files_continue_with_identical_numbers(scenario, source, tmp_path):
    logits, y = scenario.sample(900, 1.6)
    times = np.random.default_rng(4).integers(0, 30, size=900)
    whole, first, second = (Monitor(source, window_size=10) for _ in range(3))
    whole.update(logits, times=times, y=y)
    first.update(logits[:1], times=times[:1], y=y[:1])
    path = first.save(tmp_path / "first.safetensors")
    again = Monitor.load(path, source)
    assert numbers(again) == numbers(first)
    again.update(logits[1:500], times=times[1:500], y=y[1:500])
    second.update(logits[500:], times=times[500:], y=y[500:])
    assert numbers(again.merge(second)) == numbers(whole)
    with pytest.raises(ArtefactError, match="another one"):
        Monitor.load(path, source.calibrator, drift_reference=source.drift_reference)


def test_files_of_calibrated_models_hold_windowed_form_and_threshold(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    weights = rng.normal(size=(5, 3))
    y = (3 * x @ weights + rng.normal(size=(400, 3))).argmax(axis=1)
    model = driftcal.open_model(lambda batch: 3 * np.asarray(batch) @ weights, outputs="logits", name="linear")
    tuned = driftcal.tune(model, x, y, method="window-ts", n_levels=4)
    tuned = tuned.with_threshold(tuned.threshold(x, y, coverage=0.5))
    path = tuned.save(tmp_path / "cal.safetensors")
    found = []
    for source in (path, tuned, tuned.windowed_calibrator):
        monitor = Monitor(source)
        monitor.update(tuned.logits(x.astype(np.float32)))
        found.append(monitor.windows()[0])
    assert [window.estimator for window in found] == ["window-ts"] * 3
    assert found[0] == found[1]
    assert found[0].accepted_share == pytest.approx(0.5, abs=0.05)
    assert found[2].accuracy == found[0].accuracy  # a windowed calibrator alone has no drift reference
    assert (found[2].state, found[2].accepted_share) == ("cannot tell", None)


@settings(max_examples=30)
@given(st.data())
def test_a_hostile_file_is_refused_or_gives_finite_numbers(scenario, source, tmp_path_factory, data):
    monitor = Monitor(source)
    monitor.update(scenario.sample(60)[0])
    values = st.one_of(
        st.sampled_from([0, 1, -1, 60, 2**32, -(2**32), 60 * 2**32, 2**63 - 1]), st.integers(-(2**63), 2**63 - 1)
    )
    statistics, accepted = monitor.layout.window_statistics, monitor.layout.accepted
    for _ in range(data.draw(st.integers(1, 6))):
        monitor.sums[0][data.draw(st.integers(statistics.start, accepted.stop - 1))] = data.draw(values)
    path = monitor.save(tmp_path_factory.mktemp("hostile") / "m.safetensors")
    try:
        loaded = Monitor.load(path, source)
    except ArtefactError:
        return
    (window,) = loaded.windows()
    assert 0 <= window.accuracy_interval[0] <= window.accuracy <= window.accuracy_interval[1] <= 1
    assert 0 <= window.windowed_confidence <= 1
    assert window.accepted_accuracy is None or 0 <= window.accepted_accuracy <= 1
    assert loaded.summary().recommendation
