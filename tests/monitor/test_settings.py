"""What a monitor is told: settings that say their own wish, probabilities as the model has them, honest intervals."""

import time

import numpy as np
import pytest

import driftcal
from driftcal.calibrators.scaling.temperature import clean_temperature
from driftcal.drift.reference import DriftReference
from driftcal.errors import InputError, UnknownName
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.unchecked_samples import usable_rows


@pytest.mark.parametrize(
    ("setting", "wish"),
    [
        ({"every": "1h"}, "every must be a positive number.*'1h'"),
        ({"every": True}, "every must be a positive number.*True"),
        ({"every": float("nan")}, "every must be a positive number"),
        ({"every": float("inf")}, "every must be a positive number"),
        ({"low": None}, "low must be a confidence from 0 to 1; it is None"),
        ({"keep": 1.5}, "keep must be a whole number of windows"),
        ({"keep": 0}, "keep must be a whole number of windows, at least 1"),
        ({"remember": -1}, "remember must be a whole number of rows"),
        ({"alpha": 1}, "alpha must be a probability above 0 and below 1"),
        ({"tolerance": 0.5}, "tolerance must be a difference"),
        ({"false_alarm": 0.5}, "false_alarm must be a share"),
    ],
)
def test_a_setting_says_its_own_wish(world, setting, wish):
    with pytest.raises(InputError, match=wish):
        world.monitor(**setting)


def test_unknown_settings_are_said(world):
    with pytest.raises(UnknownName, match="did you mean 'every'"):
        world.monitor(evry=5)


def test_numbers_of_numpy_are_numbers(world, tmp_path):
    monitor = world.monitor(every=np.int64(50), keep=np.int32(3), low=np.float32(0.5))
    assert monitor.settings == world.monitor(every=50, keep=3).settings
    monitor.save(tmp_path / "m.safetensors")


def test_forgetting_costs_nothing_per_call(world):
    monitor = world.monitor(remember=100_000)
    monitor.waiting.update((f"old {i}", (0, 0, 0)) for i in range(200_000))
    monitor._forget()
    assert next(iter(monitor.waiting)) == "old 100000"
    start = time.perf_counter()
    for i in range(2000):
        monitor._remember(f"new {i}", (0, 0, 0))
        monitor._forget()
    assert time.perf_counter() - start < 1  # copying the names took ten
    assert len(monitor.waiting) == 100_000


def test_probabilities_are_floored_as_by_the_model(world):
    p = np.array([[0.0, 0.0, 1.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.50001]], np.float32)
    rows, good, _ = usable_rows(p, 3, "probabilities")
    model = driftcal.open_model(lambda batch: batch, outputs="probabilities", name="itself")
    assert good.all()
    np.testing.assert_array_equal(rows, model.logits(p))
    monitor = world.monitor(inputs="probabilities")
    assert monitor.update(p) == 3
    assert 0 < monitor.windows()[0].confidence <= 1


def test_the_interval_knows_how_few_validation_rows_there_were(world):
    covered = []
    for run in range(60):
        y, ladder = world.rows(300, world.noises, seed=[1, run])
        calibrator = driftcal.TemperatureScaling().fit(np.concatenate(ladder), np.tile(y, len(ladder)))
        monitor = Monitor(
            calibrator,
            drift_reference=DriftReference.of(ladder, y, calibrator, temperature=clean_temperature(ladder[0], y)),
            every=5000,
        )
        true, (logits,) = world.rows(5000, (1.0,), seed=[2, run])
        monitor.update(logits)
        low, high = monitor.windows()[0].interval
        covered.append(low <= (logits.argmax(axis=1) == true).mean() <= high)
    assert np.mean(covered) > 0.9  # 0.65 with the sampling error of the window alone
