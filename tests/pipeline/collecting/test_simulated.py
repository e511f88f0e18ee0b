"""Simulated shifts for windowed calibrators: how many passes, which samples, and who uses them."""

import numpy as np
import pytest

import driftcal
from driftcal.data import from_arrays
from driftcal.models import open_model
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.simulated import simulate

N = 240


@pytest.fixture(scope="module")
def task():
    """A linear model of small images that is over-confident."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(8 * 8 * 3, 4))
    x = rng.random((N, 8, 8, 3), np.float32)

    def model(images):
        return (images - 0.5).reshape(len(images), -1) @ weights * 2

    y = (model(x) / 2 + rng.gumbel(size=(N, 4)) * 2).argmax(axis=1)
    return model, x, y


def test_all_conditions_together_take_at_most_the_passes_that_are_allowed(task):
    model, x, y = task
    source = from_arrays(x, y)
    collector = Collector(open_model(model), source)
    simulated = simulate(collector, source, 9.0)
    assert sum(map(len, simulated.indices)) <= 9 * N
    assert collector.evaluated == sum(map(len, simulated.indices))
    assert len(simulated.families) < 60, "few samples: every second level only"
    assert len(set(np.concatenate(simulated.indices).tolist())) > 0.9 * N, "conditions take turns with the samples"
    logits, labels, numbers, families = simulated.stacked(y)
    assert len(logits) == len(labels) == len(numbers)
    assert numbers.max() == len(families) - 1


def test_a_selection_keeps_images_and_leaves_out_a_family(task):
    model, x, y = task
    source = from_arrays(x, y)
    simulated = simulate(Collector(open_model(model), source), source, 9.0)
    kept = np.arange(N) % 2 == 0
    selected = simulated.selected(kept, leave_out="noise")
    assert "noise" not in selected.families
    assert kept[np.concatenate(selected.indices)].all()
    assert all(len(i) == len(z) for i, z in zip(selected.indices, selected.logits, strict=True))


def test_tune_fits_window_ts_on_simulated_shifts_and_says_how_many_inputs_they_took(task):
    model, x, y = task
    calibrated = driftcal.tune(model, x, y, method="window-ts", n_levels=4)
    record = calibrated.perturbation
    assert record["simulated"]["inputs"] <= record["passes"] * N
    assert calibrated.windowed_calibrator.follows_ == 1
    live = calibrated.windowed(50)
    np.testing.assert_allclose(live.predict_proba(x[:120]).sum(axis=1), 1)
    assert driftcal.tune(model, x, y, method="ts", n_levels=4).perturbation.get("simulated") is None


def test_feature_tables_have_simulated_shifts_of_their_own():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 6))
    weights = rng.normal(size=(6, 3))
    y = (x @ weights + rng.gumbel(size=(N, 3))).argmax(axis=1)
    calibrated = driftcal.tune(lambda rows: 2 * rows @ weights, x, y, method="window-ts", n_levels=4)
    assert "noise" in calibrated.perturbation["simulated"]["families"]
