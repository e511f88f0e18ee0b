"""Labels in any form: by name, by number, late, missing or unknown."""

import numpy as np
import pytest

import driftcal
from driftcal.errors import InputError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.serving.service import MonitorService


@pytest.fixture
def named(scenario, tmp_path):
    """A file as `tune` writes it: classes are columns, their names are in the metadata."""

    def make(*names):
        path = tmp_path / "cal.safetensors"
        scenario.calibrator.save(
            path, metadata={"drift_reference": scenario.drift_reference.to_dict(), "class_names": list(names)}
        )
        return path

    return make


def accuracy(scenario, source, labels):
    monitor = source if isinstance(source, Monitor) else Monitor(source)
    logits, _ = scenario.sample(200, 1.6)
    monitor.update(logits, y=labels)
    return monitor.summary().labelled.accuracy, dict(monitor.rejected)


@pytest.mark.parametrize(
    "names",
    [
        ("cat", "dog", "eel"),
        ("2", "0", "1"),  # names that could be columns, in another order
        ("1", "2", "3"),
        ("10", "20", "30"),
    ],
)
def test_labels_are_matched_by_name(scenario, named, names):
    logits, y = scenario.sample(200, 1.6)
    expected = (scenario.calibrator.predict_proba(logits).argmax(axis=1) == y).mean()
    by_name = [names[label] for label in y]
    assert accuracy(scenario, named(*names), by_name) == (pytest.approx(expected), {})
    if names[0].isdigit():
        for kind in (int, float, lambda name: f"{name}.0"):  # pandas writes whole numbers like this if some are missing
            assert accuracy(scenario, named(*names), [kind(name) for name in by_name]) == (pytest.approx(expected), {})
    else:
        assert accuracy(scenario, named(*names), y) == (
            pytest.approx(expected),
            {},
        )  # a number can only be a column here


def test_a_number_that_is_no_name_is_unknown(scenario, named):
    monitor = Monitor(named("1", "2", "3"))
    monitor.update(scenario.sample(3)[0], y=[0, "0", 4])
    assert monitor.rejected == {"unknown label": 3}


def test_names_may_come_from_the_calibrator(scenario):
    names = np.array(["cat", "dog", "eel"])
    calibrator = driftcal.make_calibrator("ts", classes=names.tolist()).fit(scenario.level_logits[0], names[scenario.y])
    logits, y = scenario.sample(200, 1.6)
    expected = (logits.argmax(axis=1) == y).mean()
    assert accuracy(scenario, calibrator, names[y])[0] == pytest.approx(expected)
    assert Monitor(calibrator).class_names == ("cat", "dog", "eel")


def test_names_may_come_from_a_calibrated_model(tmp_path):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(300, 5)), rng.normal(size=(5, 3))
    names = np.array(["ant", "bee", "cat"])
    y = names[(3 * x @ weights + rng.normal(size=(300, 3))).argmax(axis=1)]
    model = driftcal.open_model(
        lambda batch: 3 * np.asarray(batch) @ weights, outputs="logits", name="linear", class_names=names
    )
    tuned = driftcal.tune(model, x, y, method="ts", n_levels=3)
    for source in (tuned, tuned.save(tmp_path / "cal.safetensors")):
        monitor = Monitor(source)
        monitor.update(tuned.logits(x.astype(np.float32)), y=y)
        assert monitor.summary().labelled.accuracy > 0.7
        assert not monitor.rejected


def test_names_are_shown_and_do_not_change_the_identity_of_a_state(scenario, named, tmp_path):
    plain = scenario.monitor()
    plain.update(scenario.sample(100)[0], times=0)
    state = plain.save(tmp_path / "state.safetensors")
    monitor = Monitor.load(state, named("cat", "dog", "eel"))
    assert monitor.n_samples == 100
    assert 'driftcal_predicted_share{class="dog"}' in MonitorService(monitor).prometheus_text()
    assert monitor.merge(plain).class_names == ("cat", "dog", "eel")
    assert Monitor.load(
        state, scenario.calibrator, drift_reference=scenario.drift_reference, class_names="abc"
    ).class_names == tuple("abc")
    with pytest.raises(InputError, match="class_names must name the calibrator's 3"):
        scenario.monitor(class_names=["cat", "dog"])


def test_a_sample_without_label_stays_pending(scenario):
    logits, y = scenario.sample(4)
    monitor = scenario.monitor()
    monitor.update(logits, y=np.array([y[0], np.nan, y[2], np.nan]), ids="abcd")
    assert monitor.summary().labelled.n_samples == 2
    assert list(monitor.pending) == ["b", "d"]
    assert monitor.add_labels(["b", "d"], [float("nan"), int(y[3])]) == 1
    assert list(monitor.pending) == ["b"]
    assert not monitor.rejected


def test_a_sample_with_an_unknown_label_stays_pending(scenario):
    logits, y = scenario.sample(2)
    monitor = scenario.monitor()
    monitor.update(logits, y=["zebra", None], ids=["a", "b"])
    assert monitor.add_labels(["a", "b"], ["zebra", 17]) == 0
    assert monitor.add_labels(["a", "b"], y.tolist()) == 2
    assert monitor.add_labels(["a"], [0]) == 0
    assert monitor.rejected == {"unknown label": 3, "label without a sample": 1}


def test_calibrators_of_probabilities_are_refused(scenario):
    logits, y = scenario.sample(200)
    p = scenario.calibrator.predict_proba(logits)
    calibrator = driftcal.TemperatureScaling().fit(p, y, score_type="probabilities")
    with pytest.raises(InputError, match=r"a monitored calibrator takes logits.*driftcal\.from_probabilities"):
        Monitor(calibrator)
    Monitor(driftcal.TemperatureScaling().fit(driftcal.from_probabilities(p), y), score_type="probabilities").update(p)


def test_calibrators_with_layer_features_are_refused():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    logits, features = 2 * np.eye(3)[y] + rng.normal(size=(200, 3)), rng.normal(size=(200, 4))
    calibrator = driftcal.make_calibrator("dac").fit(
        logits, y, features={"last": features}, reference={"last": rng.normal(size=(100, 4))}
    )
    with pytest.raises(InputError, match="also needs layer features"):
        Monitor(calibrator)


def test_a_confidence_on_the_edge_of_a_bin_is_in_the_bin_below_as_in_evaluate():
    confidence = np.repeat([0.6, 0.65, 0.8, 0.85], 100)  # 0.6 and 0.8 are edges of 15 bins
    logits = np.log(np.stack([1 - confidence, confidence], axis=1))
    y = np.repeat([1, 0, 1, 0], 100)
    calibrator = driftcal.make_calibrator("base").fit(logits, y)
    monitor = Monitor(calibrator, window_size=400)
    monitor.update(logits, y=y)
    expected = driftcal.metrics.expected_calibration_error(y, calibrator.predict_proba(logits).round(12))
    assert monitor.summary().labelled.ece == pytest.approx(expected, abs=1e-7)
