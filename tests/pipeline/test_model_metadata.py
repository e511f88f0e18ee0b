"""Whoever writes a file can say anything in it: a forged description with a right digest is refused with an error of ours."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest

import driftcal
from driftcal.calibrators.serialization import save
from driftcal.errors import ArtefactError
from driftcal.pipeline.describe_file import describe, lines_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def saved():
    sys.path.insert(0, str(ROOT))
    try:
        from tools.fuzz.data_targets import SavedModel
    finally:
        sys.path.remove(str(ROOT))
    return SavedModel()


def write(saved, path, *keys, value):
    metadata = copy.deepcopy(saved.metadata)
    owner = metadata
    for key in keys[:-1]:
        owner = owner[key]
    owner[keys[-1]] = value
    return save(saved.calibrator, path, metadata=metadata, others={"windowed": saved.windows.calibrator})


def test_what_the_fuzzer_begins_with_is_read(saved, tmp_path):
    path = write(saved, tmp_path / "a.safetensors", "accuracy", value=0.5)
    logits = np.random.default_rng(0).normal(size=(60, 3))
    calibrated = driftcal.CalibratedModel.load(path)
    np.testing.assert_array_equal(calibrated.predict_proba(logits), saved.calibrator.predict_proba(logits))
    assert any("30 samples" in line for line in lines_of(describe(path)))


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("model",), [1]), (("model", "framework"), None), (("model", "fingerprint"), 5), (("model", "preprocessing"), []),
        (("model", "preprocessing", "layout"), []), (("model", "preprocessing", "scale"), 10**400),
        (("model", "preprocessing", "size"), [10**6, 10**6]), (("method",), []), (("class_names",), ["a", ["b"], "c"]),
        (("class_names",), ["a", "b"]), (("layers",), 3), (("perturbation",), {"levels": []}), (("perturbation", "levels"), None),
        (("validation",), "x"), (("validation", "fingerprint"), None), (("decisions",), [1]), (("decisions", "threshold"), 0.5),
        (("decisions", "threshold", "n_samples"), -1), (("decisions", "curve", "kept"), [None]),
    ],
)  # fmt: skip
def test_forged_descriptions_are_refused(saved, tmp_path, keys, value):
    path = write(saved, tmp_path / "a.safetensors", *keys, value=value)
    with pytest.raises(ArtefactError):
        driftcal.CalibratedModel.load(path)
    with pytest.raises(ArtefactError):
        describe(path)
