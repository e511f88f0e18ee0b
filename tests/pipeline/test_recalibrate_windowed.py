"""Recalibration of the windowed form: one number moves with new labels, or the old form is kept and the result says so."""

import json

import numpy as np
import pytest

import driftcal
from driftcal.calibrators.export_maps.windowed_map import WindowedMap
from driftcal.calibrators.serialization import WINDOWED_NAME, calibrator_identity, load_file, save
from driftcal.metrics import expected_calibration_error
from driftcal.pipeline.recalibrating import recalibrate as module
from driftcal.pipeline.recalibrating.recalibrate import recalibrate
from driftcal.pipeline.recalibrating.recalibrate_file import recalibrate_file

C = 5


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(module, "N_RESAMPLES", 100)


def samples(signal, seed, n=600, wrong=0.0):
    """Over-confident logits; less signal is a shift that they show, `wrong` labels are one that they do not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    z = 1.6 * rng.normal(size=(n, C))
    z[np.arange(n), y] += signal
    return 3 * z, np.where(rng.random(n) < wrong, rng.integers(0, C, n), y)


PARTS = [samples(signal, k) for k, signal in enumerate((4.0, 3.4, 2.8, 2.2, 1.6))]
LEVELS = np.repeat(np.arange(len(PARTS)), 600)


@pytest.fixture(scope="module")
def windowed():
    z, y = (np.concatenate(part) for part in zip(*PARTS, strict=True))
    return {name: driftcal.make_calibrator(name).fit(z, y, levels=LEVELS) for name in ("window-ts", "level-ts")}


def file_with(windowed, path):
    ts = driftcal.make_calibrator("ts").fit(*PARTS[0])
    metadata = {"explanation": "Tuned.", "windowed_cross_validated_ece": {"clean": 0.1}}
    return save(ts, path, metadata=metadata, others={WINDOWED_NAME: windowed})


def windowed_ece(calibrator, z, y):
    return expected_calibration_error(y, calibrator.windowed(100).predict_proba(z))


@pytest.mark.parametrize(("name", "weight"), [("window-ts", 0.5), ("level-ts", "auto")])
def test_labels_of_another_level_lower_the_ece_of_later_windows(windowed, name, weight, tmp_path):
    path = file_with(windowed[name], tmp_path / "cal.safetensors")
    z, y = (np.concatenate(part) for part in zip(samples(4, 20, wrong=0.4), samples(2.8, 21, wrong=0.4), strict=True))
    result = recalibrate(path, z, y, weight=weight).windowed
    assert result.refitted
    assert result.after.ece < result.before.ece
    for signal in (4, 3.1, 2.5):
        later = samples(signal, 30, n=2000, wrong=0.4)
        assert windowed_ece(result.calibrator, *later) < 0.8 * windowed_ece(windowed[name], *later)


def test_a_larger_weight_moves_further(windowed, tmp_path):
    path = file_with(windowed["window-ts"], tmp_path / "cal.safetensors")
    new = samples(3.4, 20, wrong=0.4)
    offsets = [recalibrate(path, *new, weight=w).windowed.offset for w in (0.001, 0.25, 0.5, 1)]
    assert offsets == sorted(offsets, reverse=True)
    assert offsets[0] == pytest.approx(0, abs=0.02)
    assert offsets[-1] < -0.5
    with_old = recalibrate(path, *new, weight=0.5, old=PARTS[1]).windowed.offset
    assert offsets[-1] < with_old < 0
    assert with_old != offsets[2]


def test_the_fitted_number_is_the_one_that_was_lost(windowed, tmp_path):
    """A form that was moved by −1 is moved back by labels of its own training shifts."""
    moved = windowed["level-ts"].with_offset(-1.0)
    assert moved.temperatures_ == pytest.approx(np.exp(-1.0) * windowed["level-ts"].temperatures_)
    path = file_with(moved, tmp_path / "cal.safetensors")
    z, y = (np.concatenate([PARTS[k][i] for k in (0, 1, 2)]) for i in (0, 1))
    assert recalibrate(path, z, y, weight=1).windowed.offset == pytest.approx(1, abs=0.1)


def test_weight_0_keeps_the_windowed_form(windowed, tmp_path):
    path = file_with(windowed["window-ts"], tmp_path / "cal.safetensors")
    written = recalibrate_file(path, *samples(2.8, 20, wrong=0.4), weight=0)
    assert not written.result.windowed.refitted
    file = load_file(written.path)
    assert calibrator_identity(file.others[WINDOWED_NAME]) == calibrator_identity(windowed["window-ts"])
    assert file.metadata["windowed_cross_validated_ece"] == {"clean": 0.1}
    assert "The windowed WINDOW-TS is kept: the new samples have weight 0." in file.metadata["explanation"]


def test_a_worse_refit_is_not_kept(windowed, tmp_path):
    path = file_with(windowed["window-ts"], tmp_path / "cal.safetensors")
    misleading = samples(4, 22, wrong=0.9)
    result = recalibrate(path, *samples(3.4, 21), weight=0.1, old=misleading).windowed
    assert (result.refitted, result.offset) == (False, 0)
    assert result.calibrator.coefficients_ == pytest.approx(windowed["window-ts"].coefficients_, abs=0)
    assert result.after.nll > result.before.nll
    assert "WINDOW-TS is kept: with a refit" in result.explanation
    assert "rises from" in result.explanation


def test_methods_without_such_a_number_are_kept_and_say_so(windowed, monkeypatch, tmp_path):
    monkeypatch.setattr(driftcal.LevelTemperatureScaling, "with_offset", lambda self, offset: None)
    path = file_with(windowed["level-ts"], tmp_path / "cal.safetensors")
    written = recalibrate_file(path, *samples(2.8, 20, wrong=0.4))
    kept = load_file(written.path).others[WINDOWED_NAME]
    assert calibrator_identity(kept) == calibrator_identity(windowed["level-ts"])
    assert "The windowed LEVEL-TS is kept as it was: labels alone do not refit it." in written.explanation


def test_a_saved_file_holds_both_refitted_forms(windowed, tmp_path):
    path = file_with(windowed["window-ts"], tmp_path / "cal.safetensors")
    before = path.read_bytes()
    z, y = samples(3.4, 20, wrong=0.4)
    written = recalibrate_file(path, z, y)
    file, result = load_file(written.path), written.result
    again = file.others[WINDOWED_NAME]
    np.testing.assert_array_equal(
        again.windowed(100).predict_proba(z), result.windowed.calibrator.windowed(100).predict_proba(z)
    )
    np.testing.assert_array_equal(file.calibrator.predict_proba(z), result.calibrator.predict_proba(z))
    assert calibrator_identity(again) != calibrator_identity(windowed["window-ts"])
    assert isinstance(again.windowed_map(), WindowedMap)
    assert path.read_bytes() == before
    record = file.metadata["recalibrations"][0]["windowed"]
    assert record["refitted"]
    assert record["after"]["ece"] < record["before"]["ece"]
    assert "windowed_cross_validated_ece" not in file.metadata
    assert "The windowed WINDOW-TS was refitted too" in file.metadata["explanation"]
    assert json.dumps(result.to_dict())
    saved = load_file(result.save(tmp_path / "other.safetensors"))
    assert calibrator_identity(saved.others[WINDOWED_NAME]) == calibrator_identity(again)


def test_masked_classes_and_few_samples(windowed, tmp_path):
    path = file_with(windowed["window-ts"], tmp_path / "cal.safetensors")
    z, _ = samples(3.4, 20, n=60)
    z[:, 2] = -np.inf
    y = np.where(np.random.default_rng(0).random(60) < 0.4, 0, z.argmax(axis=1))
    result = recalibrate(path, z, y).windowed
    assert np.isfinite(result.offset)
    assert (result.calibrator.windowed(100).predict_proba(z)[:, 2] == 0).all()
    assert recalibrate(driftcal.make_calibrator("ts").fit(*PARTS[0]), *samples(3.4, 20, n=60)).windowed is None


def test_a_window_ts_that_follows_no_shift_has_nothing_to_move():
    assert driftcal.make_calibrator("window-ts").fit(*PARTS[0]).with_offset(0.0) is None
