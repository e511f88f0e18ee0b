"""Laws of the monitor: its sums add exactly, files continue with identical numbers, memory is bounded."""

import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftcal
from driftcal.errors import ArtefactError, InputError
from driftcal.monitor.monitor import Monitor


def numbers(monitor):
    return json.dumps([[w.to_dict() for w in monitor.windows()], monitor.summary().to_dict()], sort_keys=True)


def file_bytes(monitor, folder):
    return monitor.save(folder / "monitor.safetensors").read_bytes()


@settings(max_examples=20)
@given(st.data())
def test_merged_monitors_equal_one_that_received_all_samples(scenario, tmp_path_factory, data):
    n = data.draw(st.integers(2, 400))
    logits, y = scenario.sample(n, 1.6, seed=3)
    times = np.random.default_rng(4).integers(0, 40, size=n)
    part_of_sample = np.random.default_rng(data.draw(st.integers(0, 99))).integers(3, size=n)
    labels = [int(label) if i % 3 else None for i, label in enumerate(y)]
    max_windows = data.draw(st.sampled_from([2, 1000]))

    def monitor_of(samples):
        monitor = scenario.monitor(window_size=10, max_windows=max_windows)
        for part in np.array_split(samples, data.draw(st.integers(1, 5))):
            monitor.update(logits[part], times=times[part], y=[labels[i] for i in part])
        return monitor

    single = monitor_of(np.arange(n))
    parts = [monitor_of(np.flatnonzero(part_of_sample == k)) for k in range(3)]
    merged = parts[2].merge(parts[0].merge(parts[1]))
    folder = tmp_path_factory.mktemp("merged")
    assert file_bytes(merged, folder) == file_bytes(single, folder)
    assert numbers(merged) == numbers(single)


def test_a_killed_monitor_continues_with_identical_numbers(scenario, tmp_path):
    logits, y = scenario.sample(2000, 1.6)
    uninterrupted, first = scenario.monitor(window_size=300), scenario.monitor(window_size=300)
    ids = [f"sample {i}" for i in range(2000)]
    uninterrupted.update(logits[:1000], ids=ids[:1000])
    first.update(logits[:1000], ids=ids[:1000])
    first.update([[np.nan] * 3])
    uninterrupted.update([[np.nan] * 3])
    path = first.save(tmp_path / "m.safetensors")
    del first
    again = Monitor.load(path, scenario.calibrator, drift_reference=scenario.drift_reference)
    for monitor in (uninterrupted, again):
        monitor.update(logits[1000:], ids=ids[1000:])
        monitor.add_labels(ids[::2], y[::2].tolist())
    assert numbers(again) == numbers(uninterrupted)
    assert file_bytes(again, tmp_path) == file_bytes(uninterrupted, tmp_path)


def test_the_size_of_batches_does_not_matter(scenario):
    logits, y = scenario.sample(1100, 1.6)
    at_once, one_by_one = scenario.monitor(window_size=250), scenario.monitor(window_size=250)
    at_once.update(logits, y=y)
    for sample, label in zip(logits, y, strict=True):
        one_by_one.update(sample[None], y=[label])
    assert numbers(one_by_one) == numbers(at_once)


def test_labels_by_id_equal_labels_at_once(scenario):
    logits, y = scenario.sample(600)
    at_once, late = scenario.monitor(window_size=200), scenario.monitor(window_size=200)
    at_once.update(logits, y=y)
    late.update(logits, ids=range(600))
    order = np.random.default_rng(0).permutation(600)
    assert late.add_labels(order.tolist(), y[order].tolist()) == 600
    assert numbers(late) == numbers(at_once)
    accuracy = (scenario.calibrator.predict_proba(logits).argmax(axis=1) == y).mean()
    assert late.summary().labelled.accuracy == pytest.approx(accuracy)
    p = scenario.calibrator.predict_proba(logits)
    statistics = driftcal.metrics.Statistics.of(y, p, score_type="probabilities", n_bins=15)
    assert late.summary().labelled.ece == pytest.approx(statistics.ece, abs=1e-8)
    low, high = late.summary().labelled.ece_interval
    assert 0 <= low <= high <= 1
    late.add_labels([0, "nobody"], [1, 1])
    assert late.rejected == {"label without a sample": 2}


def test_memory_is_bounded(scenario):
    monitor = scenario.monitor(window_size=1, max_windows=10, max_pending=5)
    logits, _ = scenario.sample(200)
    monitor.update(logits, ids=range(200))
    assert len(monitor.sums) == 10
    assert list(monitor.pending) == ["195", "196", "197", "198", "199"]
    assert monitor.n_samples == 200
    assert [w.window for w in monitor.windows()] == list(range(190, 200))


def test_dropping_old_pending_samples_takes_constant_time(scenario):
    monitor = scenario.monitor(max_pending=100_000)
    monitor.pending.update((f"old {i}", (0, 0, 0)) for i in range(200_000))
    monitor.pending.drop_oldest(100_000)
    assert next(iter(monitor.pending)) == "old 100000"
    start = time.perf_counter()
    monitor.update(np.zeros((2000, 3)), ids=range(2000))
    assert time.perf_counter() - start < 1  # copying the names took ten
    assert len(monitor.pending) == 100_000


def test_monitors_that_count_samples_do_not_merge(scenario):
    logits, _ = scenario.sample(300)
    first, second = scenario.monitor(window_size=100), scenario.monitor(window_size=100)
    first.update(logits[:150])
    assert first.merge(second).n_samples == 150  # nothing to mix
    second.update(logits[150:])
    with pytest.raises(InputError, match=r"each counts its own.*Pass `times`"):
        first.merge(second)


def test_only_monitors_with_the_same_settings_merge(scenario):
    with pytest.raises(InputError, match="same settings"):
        scenario.monitor(window_size=5).merge(scenario.monitor(window_size=6))


def test_a_foreign_or_damaged_file_is_refused(scenario, tmp_path):
    monitor = scenario.monitor()
    monitor.update(scenario.sample(100)[0])
    path = monitor.save(tmp_path / "m.safetensors")
    other = driftcal.TemperatureScaling().fit(scenario.level_logits[0], scenario.y)
    with pytest.raises(ArtefactError, match="another one"):
        Monitor.load(path, other, drift_reference=scenario.drift_reference)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtefactError, match="digest"):
        Monitor.load(path, scenario.calibrator, drift_reference=scenario.drift_reference)
    path.write_bytes(bytes(data[:-20]))
    with pytest.raises(ArtefactError, match="intact"):
        Monitor.load(path, scenario.calibrator, drift_reference=scenario.drift_reference)


def test_a_calibrated_model_holds_its_drift_reference(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    weights = rng.normal(size=(5, 3))
    y = (3 * x @ weights + rng.normal(size=(400, 3))).argmax(axis=1)
    model = driftcal.open_model(lambda batch: 3 * np.asarray(batch) @ weights, outputs="logits", name="linear")
    tuned = driftcal.tune(model, x, y, method="ts", n_levels=4)
    path = tuned.save(tmp_path / "cal.safetensors")
    for source in (path, tuned):
        monitor = Monitor(source)
        monitor.update(tuned.logits(x.astype(np.float32)))
        assert monitor.windows()[0].state == "ok"
    assert driftcal.CalibratedModel.load(path, model).drift_reference == tuned.drift_reference
