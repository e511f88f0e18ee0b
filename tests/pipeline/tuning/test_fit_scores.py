"""driftcal.fit: recorded scores are calibrated, saved, exported, evaluated and reported without a model."""

import numpy as np
import pytest

import driftcal
from driftcal import CalibratedModel, TemperatureScaling
from driftcal.errors import InputError, LogitsError, ModelError
from driftcal.export import append_to_onnx, export_file

FEW = driftcal.Selection(candidates=["ts", "ets"])


def scores(n=600, n_classes=4, temperature=2.0, seed=0):
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, n_classes))
    return logits, (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def calibrated():
    return driftcal.fit(*scores(), method="ts")


def test_it_is_the_calibrator_on_the_same_logits(calibrated):
    logits, y = scores()
    expected = TemperatureScaling().fit(logits, y)
    assert calibrated.calibrator.temperature_ == expected.temperature_
    np.testing.assert_array_equal(calibrated.predict_proba(logits), expected.predict_proba(logits))


def test_auto_always_compares_with_ts_and_does_not_speak_of_levels():
    fitted = driftcal.fit(*scores(), method=FEW)
    assert fitted.method in ("ts", "ets")
    assert "TS" in fitted.explanation
    assert "shift" not in fitted.explanation
    assert "level" not in fitted.explanation


def test_a_model_that_is_always_right_stays_uncalibrated_and_nothing_else_is_said():
    y = np.arange(200) % 4
    fitted = driftcal.fit(np.where(np.eye(4)[y] > 0, 9.0, 0.0) + np.arange(4) / 10, y, method=FEW)
    assert fitted.method == "base"
    assert "the model is correct on every tuning sample" in fitted.explanation
    assert fitted.explanation.endswith("The model stays uncalibrated.")
    assert "taken" not in fitted.explanation
    assert "chosen" not in fitted.explanation


@pytest.mark.filterwarnings("ignore::driftcal.errors.SuspiciousInputWarning")
@pytest.mark.parametrize("method", ["auto", "irm", "hb"])
def test_one_sample_is_not_cross_validated(method):
    calibrated = driftcal.fit([[0.0, 1.0, 2.0]], [0], method=method)
    assert calibrated.predict_proba([[0.0, 1.0, 2.0]]).sum() == pytest.approx(1)


def test_probabilities_are_the_same_as_their_logarithms():
    logits, y = scores()
    p = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    of_probabilities = driftcal.fit(p, y, method="ts", score_type="probabilities")
    np.testing.assert_allclose(
        of_probabilities.predict_proba(p), driftcal.fit(logits, y, method="ts").predict_proba(logits), atol=1e-9
    )
    with pytest.raises(LogitsError, match="probabilities"):
        driftcal.fit(p, y, method="ts")


def test_one_column_needs_its_type():
    logits, y = scores(n_classes=2)
    margin = logits[:, 1] - logits[:, 0]
    with pytest.raises(InputError, match="score_type"):
        driftcal.fit(margin, y, method="ts")
    binary = driftcal.fit(margin, y, method="ts", score_type="logits")
    np.testing.assert_allclose(
        binary.predict_proba(margin), driftcal.fit(logits, y, method="ts").predict_proba(logits), atol=1e-9
    )


def test_labels_may_be_names():
    logits, y = scores()
    names = ["ant", "bee", "cat", "dog"]
    named = driftcal.fit(logits, np.array(names)[y], method="ts", class_names=names)
    assert named.predict(logits[:5]).tolist() == [names[k] for k in logits[:5].argmax(axis=1)]


def test_levels_of_the_same_samples_give_a_windowed_form():
    logits, y = scores()
    noise = np.random.default_rng(1).normal(size=logits.shape)
    levels = np.repeat([0, 1, 2], len(y))
    stacked = np.concatenate([logits + scale * noise for scale in (0, 4, 30)])
    fitted = driftcal.fit(stacked, np.tile(y, 3), method="level-ts", levels=levels)
    assert fitted.windowed(100).predict_proba(logits).shape == logits.shape
    with pytest.raises(InputError, match="same samples"):
        driftcal.fit(stacked[:-1], np.tile(y, 3)[:-1], method="level-ts", levels=levels[:-1])
    with pytest.raises(InputError, match="hold 0"):
        driftcal.fit(stacked, np.tile(y, 3), method="level-ts", levels=levels + 1)


def test_a_masked_class_stays_masked(calibrated):
    logits, _ = scores(5)
    logits[:, 0] = -np.inf
    assert (calibrated.predict_proba(logits)[:, 0] == 0).all()


def test_it_is_saved_and_loaded_without_a_model(calibrated, tmp_path):
    logits, _ = scores(seed=1)
    loaded = CalibratedModel.load(calibrated.save(tmp_path / "cal.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(logits), calibrated.predict_proba(logits))
    with pytest.raises(ModelError, match="fitted on scores"):
        CalibratedModel.load(tmp_path / "cal.safetensors", lambda batch: batch, inputs=logits)


def test_evaluate_gives_in_domain_figures_with_ts_and_intervals(calibrated):
    logits, y = scores(seed=1)
    fitted = driftcal.fit(*scores(), method="ets")
    results = driftcal.evaluate(fitted, logits, y, n_resamples=20)
    assert results.in_domain_only
    assert [info.name for info in results.calibrators] == ["base", "ts", "ets"]
    row = results.row("ts", "in domain", 0)
    expected = driftcal.expected_calibration_error(y, calibrated.predict_proba(logits))
    assert row.ece == pytest.approx(expected)
    assert row.intervals["ece"][0] <= row.ece <= row.intervals["ece"][1]
    assert "under shift" not in repr(results)
    with pytest.raises(InputError, match="suite"):
        driftcal.evaluate(fitted, logits, y, suite="affine")


def test_the_report_speaks_of_these_samples_only(calibrated, tmp_path):
    results = driftcal.evaluate(calibrated, *scores(seed=1), n_resamples=20)
    results.save(tmp_path)
    page = driftcal.write_report(driftcal.Results.load(tmp_path), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>On these samples</h2>" in page
    assert "ECE under shift</small>" not in page


def test_the_calibrator_of_a_file_is_exported_alone(calibrated, tmp_path):
    path = calibrated.save(tmp_path / "cal.safetensors")
    written = export_file(path, tmp_path / "cal.onnx")
    assert written.path.is_file()
    assert written.difference < 1e-9
    with pytest.raises(driftcal.errors.ArtefactError, match="force"):
        append_to_onnx(tmp_path / "cal.onnx", path, tmp_path / "out.onnx")
