"""The claims with their verdicts, classes that are left out, -H on fewer images, and the default of tune, on made-up images."""

import dataclasses

import numpy as np
import pytest

from driftcal.calibrators import make_calibrator
from driftcal.data import from_arrays
from driftcal.metrics import expected_calibration_error
from driftcal.models import open_model
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiments import EXPERIMENTS
from driftcal.paper.experiments.claims import claims
from driftcal.paper.left_out_classes import leave_out_classes
from driftcal.paper.networks.registry import Network
from driftcal.paper.paper_settings import OURS
from driftcal.paper.setups import Setup
from driftcal.shifts import get_suite

N_CLASSES = 6
LEFT_OUT = (1, 4)


@pytest.fixture(scope="module")
def context():
    """Images of six colours under noise, and a network that is too confident."""
    rng = np.random.default_rng(0)
    colours = rng.random((N_CLASSES, 3))
    labels = np.arange(180) % N_CLASSES
    images = np.clip(colours[labels][:, None, None] + 0.6 * rng.normal(size=(180, 8, 8, 3)), 0, 1).astype(np.float32)

    def network(x):
        means = x.mean(axis=(1, 2))
        return -300 * ((means[:, None] - colours) ** 2).sum(axis=2)

    source = from_arrays(images, labels)
    validation, test = source.split_classes(20)
    shifts = [shift for shift in get_suite("cifar10-c").shifts if shift.name in ("contrast", "brightness")]
    model = open_model(network, outputs="logits", batch_size=10)
    setup = Setup(
        Network("mine", model, 8), "imagenet", validation, test, "imagenet-c", shifts, left_out_classes=LEFT_OUT
    )
    settings = dataclasses.replace(OURS, n_levels=4, n_resamples=50, h_images=60)
    return ExperimentContext([setup], settings)


def test_claims_have_differences_from_their_definition(context):
    (setup,) = context.setups
    result = claims(context)
    in_short, in_full = result.tables
    rows = {(row["claim"], row["calibrator"]): row for row in in_full.rows}
    logits, labels = context.clean_logits(setup, setup.test), setup.test.labels
    by_name = {candidate.name: candidate.calibrator for candidate in context.candidates(setup, ["ts"])}
    eces = [
        expected_calibration_error(labels, by_name[name].predict_proba(logits), n_bins=15) for name in ("ts-p", "ts")
    ]
    row = rows["TS-P, ETS-P and TS-IR-P are worse calibrated in domain", "TS-P"]
    assert row["difference"] == pytest.approx(eces[0] - eces[1], abs=1e-12)
    for row in in_full.rows:
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    for row in in_short.rows:
        listed = [name for key in ("holds", "fails", "unknown") for name in row[key].split(", ") if name != "–"]
        own = {name: line["verdict"] for (claim, name), line in rows.items() if claim == row["claim"]}
        assert sorted(listed) == sorted(own)
        marks = {"holds": "■", "does not hold": "□", "cannot be told": "▨"}
        assert row["bar"] == "".join(marks[found] for found in own.values())
    assert len(in_short.rows) == 12
    assert any("unknown classes" in row["claim"] for row in in_short.rows)


def test_left_out_classes_are_unknown_to_their_calibrators(context):
    (setup,) = context.setups
    left_out = leave_out_classes(context, setup, ["ts"])
    assert left_out is not None
    columns = [0, 2, 3, 5]
    is_known = np.isin(setup.validation.labels, columns)
    logits = context.clean_logits(setup, setup.validation)
    expected = make_calibrator("ts").fit(
        logits[is_known][:, columns], np.searchsorted(columns, setup.validation.labels[is_known])
    )
    assert left_out.candidates[1].calibrator.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    assert left_out.known.shape == (40, 4)
    assert left_out.unknown.shape == ((~is_known).sum() + 20, 4)
    assert leave_out_classes(context, dataclasses.replace(setup, left_out_classes=()), ["ts"]) is None
    table = EXPERIMENTS["ood"].run(context).tables[0]
    confidence = next(
        row for row in table.rows if row["data"] == "classes left out" and row["quantity"] == "mean confidence"
    )
    stated = expected.predict_proba(left_out.unknown).max(axis=1).mean()
    assert confidence["ts"] == pytest.approx(stated, rel=1e-9)


def test_h_is_tuned_on_the_first_images(context):
    (setup,) = context.setups
    logits, labels = context.tuning_samples(setup, "-h")
    assert len(logits) == len(labels) == 60 * 24
    assert np.array_equal(labels[:60], setup.validation.labels[:60])
    rows = EXPERIMENTS["val-shift"].run(context).tables[0].rows
    same = next(row for row in rows if row["numbers"] == "ours, all tuned on 60 images")
    everything = next(row for row in rows if row["numbers"] == "ours, all shifts")
    assert same["ts-h"] == pytest.approx(everything["ts-h"], abs=1e-12), "-H has 60 images in both"
    assert same["ts-p"] != everything["ts-p"]


def test_the_default_of_tune_is_beside_the_others(context):
    result = EXPERIMENTS["default"].run(context)
    names = [row["calibrator"] for row in result.tables[0].rows]
    assert names[0] == "Base"
    assert names[-2].startswith("tune, per sample: ")
    assert names[-1] == "tune, windowed: WINDOW-TS"
    row = result.tables[0].rows[-1]
    assert row["gain_low"] <= row["gain"] <= row["gain_high"]
    assert "was chosen" in result.notes[0] or "TS" in result.notes[0]
