"""The drift reference: its numbers, its files, and the estimator it chooses."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

import driftcal
from driftcal.drift.estimators import ESTIMATORS
from driftcal.drift.reference import DriftReference
from driftcal.errors import ArtefactError, InputError

OLD = Path(__file__).parents[1] / "data" / "compat" / "0.1" / "pipeline"


@pytest.fixture(scope="module")
def levels():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=2000)
    noises = (1.0, 1.6, 2.2, 3.0, 4.5, 20.0)
    return y, [(3 * np.eye(3)[y] + noise * rng.normal(size=(2000, 3))) * noise**-1.5 for noise in noises]


@pytest.fixture(scope="module")
def reference(levels):
    y, level_logits = levels
    calibrator = driftcal.make_calibrator("irm").fit(np.concatenate(level_logits), np.tile(y, len(level_logits)))
    temperature = driftcal.TemperatureScaling().fit(level_logits[0], y).temperature_
    return DriftReference.of(level_logits, y, calibrator, temperature=temperature)


def test_it_holds_the_accuracy_and_the_class_shares(levels, reference):
    y, level_logits = levels
    assert reference.accuracies == pytest.approx([(z.argmax(axis=1) == y).mean() for z in level_logits])
    np.testing.assert_allclose(reference.class_shares, np.bincount(level_logits[0].argmax(axis=1)) / len(y))
    assert (reference.n_levels, reference.n_classes, reference.n_samples) == (6, 3, 2000)
    assert reference.halfway_to_chance == pytest.approx((reference.accuracies[0] + 1 / 3) / 2)


def test_every_estimator_but_the_calibrators_confidence_is_exact_on_clean_samples(reference):
    clean = np.array(reference.means[0])
    for name in set(ESTIMATORS) - {"confidence"}:
        assert reference.estimate(name, clean) == pytest.approx(reference.accuracies[0], abs=1e-3)
    assert [reference.level_position(np.array(means)) for means in reference.means] == pytest.approx(range(6), abs=0.6)


def test_the_estimator_with_the_smallest_larger_error_is_chosen(reference):
    assert set(reference.errors) == set(ESTIMATORS)
    accurate = {name: error for name, error in reference.errors.items() if error["clean"] <= 0.02}
    assert "confidence" not in accurate  # tuned on all levels, it is under-confident on clean samples
    worst = {name: max(error.values()) for name, error in accurate.items()}
    assert worst[reference.estimator] == min(worst.values())


def test_it_survives_json_and_refuses_damage(reference):
    plain = json.loads(json.dumps(reference.to_dict()))
    assert DriftReference.from_dict(plain) == reference
    changes = ({"means": [[0, 0, 0, 0]]}, {"estimator": "oracle"}, {"standard_deviation": -1}, {"unknown": 1})
    for change in (*changes, {"errors": 7}, {"class_shares": None}):
        with pytest.raises(ArtefactError, match="drift reference"):
            DriftReference.from_dict({**plain, **change})


def test_files_of_version_0_1_are_read():
    with safe_open(OLD / "tuned-ts.safetensors", "np") as file:
        recorded = json.loads(next(v for v in file.metadata().values() if "profile" in v))
    profile = recorded.get("notes", recorded)["profile"]
    assert {"rows", "deviation", "shares"} <= set(profile)
    reference = DriftReference.from_dict(profile)
    assert reference.n_samples == profile["rows"]
    assert reference.standard_deviation == profile["deviation"]
    assert list(reference.class_shares) == profile["shares"]
    assert set(reference.errors) == set(ESTIMATORS)
    assert reference.errors["level-matching"]["perturbed"] == profile["errors"]["ladder"]["noisier"]


def test_levels_must_hold_the_same_samples(levels):
    y, level_logits = levels
    calibrator = driftcal.TemperatureScaling().fit(level_logits[0], y)
    with pytest.raises(InputError, match="level_logits must hold"):
        DriftReference.of([], y, calibrator, temperature=1.0)
    with pytest.raises(InputError, match="the same samples, at least 20"):
        DriftReference.of([level_logits[0], level_logits[1][:-1]], y, calibrator, temperature=1.0)
    with pytest.raises(InputError, match="at least 20"):
        DriftReference.of([level_logits[0][:19]], y[:19], calibrator, temperature=1.0)
