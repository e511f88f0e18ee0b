"""Recalibration: new labels are weighted against the old calibrator, and both are compared on held-out samples."""

import numpy as np
import pytest

import driftcal
from driftcal.calibrators.serialization import load_file
from driftcal.errors import InputError, LabelsError, LogitsError, NotFittedError, WouldBeWorse
from driftcal.pipeline.recalibrating import blend
from driftcal.pipeline.recalibrating import recalibrate as module
from driftcal.pipeline.recalibrating.recalibrate import Recalibration, recalibrate
from driftcal.pipeline.recalibrating.recalibrate_file import recalibrate_file


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(module, "N_RESAMPLES", 100)


METHODS = ["ts", "ets", "ts-ir", "ir", "irm", "ps", "hb", "pbmc"]


def samples(n, n_classes, temperature, seed):
    """Logits that are overconfident by `temperature`, and their labels."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, n_classes)).astype(np.float32)
    return logits, np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)


def fit(name, n_classes=3, temperature=1.5, **params):
    return driftcal.make_calibrator(name, **params).fit(*samples(1_500, n_classes, temperature, 1))


@pytest.mark.parametrize("name", METHODS)
def test_weight_0_is_the_old_map(name):
    old, (logits, y) = fit(name), samples(200, 3, 3, 2)
    result = recalibrate(old, logits, y, weight=0)
    np.testing.assert_array_equal(result.calibrator.predict_proba(logits), old.predict_proba(logits))
    assert result.worse == ()
    assert result.before.brier == pytest.approx(result.after.brier, abs=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_weight_1_is_a_fit_on_the_new_samples(name):
    logits, y = samples(300, 3, 3, 2)
    result = recalibrate(fit(name), logits, y, weight=1)
    alone = driftcal.make_calibrator(name).fit(logits, y)
    np.testing.assert_allclose(result.calibrator.predict_proba(logits), alone.predict_proba(logits), atol=1e-6)


@pytest.mark.parametrize("name", ["ts", "irm", "ps"])
def test_old_samples_with_their_share_of_the_weight_are_pooled_with_new_ones(name):
    old, new = samples(600, 3, 1.5, 1), samples(200, 3, 3, 2)
    result = recalibrate(driftcal.make_calibrator(name).fit(*old), *new, weight=0.25, old=old)
    pooled = driftcal.make_calibrator(name).fit(*(np.concatenate(pair) for pair in zip(old, new, strict=True)))
    np.testing.assert_allclose(result.calibrator.predict_proba(new[0]), pooled.predict_proba(new[0]), atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("name", ["ts", "irm", "ets"])
def test_labels_of_shifted_data_improve_other_shifted_samples(name, n_classes):
    old, other = fit(name, n_classes), samples(3_000, n_classes, 3, 3)
    result = recalibrate(old, *samples(600, n_classes, 3, 2))
    assert result.worse == ()
    assert result.after.ece < result.before.ece
    assert result.before.intervals["ece"].low < result.before.ece < result.before.intervals["ece"].high
    before, after = (
        driftcal.metrics.brier_score(other[1], calibrator.predict_proba(other[0]))
        for calibrator in (old, result.calibrator)
    )
    assert after < before


def test_a_larger_weight_moves_further():
    old, new = fit("ts"), samples(400, 3, 3, 2)
    temperatures = [recalibrate(old, *new, weight=w).calibrator.temperature_ for w in (0.001, 0.25, 0.5, 1)]
    assert temperatures == sorted(temperatures)
    assert temperatures[0] == pytest.approx(old.temperature_, rel=5e-3), "almost no weight, almost the old map"


def test_the_old_curve_stays_where_there_are_no_new_samples():
    old = fit("irm")
    logits, y = samples(2_000, 3, 3, 2)
    confident = logits.max(axis=1) - np.median(logits, axis=1) > 3
    refitted = recalibrate(old, logits[confident], y[confident], weight=0.5).calibrator
    alone = recalibrate(old, logits[confident], y[confident], weight=1).calibrator
    unconfident = 0.2 * samples(200, 3, 1, 4)[0]
    assert np.abs(refitted.predict_proba(unconfident) - old.predict_proba(unconfident)).max() < 0.12
    assert np.abs(alone.predict_proba(unconfident) - old.predict_proba(unconfident)).max() > 0.2


def test_auto_gives_new_samples_more_weight_if_the_data_changed():
    assert recalibrate(fit("ts"), *samples(500, 3, 4, 2), weight="auto").weight >= 0.75
    unchanged = recalibrate(fit("hb", 10), *samples(200, 10, 1.5, 2), weight="auto")
    assert unchanged.weight <= 0.5


@pytest.mark.parametrize("name", ["ts", "irm", "hb"])
def test_a_worse_calibrator_is_refused_and_nothing_is_written(name, tmp_path):
    good, new = fit(name, 10, 3), samples(400, 10, 3, 2)
    path = good.save(tmp_path / "cal.safetensors")
    before = path.read_bytes()
    misleading = samples(400, 10, 0.5, 2)  # labels of a far more accurate model
    with pytest.raises(WouldBeWorse, match=r"Brier score rises from .* Nothing was written"):
        recalibrate_file(path, *new, old=misleading, weight=0.05)
    assert [item.name for item in tmp_path.iterdir()] == ["cal.safetensors"]
    assert path.read_bytes() == before
    result = recalibrate(path, *new, old=misleading, weight=0.05)
    with pytest.raises(WouldBeWorse):
        result.save(tmp_path / "worse.safetensors")
    assert len(list(tmp_path.iterdir())) == 1


def test_calibrators_are_compared_on_samples_that_were_not_fitted():
    """200 bins per class overfit: on the tuning samples they are better than the old map, on held-out samples worse."""
    old, (logits, y) = fit("hb", 10, 3), samples(300, 10, 3, 2)
    result = recalibrate(old.__class__(n_bins=200).fit(*samples(3_000, 10, 3, 1)), logits, y, weight=1)
    tuning_score = driftcal.metrics.brier_score(y, result.calibrator.predict_proba(logits))
    assert tuning_score < result.before.brier < result.after.brier
    assert result.worse


def test_the_old_file_is_kept_and_no_file_is_replaced(tmp_path):
    path = fit("ts").save(tmp_path / "cal.safetensors", metadata={"method": "ts", "model": None})
    old, new = path.read_bytes(), samples(200, 3, 3, 2)
    written = recalibrate_file(path, *new)
    second = written.path
    assert (second.name, written.old_path) == ("cal-2.safetensors", path)
    assert recalibrate_file(path, *new).path.name == "cal-3.safetensors"
    assert path.read_bytes() == old
    assert second.read_bytes() == (tmp_path / "cal-3.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"cal-2\.safetensors' exists"):
        recalibrate_file(path, *new, second)
    written = recalibrate_file(path, *new, path)
    assert (written.path, written.old_path.name) == (path, "cal-4.safetensors")
    assert written.old_path.read_bytes() == old
    assert path.read_bytes() == second.read_bytes()


def test_the_new_file_records_the_digest_of_the_old_one(tmp_path):
    path = fit("ts").save(tmp_path / "cal.safetensors", metadata={"method": "ts", "class_names": ["a", "b", "c"]})
    first = recalibrate_file(path, *samples(200, 3, 3, 2)).path
    again = recalibrate_file(first, *samples(200, 3, 4, 3)).path
    metadata = load_file(again).metadata
    assert metadata["class_names"] == ["a", "b", "c"]
    assert [record["n_samples"] for record in metadata["recalibrations"]] == [200, 200]
    assert metadata["recalibrations"][0]["from"] != metadata["recalibrations"][1]["from"]


def test_a_failed_write_leaves_the_old_calibrator(tmp_path, monkeypatch):
    path = fit("ts").save(tmp_path / "cal.safetensors")
    old = path.read_bytes()
    monkeypatch.setattr("driftcal.io.atomic.os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        recalibrate_file(path, *samples(200, 3, 3, 2), path)
    assert path.read_bytes() == old
    assert {item.name for item in tmp_path.iterdir()} <= {"cal.safetensors", "cal-2.safetensors"}


def test_class_names_and_parameters_are_kept():
    names = np.array(["cat", "dog", "emu"])
    logits, y = samples(600, 3, 1.5, 1)
    old = driftcal.make_calibrator("hb", n_bins=7, classes=names.tolist()).fit(logits, names[y])
    new, y = samples(200, 3, 3, 2)
    y[y == 2] = 0  # no emu among the new samples
    result = recalibrate(old, new, names[y])
    assert result.calibrator.n_bins == 7
    assert result.calibrator.classes_.tolist() == ["cat", "dog", "emu"]


def test_class_names_in_the_metadata_of_a_file_are_used(tmp_path):
    names = np.array(["emu", "cat", "dog"])  # not sorted
    path = fit("ts").save(tmp_path / "cal.safetensors", metadata={"class_names": names.tolist()})
    logits, y = samples(200, 3, 3, 2)
    by_name, by_number = recalibrate(path, logits, names[y], old=(logits, names[y])), recalibrate(path, logits, y)
    assert by_name.metadata["data"] == by_number.metadata["data"] == by_name.metadata["old_data"]
    with pytest.raises(LabelsError, match="has 'cow'"):
        recalibrate(path, logits, np.where(y == 0, "cow", names[y]))
    twice = fit("ts").save(tmp_path / "twice.safetensors", metadata={"class_names": ["crane", "crane", "dog"]})
    assert recalibrate(twice, logits, y).metadata == by_number.metadata


def test_labels_of_one_class_cannot_refit_a_map_that_may_change_predictions(tmp_path):
    logits, y = samples(200, 3, 3, 2)
    path = fit("ps").save(tmp_path / "cal.safetensors", metadata={"class_names": ["emu", "cat", "dog"]})
    with pytest.raises(LabelsError, match="all 200 are 1, none is 0, 2"):
        recalibrate(fit("ps"), logits, np.ones(200, int))
    with pytest.raises(LabelsError, match=r"all 200 are cat, none is emu, dog.*such as ts"):
        recalibrate(path, logits, np.full(200, "cat"))
    assert recalibrate(fit("ts"), logits, np.where(y == 1, y, logits.argmax(axis=1))).n_samples == 200
    assert recalibrate(fit("ts"), np.abs(logits) * [1, 2, 1], np.ones(200, int)).n_samples == 200


def test_samples_of_a_group_are_in_one_fold():
    fold, _ = module._folds(100, np.repeat(np.arange(10), 10), 0)
    assert all(len(set(fold[i : i + 10])) == 1 for i in range(0, 100, 10))
    assert set(fold) == set(range(5))
    new = samples(100, 3, 3, 2)
    grouped = recalibrate(fit("ts"), *new, groups=np.repeat(np.arange(10), 10))
    assert grouped.after.brier != recalibrate(fit("ts"), *new).after.brier


def test_the_same_samples_give_the_same_result():
    old, new = fit("irm", 20), samples(100, 20, 3, 2)
    first, second = (recalibrate(old, *new, random_state=3) for _ in range(2))
    assert first.to_dict() == second.to_dict()
    np.testing.assert_array_equal(first.calibrator.curve_values_, second.calibrator.curve_values_)


def test_pseudo_labels_have_the_probabilities_of_the_calibrator():
    old, logits = fit("ts", 20), samples(2_000, 20, 1, 4)[0]
    pseudo = blend.pseudo_labelled(old, logits, 0)
    assert len(pseudo) == 4 * 8 * len(logits)
    shares = np.bincount(pseudo.labels, pseudo.weights, minlength=20) / pseudo.weights.sum()
    expected = sum(share * old.predict_proba(scale * logits).mean(axis=0) for scale, share in blend.SCALES.items())
    assert np.abs(shares - expected).max() < 0.003


def test_masked_classes_stay_masked(monkeypatch):
    logits, y = samples(300, 12, 2, 2)
    logits[:, 5] = -np.inf
    y = logits.argmax(axis=1)
    y[::3] = (y[::3] + 6) % 5
    monkeypatch.setattr(blend, "_MAX_SCORES", 12 * 8 * 4 * 50)  # and the old map labels 50 samples only
    result = recalibrate(fit("irm", 12), logits, y, weight=0.3)
    assert (result.calibrator.predict_proba(logits)[:, 5] == 0).all()


def test_bad_calls_are_refused():
    old, (logits, y) = fit("ts"), samples(200, 3, 3, 2)
    with pytest.raises(InputError, match=r"at least 50 labelled samples.*there are 20"):
        recalibrate(old, logits[:20], y[:20])
    with pytest.raises(InputError, match="200 samples in 2"):
        recalibrate(old, logits, y, groups=np.arange(200) % 2)
    with pytest.raises(InputError, match="one group per sample"):
        recalibrate(old, logits, y, groups=[1])
    for weight in (-0.1, 1.5, "much", np.nan):
        with pytest.raises(InputError, match="weight must be"):
            recalibrate(old, logits, y, weight=weight)
    with pytest.raises(InputError, match=r"0\.\.2"):
        recalibrate(old, logits, y + 1)
    with pytest.raises(LabelsError):
        recalibrate(old, logits, y[:-1])
    with pytest.raises(LogitsError):
        recalibrate(old, logits[:, :2], y)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for new, old_samples in ((p, None), (p.round(2), None), (logits, (p, y))):
        with pytest.raises(LogitsError, match=r"logits must be unnorm.*from_probabilities"):
            recalibrate(old, new, y, old=old_samples)
    recalibrate(old, driftcal.from_probabilities(p), y)
    with pytest.raises(
        InputError, match=r"takes logits; this TemperatureScaling was fitted with score_type='probabilities'"
    ):
        recalibrate(driftcal.TemperatureScaling().fit(p, y, score_type="probabilities"), p, y)
    with pytest.raises(NotFittedError):
        recalibrate(driftcal.TemperatureScaling(), logits, y)
    with pytest.raises(InputError, match="nothing to refit"):
        recalibrate(fit("base"), logits, y)
    with pytest.raises(InputError, match="it is a int"):
        recalibrate(3, logits, y)


def test_recalibrate_is_public():
    assert driftcal.recalibrate is recalibrate
    assert isinstance(driftcal.recalibrate(fit("ts"), *samples(100, 3, 3, 2)), Recalibration)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": None}, "weight must be"),
        ({"weight": []}, "weight must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"old": 5}, "old must be"),
        ({"old": (np.zeros((3, 3)),)}, "old must be"),
        ({"groups": [None] * 60}, "groups must be"),
    ],
)
def test_options_of_another_type_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        recalibrate(fit("ts"), *samples(60, 3, 3, 2), **options)
