"""New labels for an old calibrator: a blend by weight, judged on held-out rows, and nothing lost on the way."""

import numpy as np
import pytest

import driftcal
from driftcal.errors import InputError, LabelsError, LogitsError, NotFittedError, WouldBeWorse
from driftcal.pipeline import blend
from driftcal.pipeline import recalibrate as module
from driftcal.pipeline.recalibrate import Recalibration, recalibrate, recalibrate_file


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(module, "DRAWS", 100)


METHODS = ["ts", "ets", "ts-ir", "ir", "irm", "ps", "hb", "pbmc"]


def rows(n, n_classes, temperature, seed):
    """Logits that are overconfident by `temperature`, and their labels."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, n_classes)).astype(np.float32)
    return logits, np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)


def fit(name, n_classes=3, temperature=1.5, **params):
    return driftcal.make_calibrator(name, **params).fit(*rows(1_500, n_classes, temperature, 1))


@pytest.mark.parametrize("name", METHODS)
def test_weight_0_is_the_old_map(name):
    old, (logits, y) = fit(name), rows(200, 3, 3, 2)
    result = recalibrate(old, logits, y, weight=0)
    np.testing.assert_array_equal(result.calibrator.predict_proba(logits), old.predict_proba(logits))
    assert result.worse == ()
    assert result.before.brier == pytest.approx(result.after.brier, abs=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_weight_1_is_a_fit_to_the_new_rows(name):
    logits, y = rows(300, 3, 3, 2)
    result = recalibrate(fit(name), logits, y, weight=1)
    alone = driftcal.make_calibrator(name).fit(logits, y)
    np.testing.assert_allclose(result.calibrator.predict_proba(logits), alone.predict_proba(logits), atol=1e-6)


@pytest.mark.parametrize("name", ["ts", "irm", "ps"])
def test_old_rows_weigh_as_many_as_they_are(name):
    known, new = rows(600, 3, 1.5, 1), rows(200, 3, 3, 2)
    result = recalibrate(driftcal.make_calibrator(name).fit(*known), *new, weight=0.25, old=known)
    pooled = driftcal.make_calibrator(name).fit(*(np.concatenate(pair) for pair in zip(known, new, strict=True)))
    np.testing.assert_allclose(result.calibrator.predict_proba(new[0]), pooled.predict_proba(new[0]), atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("name", ["ts", "irm", "ets"])
def test_drifted_labels_make_it_better_on_rows_nobody_has_seen(name, n_classes):
    old, fresh = fit(name, n_classes), rows(3_000, n_classes, 3, 3)
    result = recalibrate(old, *rows(600, n_classes, 3, 2))
    assert result.worse == ()
    assert result.after.ece < result.before.ece
    assert result.before.intervals["ece"].low < result.before.ece < result.before.intervals["ece"].high
    brier = [driftcal.metrics.brier_score(fresh[1], map_.predict_proba(fresh[0])) for map_ in (old, result.calibrator)]
    assert brier[1] < brier[0]


def test_a_larger_weight_moves_further():
    old, new = fit("ts"), rows(400, 3, 3, 2)
    temperatures = [recalibrate(old, *new, weight=w).calibrator.temperature_ for w in (0.001, 0.25, 0.5, 1)]
    assert temperatures == sorted(temperatures)
    assert temperatures[0] == pytest.approx(old.temperature_, rel=5e-3), "almost no weight, almost the old map"


def test_where_new_rows_say_nothing_the_old_curve_stays():
    old = fit("irm")
    logits, y = rows(2_000, 3, 3, 2)
    sure = logits.max(axis=1) - np.median(logits, axis=1) > 3
    refitted = recalibrate(old, logits[sure], y[sure], weight=0.5).calibrator
    alone = recalibrate(old, logits[sure], y[sure], weight=1).calibrator
    unsure = 0.2 * rows(200, 3, 1, 4)[0]
    assert np.abs(refitted.predict_proba(unsure) - old.predict_proba(unsure)).max() < 0.12
    assert np.abs(alone.predict_proba(unsure) - old.predict_proba(unsure)).max() > 0.2


def test_auto_finds_that_the_world_changed_and_that_it_did_not():
    assert recalibrate(fit("ts"), *rows(500, 3, 4, 2), weight="auto").weight >= 0.75
    noise = recalibrate(fit("hb", 10), *rows(200, 10, 1.5, 2), weight="auto")
    assert noise.weight <= 0.5


@pytest.mark.parametrize("name", ["ts", "irm", "hb"])
def test_worse_is_refused_and_nothing_is_written(name, tmp_path):
    good, new = fit(name, 10, 3), rows(400, 10, 3, 2)
    path = good.save(tmp_path / "cal.safetensors")
    before = path.read_bytes()
    wrong = rows(400, 10, 0.5, 2)  # labels of a world where the model could be far surer
    with pytest.raises(WouldBeWorse, match=r"Brier score rises from .* Nothing was written"):
        recalibrate_file(path, *new, old=wrong, weight=0.05)
    assert [item.name for item in tmp_path.iterdir()] == ["cal.safetensors"]
    assert path.read_bytes() == before
    result = recalibrate(path, *new, old=wrong, weight=0.05)
    with pytest.raises(WouldBeWorse):
        result.save(tmp_path / "worse.safetensors")
    assert len(list(tmp_path.iterdir())) == 1


def test_the_verdict_is_on_rows_that_the_fit_has_not_seen():
    """Bins that know their tuning rows by heart look perfect on them; held out they are worse than the old map."""
    old, (logits, y) = fit("hb", 10, 3), rows(300, 10, 3, 2)
    result = recalibrate(old.__class__(n_bins=200).fit(*rows(3_000, 10, 3, 1)), logits, y, weight=1)
    seen = driftcal.metrics.brier_score(y, result.calibrator.predict_proba(logits))
    assert seen < result.before.brier < result.after.brier
    assert result.worse


def test_the_old_file_is_kept_and_names_are_never_taken_twice(tmp_path):
    path = fit("ts").save(tmp_path / "cal.safetensors", notes={"method": "ts", "model": None})
    old, new = path.read_bytes(), rows(200, 3, 3, 2)
    _, second, kept = recalibrate_file(path, *new)
    assert (second.name, kept) == ("cal-2.safetensors", path)
    assert recalibrate_file(path, *new)[1].name == "cal-3.safetensors"
    assert path.read_bytes() == old
    assert second.read_bytes() == (tmp_path / "cal-3.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"cal-2\.safetensors' exists"):
        recalibrate_file(path, *new, second)
    _, target, kept = recalibrate_file(path, *new, path)
    assert (target, kept.name) == (path, "cal-4.safetensors")
    assert kept.read_bytes() == old
    assert path.read_bytes() == second.read_bytes()


def test_the_new_file_says_where_it_comes_from(tmp_path):
    path = fit("ts").save(tmp_path / "cal.safetensors", notes={"method": "ts", "class_names": ["a", "b", "c"]})
    first = recalibrate_file(path, *rows(200, 3, 3, 2))[1]
    again = recalibrate_file(first, *rows(200, 3, 4, 3))[1]
    notes = driftcal.calibrators.serialization.notes(again)["notes"]
    assert notes["class_names"] == ["a", "b", "c"]
    assert [record["rows"] for record in notes["recalibrations"]] == [200, 200]
    assert notes["recalibrations"][0]["from"] != notes["recalibrations"][1]["from"]


def test_a_write_that_fails_leaves_the_old_calibrator_in_its_place(tmp_path, monkeypatch):
    path = fit("ts").save(tmp_path / "cal.safetensors")
    old = path.read_bytes()
    monkeypatch.setattr("driftcal.io.atomic.os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        recalibrate_file(path, *rows(200, 3, 3, 2), path)
    assert path.read_bytes() == old
    assert {item.name for item in tmp_path.iterdir()} <= {"cal.safetensors", "cal-2.safetensors"}


def test_named_classes_and_parameters_live_on():
    names = np.array(["cat", "dog", "emu"])
    logits, y = rows(600, 3, 1.5, 1)
    old = driftcal.make_calibrator("hb", n_bins=7, classes=names.tolist()).fit(logits, names[y])
    new, y = rows(200, 3, 3, 2)
    y[y == 2] = 0  # no emu among the new ones
    result = recalibrate(old, new, names[y])
    assert result.calibrator.n_bins == 7
    assert result.calibrator.classes_.tolist() == ["cat", "dog", "emu"]


def test_names_that_the_file_notes_are_known(tmp_path):
    names = np.array(["emu", "cat", "dog"])  # not sorted
    path = fit("ts").save(tmp_path / "cal.safetensors", notes={"class_names": names.tolist()})
    logits, y = rows(200, 3, 3, 2)
    by_name, by_number = recalibrate(path, logits, names[y], old=(logits, names[y])), recalibrate(path, logits, y)
    assert by_name.about["data"] == by_number.about["data"] == by_name.about["old_data"]
    with pytest.raises(LabelsError, match="has 'cow'"):
        recalibrate(path, logits, np.where(y == 0, "cow", names[y]))
    twice = fit("ts").save(tmp_path / "twice.safetensors", notes={"class_names": ["crane", "crane", "dog"]})
    assert recalibrate(twice, logits, y).about == by_number.about


def test_labels_of_one_class_cannot_refit_a_map_that_may_change_answers(tmp_path):
    logits, y = rows(200, 3, 3, 2)
    path = fit("ps").save(tmp_path / "cal.safetensors", notes={"class_names": ["emu", "cat", "dog"]})
    with pytest.raises(LabelsError, match="all 200 are 1, none is 0, 2"):
        recalibrate(fit("ps"), logits, np.ones(200, int))
    with pytest.raises(LabelsError, match=r"all 200 are cat, none is emu, dog.*such as ts"):
        recalibrate(path, logits, np.full(200, "cat"))
    assert recalibrate(fit("ts"), logits, np.where(y == 1, y, logits.argmax(axis=1))).rows == 200
    assert recalibrate(fit("ts"), np.abs(logits) * [1, 2, 1], np.ones(200, int)).rows == 200


def test_rows_of_a_group_stay_in_one_fold():
    fold, _ = module._folds(100, np.repeat(np.arange(10), 10), 0)
    assert all(len(set(fold[i : i + 10])) == 1 for i in range(0, 100, 10))
    assert set(fold) == set(range(5))
    new = rows(100, 3, 3, 2)
    grouped = recalibrate(fit("ts"), *new, groups=np.repeat(np.arange(10), 10))
    assert grouped.after.brier != recalibrate(fit("ts"), *new).after.brier


def test_the_same_rows_give_the_same_result():
    old, new = fit("irm", 20), rows(100, 20, 3, 2)
    first, second = (recalibrate(old, *new, seed=3) for _ in range(2))
    assert first.to_dict() == second.to_dict()
    np.testing.assert_array_equal(first.calibrator.curve_values_, second.calibrator.curve_values_)


def test_own_answers_are_as_likely_as_the_calibrator_says():
    old, logits = fit("ts", 20), rows(2_000, 20, 1, 4)[0]
    tempered, columns, weights = blend.own_answers(old, logits, 0)
    assert len(tempered) == 4 * 8 * len(logits)
    said = np.bincount(columns, weights, minlength=20) / weights.sum()
    meant = sum(share * old.predict_proba(t * logits).mean(axis=0) for t, share in blend.TEMPERS.items())
    assert np.abs(said - meant).max() < 0.003


def test_masked_classes_stay_masked(monkeypatch):
    logits, y = rows(300, 12, 2, 2)
    logits[:, 5] = -np.inf
    y = logits.argmax(axis=1)
    y[::3] = (y[::3] + 6) % 5
    monkeypatch.setattr(blend, "_MOST_SCORES", 12 * 8 * 4 * 50)  # and the old map answers for 50 rows only
    result = recalibrate(fit("irm", 12), logits, y, weight=0.3)
    assert (result.calibrator.predict_proba(logits)[:, 5] == 0).all()


def test_bad_calls_are_refused():
    old, (logits, y) = fit("ts"), rows(200, 3, 3, 2)
    with pytest.raises(InputError, match=r"at least 50 labelled rows.*there are\s20"):
        recalibrate(old, logits[:20], y[:20])
    with pytest.raises(InputError, match="200 rows in 2"):
        recalibrate(old, logits, y, groups=np.arange(200) % 2)
    with pytest.raises(InputError, match="one group per row"):
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
    for new, known in ((p, None), (p.round(2), None), (logits, (p, y))):
        with pytest.raises(LogitsError, match=r"logits must be unnorm.*from_probabilities"):
            recalibrate(old, new, y, old=known)
    recalibrate(old, driftcal.from_probabilities(p), y)
    with pytest.raises(NotFittedError):
        recalibrate(driftcal.TemperatureScaling(), logits, y)
    with pytest.raises(InputError, match="nothing to refit"):
        recalibrate(fit("base"), logits, y)
    with pytest.raises(InputError, match="it is a int"):
        recalibrate(3, logits, y)


def test_the_front_door():
    assert driftcal.recalibrate is recalibrate
    assert isinstance(driftcal.recalibrate(fit("ts"), *rows(100, 3, 3, 2)), Recalibration)
