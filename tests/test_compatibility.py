"""Files that earlier versions wrote are read, and give the numbers they gave then. See tests/data/compat."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

import driftcal
from driftcal.cache import CacheKey, LogitCache
from driftcal.calibrators import CALIBRATORS
from driftcal.calibrators.version_1 import REMOVED, RENAMED
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.errors import ArtefactError
from driftcal.pipeline.evaluating.results import Results

pytestmark = pytest.mark.golden

OLD = Path(__file__).parent / "data" / "compat" / "0.1"
METHODS = sorted(path.stem for path in (OLD / "calibrators").glob("*.safetensors"))


def test_every_method_of_0_1_is_here_renamed_or_removed():
    assert {RENAMED.get(method, method) for method in METHODS if method not in REMOVED} <= set(CALIBRATORS)
    assert set(REMOVED.values()) <= set(CALIBRATORS)


@pytest.mark.parametrize("method", REMOVED)
def test_a_removed_method_names_its_replacement(method):
    with pytest.raises(ArtefactError, match=f"{method!r}.*Tune {REMOVED[method]!r} instead"):
        driftcal.load(OLD / "calibrators" / f"{method}.safetensors")


@pytest.mark.parametrize("method", [method for method in METHODS if method not in REMOVED])
def test_calibrators_of_0_1(method):
    with np.load(OLD / "calibrators" / "expected.npz") as expected:
        calibrator = driftcal.load(OLD / "calibrators" / f"{method}.safetensors")
        taken = {"features": {"early": expected["features"]}} if calibrator.needs_features else {}
        found = calibrator.predict_proba(expected["logits"], **taken)
        np.testing.assert_allclose(found, expected[f"{method}/probabilities"], rtol=0, atol=1e-12)
        assert isinstance(calibrator, WindowedCalibrator) == (f"{method}/windowed" in expected)
        if isinstance(calibrator, WindowedCalibrator):
            found = calibrator.adapt(expected["logits"]).predict_proba(expected["logits"])
            np.testing.assert_allclose(found, expected[f"{method}/windowed"], rtol=0, atol=1e-12)


def test_logits_of_0_1(tmp_path):
    shutil.copytree(OLD / "store", tmp_path / "store")  # opening a store tidies it
    store = LogitCache(tmp_path / "store")
    with np.load(OLD / "store-expected.npz") as expected:
        logits, labels = expected["logits"], expected["labels"]
    done = CacheKey(
        model="m", source="s", split="val", shift="gaussian", level=0.01, seed=3, batch_size=4, extra={"size": 8}
    )
    entry = store.get(done)
    assert entry is not None
    np.testing.assert_array_equal(entry.logits, logits)
    np.testing.assert_array_equal(entry.labels, labels)
    np.testing.assert_array_equal(entry.arrays["early"], logits[:, :2] * 2)
    half = CacheKey(model="m", source="s", shift="gaussian", level=0.02, batch_size=4)
    assert store.missing(half, 20) == [(0, 4), (12, 20)]


def test_results_of_0_1():
    results = Results.load(OLD / "pipeline")
    expected = json.loads((OLD / "pipeline" / "expected.json").read_text())["summary"]
    for line, numbers in zip(results.summary(), expected, strict=True):
        assert numbers.items() <= vars(line).items()


@pytest.fixture(scope="module")
def network():
    train = driftcal.open_source("digits").split(800, 300, random_state=0)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the corpus was made with a network that was still improving
        fitted = MLPClassifier((16,), max_iter=300, random_state=0)
        return fitted.fit(train.inputs().reshape(len(train), -1), train.labels)


@pytest.mark.parametrize("method", ["ts", "ladder-ts"])
def test_calibrated_models_of_0_1(network, method):
    path = OLD / "pipeline" / f"tuned-{method}.safetensors"
    tuned = driftcal.CalibratedModel.load(path, network, force=True)  # another machine trains other last digits
    expected = json.loads((OLD / "pipeline" / "expected.json").read_text())
    assert [level["epsilon"] for level in tuned.perturbation["levels"]] == expected[f"{method}/levels"]
    with np.load(OLD / "pipeline" / "expected.npz") as arrays:
        found = tuned.calibrator.predict_proba(arrays["logits"])
        np.testing.assert_allclose(found, arrays[f"{method}/probabilities"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["ts", "ladder-ts"])
def test_tuned_files_of_0_1_are_recalibrated_exported_and_monitored_in_their_per_sample_form(method):
    path = OLD / "pipeline" / f"tuned-{method}.safetensors"
    per_sample = driftcal.load(path)
    assert not per_sample.needs_window
    with np.load(OLD / "pipeline" / "expected.npz") as arrays:
        logits = np.concatenate([arrays["logits"]] * (1 + 200 // len(arrays["logits"])))
    assert driftcal.recalibrate(path, logits, logits.argmax(axis=1), weight=0).n_samples == len(logits)
    assert type(driftcal.Monitor(path).calibrator) is type(per_sample)


def test_monitors_of_0_1():
    folder = OLD / "pipeline"
    monitor = driftcal.Monitor.load(folder / "monitor.safetensors", folder / "tuned-ts.safetensors")
    expected = json.loads((folder / "expected.json").read_text())["monitor"]
    assert monitor.n_samples == expected["rows"]
    assert len(monitor.pending) == expected["waiting"]
    for window, numbers in zip(monitor.windows(), expected["windows"], strict=True):
        assert window.n_samples == numbers["rows"]
        assert window.confidence == pytest.approx(numbers["confidence"], abs=1e-12)
        assert window.accuracy == pytest.approx(numbers["accuracy"], abs=1e-12)
        assert (window.labelled is None) == (numbers["labelled"] is None)
        for name, value in (numbers["labelled"] or {}).items():
            assert getattr(window.labelled, {"rows": "n_samples"}.get(name, name)) == pytest.approx(value, abs=1e-12)
