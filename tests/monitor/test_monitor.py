"""Laws of the monitor: what it keeps adds exactly, what it says follows from the ladder, what it cannot use it counts."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import driftcal
from driftcal.calibrators.scaling.temperature import clean_temperature
from driftcal.drift.estimators import ESTIMATORS
from driftcal.drift.reference import DriftReference
from driftcal.errors import ArtefactError, InputError, UnknownName
from driftcal.monitor.monitor import Monitor


def numbers(monitor):
    return json.dumps([[w.to_dict() for w in monitor.windows()], monitor.summary().to_dict()], sort_keys=True)


def file_of(monitor, folder):
    return monitor.save(folder / "monitor.safetensors").read_bytes()


def test_states_follow_the_ladder(world):
    monitor = world.monitor(every=500)
    for noise in (1.0, 2.2, 20.0):
        monitor.update(world.sample(500, noise)[0])
    first, second, third = monitor.windows()
    assert (first.state, second.state, third.state) == ("ok", "drifting", "out of distribution")
    assert first.looks_like == "level 1 of 6 (clean)"
    assert second.looks_like in ("level 3 of 6", "level 4 of 6")
    assert first.accuracy > second.accuracy > third.accuracy
    assert monitor.summary().state == "out of distribution"
    assert monitor.summary().since == 2


@pytest.mark.parametrize("noise", [1.0, 1.6, 3.0])
def test_estimates_are_near_the_truth(world, noise):
    logits, y = world.sample(4000, noise, seed=5)
    monitor = world.monitor(every=4000)
    monitor.update(logits)
    (window,) = monitor.windows()
    truth = (logits.argmax(axis=1) == y).mean()
    assert abs(window.estimates["level-matching"] - truth) < 0.03
    assert window.interval[0] <= truth <= window.interval[1]
    assert window.overconfidence == pytest.approx(window.confidence - window.accuracy)
    assert sum(window.shares) == pytest.approx(1)


def test_label_free_numbers_are_those_of_their_definitions(world):
    logits, _ = world.sample(700, 2.2)
    monitor = world.monitor(every=700)
    monitor.update(logits)
    (window,) = monitor.windows()
    calibrated = world.calibrator.predict_proba(logits)
    assert window.confidence == pytest.approx(calibrated.max(axis=1).mean(), abs=1e-9)
    assert window.estimates["confidence"] == window.confidence
    assert window.low_confidence == (calibrated.max(axis=1) < 0.5).mean()
    np.testing.assert_array_equal(window.shares, np.bincount(calibrated.argmax(axis=1), minlength=3) / 700)
    p = np.exp(logits / world.drift_reference.temperature)
    p /= p.sum(axis=1, keepdims=True)
    certainty = 1 + (p * np.log(p)).sum(axis=1) / np.log(3)
    assert window.estimates["atc"] == (certainty >= world.drift_reference.threshold).mean()
    lost = world.drift_reference.means[0][1] - p.max(axis=1).mean()
    assert window.estimates["doc"] == pytest.approx(world.drift_reference.accuracies[0] - lost, abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_merged_monitors_equal_one_that_saw_everything(world, tmp_path_factory, data):
    n = data.draw(st.integers(2, 400))
    logits, y = world.sample(n, 1.6, seed=3)
    at = np.random.default_rng(4).integers(0, 40, size=n)
    owner = np.random.default_rng(data.draw(st.integers(0, 99))).integers(3, size=n)
    labels = [int(label) if i % 3 else None for i, label in enumerate(y)]
    keep = data.draw(st.sampled_from([2, 1000]))

    def seen(rows):
        monitor = world.monitor(every=10, keep=keep)
        for part in np.array_split(rows, data.draw(st.integers(1, 5))):
            monitor.update(logits[part], at=at[part], y=[labels[i] for i in part])
        return monitor

    whole = seen(np.arange(n))
    parts = [seen(np.flatnonzero(owner == k)) for k in range(3)]
    merged = parts[2].merge(parts[0].merge(parts[1]))
    folder = tmp_path_factory.mktemp("merged")
    assert file_of(merged, folder) == file_of(whole, folder)
    assert numbers(merged) == numbers(whole)


def test_a_killed_monitor_continues_with_identical_numbers(world, tmp_path):
    logits, y = world.sample(2000, 1.6)
    whole, first = world.monitor(every=300), world.monitor(every=300)
    ids = [f"row {i}" for i in range(2000)]
    whole.update(logits[:1000], ids=ids[:1000])
    first.update(logits[:1000], ids=ids[:1000])
    first.update([[np.nan] * 3])
    whole.update([[np.nan] * 3])
    path = first.save(tmp_path / "m.safetensors")
    del first
    again = Monitor.load(path, world.calibrator, drift_reference=world.drift_reference)
    for monitor in (whole, again):
        monitor.update(logits[1000:], ids=ids[1000:])
        monitor.label(ids[::2], y[::2].tolist())
    assert numbers(again) == numbers(whole)
    assert file_of(again, tmp_path) == file_of(whole, tmp_path)


def test_batches_do_not_matter(world):
    logits, y = world.sample(1100, 1.6)
    whole, single = world.monitor(every=250), world.monitor(every=250)
    whole.update(logits, y=y)
    for row, label in zip(logits, y, strict=True):
        single.update(row[None], y=[label])
    assert numbers(single) == numbers(whole)


def test_labels_by_id_equal_labels_at_once(world):
    logits, y = world.sample(600)
    at_once, late = world.monitor(every=200), world.monitor(every=200)
    at_once.update(logits, y=y)
    late.update(logits, ids=range(600))
    order = np.random.default_rng(0).permutation(600)
    assert late.label(order.tolist(), y[order].tolist()) == 600
    assert numbers(late) == numbers(at_once)
    right = (world.calibrator.predict_proba(logits).argmax(axis=1) == y).mean()
    assert late.summary().labelled["accuracy"] == pytest.approx(right)
    p = world.calibrator.predict_proba(logits)
    statistics = driftcal.metrics.Statistics.of(y, p, score_type="probabilities", n_bins=15)
    assert late.summary().labelled["ece"] == pytest.approx(statistics.ece, abs=1e-8)
    low, high = late.summary().labelled["ece_interval"]
    assert 0 <= low <= high <= 1
    late.label([0, "nobody"], [1, 1])
    assert late.rejected == {"label without a row": 2}


def test_bad_rows_are_counted_and_the_others_used(world):
    good, _ = world.sample(3)
    monitor = world.monitor()
    assert monitor.update(np.vstack([good, [[np.nan, 0, 0], [np.inf, 0, 0], [-np.inf] * 3]])) == 3
    assert monitor.update(np.zeros((4, 7))) == 0
    assert monitor.update([["a", "b", "c"]]) == 0
    assert monitor.update([[1.0, 2.0], [1.0]]) == 0
    assert monitor.update(None) == 0
    assert monitor.update(10**400) == 0
    assert monitor.update(good, y=[0, 7, [1]]) == 3
    assert monitor.update(np.zeros((0, 3))) == 0
    assert monitor.update([[5.0, -np.inf, 1.0]]) == 1  # a masked class is fine
    assert monitor.rows == 7
    assert monitor.rejected == {
        "not finite": 3, "wrong number of classes": 4, "not numbers": 5, "unknown label": 2,
    }  # fmt: skip
    timed = world.monitor()
    assert timed.update(good, at=[0.0, np.nan, 1e300]) == 1
    assert timed.rejected == {"bad time": 2}


def test_probabilities_are_declared_and_checked(world):
    logits, _ = world.sample(300)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    from_logits, from_p = world.monitor(), world.monitor(inputs="probabilities")
    from_logits.update(logits)
    assert from_p.update(np.vstack([p, logits[:1] + 10])) == 300
    assert from_p.rejected == {"not probabilities": 1}
    assert from_p.windows()[0].accuracy == pytest.approx(from_logits.windows()[0].accuracy, abs=1e-6)
    with pytest.raises(UnknownName, match="logitz"):
        world.monitor(inputs="logitz")


def test_binary_rows_may_be_one_number():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=500)
    ladder = [(2 * y - 1) * 2 + noise * rng.normal(size=500) for noise in (1, 3, 9)]
    calibrator = driftcal.TemperatureScaling().fit(np.concatenate(ladder), np.tile(y, 3))
    drift_reference = DriftReference.of(ladder, y, calibrator, temperature=clean_temperature(ladder[0], y))
    one, two = (Monitor(calibrator, drift_reference=drift_reference) for _ in range(2))
    one.update(ladder[0])
    two.update(np.stack([np.zeros(500), ladder[0]], axis=1))
    assert numbers(one) == numbers(two)
    assert one.rows == 500


def test_cannot_tell(world):
    monitor = world.monitor(every=1000)
    monitor.update(world.sample(20)[0])
    assert monitor.windows()[0].state == "cannot tell"
    assert "too few" in monitor.windows()[0].why
    bare = Monitor(world.calibrator)
    bare.update(world.sample(500)[0])
    assert bare.windows()[0].state == "cannot tell"
    assert bare.windows()[0].accuracy is None
    assert "tune again" in bare.windows()[0].why
    clean = Monitor(
        world.calibrator,
        drift_reference=DriftReference.of(
            world.ladder[:1], world.y, world.calibrator, temperature=clean_temperature(world.ladder[0], world.y)
        ),
    )
    clean.update(world.sample(500)[0])
    assert "clean rows only" in clean.windows()[0].why


def test_a_model_that_grows_surer_under_noise_is_read_the_other_way_round(world):
    ladder = [z * noise**4 for z, noise in zip(world.ladder, world.noises, strict=True)]
    drift_reference = DriftReference.of(
        ladder, world.y, world.calibrator, temperature=clean_temperature(ladder[0], world.y)
    )
    assert drift_reference.means[-1][2] > drift_reference.means[0][2]
    monitor = Monitor(world.calibrator, drift_reference=drift_reference, estimator="level-matching")
    monitor.update(ladder[0][:500])
    monitor.update(ladder[3][:500])
    clean, drifted = monitor.windows()
    assert (clean.state, drifted.state) == ("ok", "cannot tell")  # ATC and DoC see no loss
    assert drifted.looks_like == "level 4 of 6"
    assert drifted.accuracy == pytest.approx(drift_reference.accuracies[3], abs=0.05)


def test_contradicting_estimators_are_said(world):
    stubborn = driftcal.make_calibrator("base").fit(world.ladder[0] * 1e4, world.y)  # always sure of itself
    monitor = Monitor(
        stubborn,
        drift_reference=DriftReference.of(
            [z * 1e4 for z in world.ladder],
            world.y,
            stubborn,
            temperature=clean_temperature(world.ladder[0] * 1e4, world.y),
        ),
    )
    monitor.update(world.sample(500, 20.0)[0] * 1e4)
    (window,) = monitor.windows()
    assert window.state == "cannot tell"
    assert "contradict" in window.why


def test_memory_is_bounded(world):
    monitor = world.monitor(every=1, keep=10, remember=5)
    logits, _ = world.sample(200)
    monitor.update(logits, ids=range(200))
    assert len(monitor.sums) == 10
    assert list(monitor.waiting) == ["195", "196", "197", "198", "199"]
    assert monitor.rows == 200
    assert [w.window for w in monitor.windows()] == list(range(190, 200))


def test_only_likes_merge(world):
    with pytest.raises(InputError, match="same settings"):
        world.monitor(every=5).merge(world.monitor(every=6))
    with pytest.raises(InputError, match="false_alarm"):
        world.monitor(false_alarm=0)


def test_a_foreign_or_damaged_file_is_refused(world, tmp_path):
    monitor = world.monitor()
    monitor.update(world.sample(100)[0])
    path = monitor.save(tmp_path / "m.safetensors")
    other = driftcal.TemperatureScaling().fit(world.ladder[0], world.y)
    with pytest.raises(ArtefactError, match="another one"):
        Monitor.load(path, other, drift_reference=world.drift_reference)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArtefactError, match="digest"):
        Monitor.load(path, world.calibrator, drift_reference=world.drift_reference)
    path.write_bytes(bytes(data[:-20]))
    with pytest.raises(ArtefactError, match="intact"):
        Monitor.load(path, world.calibrator, drift_reference=world.drift_reference)


def test_profile_survives_json_and_refuses_nonsense(world):
    plain = json.loads(json.dumps(world.drift_reference.to_dict()))
    assert DriftReference.from_dict(plain) == world.drift_reference
    for change in ({"means": [[0, 0, 0, 0]]}, {"estimator": "oracle"}, {"standard_deviation": -1}, {"nonsense": 1}):
        with pytest.raises(ArtefactError, match="drift reference"):
            DriftReference.from_dict({**plain, **change})
    assert set(world.drift_reference.errors) == set(ESTIMATORS)
    sound = {name: found for name, found in world.drift_reference.errors.items() if found["clean"] <= 0.02}
    assert "confidence" not in sound  # tuned on the whole ladder, it is too modest about clean rows
    worst = {name: max(found.values()) for name, found in sound.items()}
    assert worst[world.drift_reference.estimator] == min(worst.values())


def test_a_tuned_model_carries_its_profile(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 5))
    weights = rng.normal(size=(5, 3))
    y = (3 * x @ weights + rng.normal(size=(400, 3))).argmax(axis=1)
    model = driftcal.open_model(lambda batch: 3 * np.asarray(batch) @ weights, outputs="logits", name="linear")
    tuned = driftcal.tune(model, x, y, method="ts", levels=4)
    path = tuned.save(tmp_path / "cal.safetensors")
    for source in (path, tuned):
        monitor = Monitor(source)
        monitor.update(tuned.logits(x.astype(np.float32)))
        assert monitor.windows()[0].state == "ok"
    assert driftcal.CalibratedModel.load(path, model).drift_reference == tuned.drift_reference


@pytest.mark.parametrize(("name", "advice"), [("ts", "driftcal recalibrate takes them"), ("ladder-ts", "static map")])
def test_advice_after_broken_calibration_is_one_that_can_be_followed(world, name, advice):
    by_level = np.repeat(np.arange(len(world.noises)), len(world.y))
    given = {"levels": by_level} if name == "ladder-ts" else {}
    calibrator = driftcal.make_calibrator(name).fit(
        np.concatenate(world.ladder), np.tile(world.y, len(world.noises)), **given
    )
    monitor = driftcal.Monitor(calibrator, drift_reference=world.drift_reference)
    logits, y = world.sample(2000)
    monitor.update(logits, y=(y + 1) % 3)
    assert advice in monitor.summary().recommendation
