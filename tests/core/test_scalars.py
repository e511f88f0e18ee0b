"""Scalars of numpy are numbers wherever Python's are, and truth values are numbers nowhere."""

import numpy as np
import pytest

import driftcal
from driftcal.decisions import CoverageCurve, choose_threshold
from driftcal.errors import InputError
from driftcal.metrics.bins import bin_edges

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(300, 3)) * 3
LABELS = np.where(RNG.random(300) < 0.6, LOGITS.argmax(axis=1), RNG.integers(0, 3, 300))


def net(batch):
    return batch @ np.eye(4, 3)


def test_scalars_of_numpy_are_numbers(tmp_path):
    model = driftcal.open_model(net, batch_size=np.int64(8))
    assert model.batch_size == 8
    assert driftcal.Selection(tolerance=np.float32(0.25)).limit == 0.25
    calibrated = driftcal.fit(LOGITS, LABELS, method="ts")
    calibrated = calibrated.with_threshold(calibrated.threshold(coverage=np.float32(0.5), delta=np.float32(0.25)))
    assert driftcal.CalibratedModel.load(calibrated.save(tmp_path / "cal.safetensors")).decision_threshold is not None
    stacked, labels, levels = np.tile(LOGITS, (2, 1)), np.tile(LABELS, 2), np.repeat([0, 1], 300)
    weighted = driftcal.fit(stacked, labels, method="ts", levels=levels, clean_weight=np.float32(0.5))
    weighted.save(tmp_path / "weighted.safetensors")


@pytest.mark.parametrize(
    "call",
    [
        lambda: driftcal.open_model(net, batch_size=True),
        lambda: bin_edges(True),
        lambda: driftcal.Selection(tolerance=True),
        lambda: choose_threshold(CoverageCurve.of(RNG.random(100), RNG.random(100) < 0.5), coverage=True),
    ],
)
def test_truth_values_are_no_numbers(call):
    with pytest.raises(InputError):
        call()
