"""Noise on feature matrices: in the units of each feature, which keeps its mean and variance."""

from __future__ import annotations

import re

import numpy as np
import pytest

import driftcal
from driftcal.errors import InputError, NotFittedError


def test_noise_scales_with_the_features() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack(
        [rng.normal(0, 1, 4000), rng.normal(50, 100, 4000), np.full(4000, 7.0), rng.integers(0, 3, 4000)]
    )
    shift = driftcal.get_shift("tabular_noise").fit(x, categorical=[3])
    assert shift(x, 0).tobytes() == x.tobytes()
    out = shift(x, 0.25, seed=1)
    assert out[:, :2].mean(axis=0) == pytest.approx(x[:, :2].mean(axis=0), abs=5)
    assert out[:, :2].std(axis=0) == pytest.approx(x[:, :2].std(axis=0), rel=0.05)

    def noise(level):
        centre = x.mean(axis=0)
        return (shift(x, level, seed=1) - centre) * np.sqrt(1 + level) - (x - centre)

    assert noise(0.25)[:, 0].std() == pytest.approx(0.5, rel=0.05)
    assert noise(0.25)[:, 1].std() == pytest.approx(50, rel=0.05)
    assert np.array_equal(out[:, 2], x[:, 2])
    assert set(out[:, 3]) == {0, 1, 2}
    assert np.mean(out[:, 3] != x[:, 3]) == pytest.approx(0.2 * 2 / 3, abs=0.02)
    order = rng.permutation(4000)[:100]
    assert np.array_equal(shift(x[order], 0.25, seed=1, indices=order), out[order])
    assert np.allclose(noise(1.0)[:, :2], 2 * noise(0.25)[:, :2])


def test_missing_values_dtypes_and_categories_stay() -> None:
    x = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]], np.float32)
    out = driftcal.TabularNoise().fit(x)(x, 1.0)
    assert np.isnan(out[0, 1])
    assert out.dtype == np.float32
    assert driftcal.TabularNoise().fit(np.arange(6).reshape(3, 2))(np.arange(6).reshape(3, 2), 0.1).dtype == np.float64
    mixed = np.array([[1.5, "red"], [2.5, "blue"], [0.5, "red"]], object)
    shifted = driftcal.TabularNoise().fit(mixed, categorical=[-1])(mixed, 100.0)
    assert set(shifted[:, 1]) <= {"red", "blue"}
    assert "categorical [1]" in repr(driftcal.TabularNoise().fit(mixed, categorical=[1]))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: driftcal.get_shift("tabular_noise")(np.zeros((2, 2)), 1), NotFittedError, ".fit(x_val"),
        (lambda: driftcal.TabularNoise().fit(np.zeros(3)), InputError, "features[None]"),
        (lambda: driftcal.TabularNoise().fit(np.zeros((0, 3))), InputError, "at least one sample"),
        (lambda: driftcal.TabularNoise().fit(np.zeros((2, 3)), categorical=[3]), InputError, "from 0 to 2; it holds 3"),
        (lambda: driftcal.TabularNoise().fit(np.zeros((2, 3)))(np.zeros((2, 4)), 1), InputError, "Fit again"),
        (lambda: driftcal.TabularNoise().fit(np.array([["a"], ["b"]])), InputError, "categorical=[0]"),
        (lambda: driftcal.TabularNoise().fit(np.array([[np.inf], [1]])), InputError, "column 0 holds inf"),
    ],
)
def test_mistakes_name_the_way_out(call, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_missing_categories_stay_missing_and_are_not_drawn() -> None:
    x = np.column_stack([np.arange(400.0), np.arange(400) % 3])
    x[::4, 1] = np.nan
    out = driftcal.TabularNoise().fit(x, categorical=[1])(x, 9.0)
    assert np.array_equal(np.isnan(out[:, 1]), np.isnan(x[:, 1]))
    assert set(out[~np.isnan(x[:, 1]), 1]) == {0, 1, 2}
