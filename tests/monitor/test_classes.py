"""Labels as people write them: by name, by number, late, missing or wrong."""

import numpy as np
import pytest

import driftcal
from driftcal.errors import InputError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.watch import Watch


@pytest.fixture
def named(world, tmp_path):
    """A file as `tune` writes it: classes are columns, names are in the notes."""

    def make(*names):
        path = tmp_path / "cal.safetensors"
        world.calibrator.save(path, notes={"profile": world.drift_reference.to_dict(), "class_names": list(names)})
        return path

    return make


def accuracy(world, source, labels):
    monitor = source if isinstance(source, Monitor) else Monitor(source)
    logits, _ = world.sample(200, 1.6)
    monitor.update(logits, y=labels)
    return monitor.summary().labelled["accuracy"], dict(monitor.rejected)


@pytest.mark.parametrize(
    "names",
    [
        ("cat", "dog", "eel"),
        ("2", "0", "1"),  # names that look like columns, in another order
        ("1", "2", "3"),
        ("10", "20", "30"),
    ],
)
def test_labels_are_known_by_name(world, named, names):
    logits, y = world.sample(200, 1.6)
    right = (world.calibrator.predict_proba(logits).argmax(axis=1) == y).mean()
    by_name = [names[label] for label in y]
    assert accuracy(world, named(*names), by_name) == (pytest.approx(right), {})
    if names[0].isdigit():
        for kind in (int, float, lambda name: f"{name}.0"):  # pandas writes whole numbers so where some are missing
            assert accuracy(world, named(*names), [kind(name) for name in by_name]) == (pytest.approx(right), {})
    else:
        assert accuracy(world, named(*names), y) == (pytest.approx(right), {})  # a number can only be a column here


def test_numbers_that_are_no_names_are_not_guessed(world, named):
    monitor = Monitor(named("1", "2", "3"))
    monitor.update(world.sample(3)[0], y=[0, "0", 4])
    assert monitor.rejected == {"unknown label": 3}


def test_a_calibrator_that_knows_names_itself(world):
    names = np.array(["cat", "dog", "eel"])
    calibrator = driftcal.make_calibrator("ts", classes=names.tolist()).fit(world.ladder[0], names[world.y])
    logits, y = world.sample(200, 1.6)
    right = (logits.argmax(axis=1) == y).mean()
    assert accuracy(world, calibrator, names[y])[0] == pytest.approx(right)
    assert Monitor(calibrator).class_names == ("cat", "dog", "eel")


def test_a_tuned_model_brings_its_names(tmp_path):
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=(300, 5)), rng.normal(size=(5, 3))
    names = np.array(["ant", "bee", "cat"])
    y = names[(3 * x @ weights + rng.normal(size=(300, 3))).argmax(axis=1)]
    model = driftcal.open_model(lambda batch: 3 * np.asarray(batch) @ weights, outputs="logits", name="linear")
    tuned = driftcal.tune(model, x, y, method="ts", levels=3, class_names=names.tolist())
    for source in (tuned, tuned.save(tmp_path / "cal.safetensors")):
        monitor = Monitor(source)
        monitor.update(tuned.logits(x.astype(np.float32)), y=y)
        assert monitor.summary().labelled["accuracy"] > 0.7
        assert not monitor.rejected


def test_names_are_shown_kept_and_do_not_change_whose_state_it_is(world, named, tmp_path):
    plain = world.monitor()
    plain.update(world.sample(100)[0])
    state = plain.save(tmp_path / "state.safetensors")
    monitor = Monitor.load(state, named("cat", "dog", "eel"))
    assert monitor.rows == 100
    assert 'driftcal_predicted_share{class="dog"}' in Watch(monitor).figures()
    assert monitor.merge(plain).class_names == ("cat", "dog", "eel")
    assert Monitor.load(
        state, world.calibrator, drift_reference=world.drift_reference, class_names="abc"
    ).class_names == tuple("abc")
    with pytest.raises(InputError, match="class_names must name the calibrator's 3"):
        world.monitor(class_names=["cat", "dog"])


def test_a_missing_label_waits(world):
    logits, y = world.sample(4)
    monitor = world.monitor()
    monitor.update(logits, y=np.array([y[0], np.nan, y[2], np.nan]), ids="abcd")
    assert monitor.summary().labelled["rows"] == 2
    assert list(monitor.waiting) == ["b", "d"]
    assert monitor.label(["b", "d"], [float("nan"), int(y[3])]) == 1
    assert list(monitor.waiting) == ["b"]
    assert not monitor.rejected


def test_an_unknown_label_does_not_use_up_the_row(world):
    logits, y = world.sample(2)
    monitor = world.monitor()
    monitor.update(logits, y=["zebra", None], ids=["a", "b"])
    assert monitor.label(["a", "b"], ["zebra", 17]) == 0
    assert monitor.label(["a", "b"], y.tolist()) == 2
    assert monitor.label(["a"], [0]) == 0
    assert monitor.rejected == {"unknown label": 3, "label without a row": 1}


def test_calibrators_that_look_at_features_are_refused():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=200)
    logits, features = 2 * np.eye(3)[y] + rng.normal(size=(200, 3)), rng.normal(size=(200, 4))
    calibrator = driftcal.make_calibrator("dac").fit(
        logits, y, features={"last": features}, reference={"last": rng.normal(size=(100, 4))}
    )
    with pytest.raises(InputError, match="looks at the model's features"):
        Monitor(calibrator)
