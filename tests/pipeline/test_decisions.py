"""Thresholds of a calibrated model: out-of-sample predictions, abstaining, files."""

import numpy as np
import pytest

import driftcal
from driftcal.calibrators.serialization import load_file
from driftcal.calibrators.serialization import save as save_file
from driftcal.errors import ArtefactError, InputError, SuspiciousInputWarning


def scores(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    logits = 4 * rng.normal(size=(n, 4))
    return logits, (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)


@pytest.fixture(scope="module")
def calibrated():
    fitted = driftcal.fit(*scores(), method="ts")
    return fitted.with_threshold(fitted.threshold(accuracy=0.9))


def test_predictions_below_the_threshold_are_masked(calibrated):
    logits, y = scores(seed=1)
    decided = calibrated.predict_or_abstain(logits)
    confidence = calibrated.predict_proba(logits).max(axis=1)
    np.testing.assert_array_equal(~decided.mask, confidence >= calibrated.decision_threshold.confidence)
    np.testing.assert_array_equal(decided.data, calibrated.predict(logits))
    assert (decided == y).mean() >= 0.9
    assert (decided.filled(-1) == -1).any()


def test_a_threshold_of_other_data_and_of_the_call(calibrated):
    held_out = calibrated.threshold(*scores(seed=2), coverage=0.5)
    assert held_out.n_samples == 1000
    decided = calibrated.predict_or_abstain(scores(seed=1)[0], threshold=held_out)
    assert 0.4 < 1 - decided.mask.mean() < 0.6
    with pytest.raises(InputError, match="with_threshold"):
        calibrated.with_threshold(None).predict_or_abstain(scores()[0])


def test_a_flexible_calibrator_is_judged_on_samples_it_was_not_fitted_on():
    logits, y = scores(400)
    y = np.random.default_rng(0).permutation(y)  # no confidence means anything
    method = driftcal.HistogramBinning(n_bins=40)
    with pytest.warns(SuspiciousInputWarning, match="near chance"):
        curve = driftcal.fit(logits, y, method=method).validation_curve
    in_sample = method.fit(logits, y).predict_proba(logits)
    accuracy = (in_sample.argmax(axis=1) == y).mean()
    assert curve.correct[-1] / curve.n_samples < accuracy - 0.05


def test_it_travels_in_the_file_and_files_without_it_load(calibrated, tmp_path):
    path = calibrated.save(tmp_path / "cal.safetensors")
    loaded = driftcal.CalibratedModel.load(path)
    assert loaded.decision_threshold == calibrated.decision_threshold
    assert loaded.threshold(accuracy=0.9) == calibrated.decision_threshold
    file = load_file(path)
    without = {name: value for name, value in file.metadata.items() if name != "decisions"}
    old = driftcal.CalibratedModel.load(save_file(file.calibrator, tmp_path / "old.safetensors", metadata=without))
    assert old.decision_threshold is None
    with pytest.raises(InputError, match="not tuned on"):
        old.threshold(accuracy=0.9)
    newer = {**file.metadata, "decisions": {"version": 2}}
    with pytest.raises(ArtefactError, match="version is 2"):
        driftcal.CalibratedModel.load(save_file(file.calibrator, tmp_path / "new.safetensors", metadata=newer))
