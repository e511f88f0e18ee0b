"""Drifts of feature matrices: each does what its level says, in any batch, and changes nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import driftcal
from driftcal.errors import InputError, NotFittedError
from driftcal.shifts.tabular.drifts import DRIFTS

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(5, 2, 4000), RNG.normal(size=4000), RNG.integers(0, 3, 4000), np.full(4000, 7.0)])
FITTED = {name: driftcal.get_shift(name).fit(X, categorical=[2]) for name in DRIFTS}
NAMES = pytest.mark.parametrize("name", list(DRIFTS))


@NAMES
@given(level=st.integers(0, 5), seed=st.integers(0, 9), first=st.integers(0, 3990), count=st.integers(0, 10))
def test_a_sample_does_not_depend_on_its_batch(name, level, seed, first, count):
    whole = FITTED[name](X, level, seed=seed)
    indices = np.arange(first, first + count)
    np.testing.assert_array_equal(FITTED[name](X[indices], level, seed=seed, indices=indices), whole[indices])
    if level == 0:
        np.testing.assert_array_equal(whole, X)


@NAMES
def test_dtypes_missing_values_and_constant_columns_stay(name):
    with_missing = X[:50].astype(np.float32)
    with_missing[3, 0] = np.nan
    out = FITTED[name](with_missing, 5)
    assert out.dtype == np.float32
    assert np.isnan(out).sum() == 1
    assert np.isnan(out[3, 0])
    np.testing.assert_array_equal(out[:, 3], with_missing[:, 3])
    assert FITTED[name](np.ones((2, 4), int), 1).dtype == np.float64
    assert FITTED[name].label(0) == "clean"


def test_each_drift_does_what_its_level_says():
    sd, mean = X[:, 0].std(), X[:, 0].mean()
    assert np.allclose(abs(FITTED["feature_offset"](X, 3)[:, 0] - X[:, 0]), sd)
    assert np.allclose(FITTED["feature_spread"](X, 3)[:, 0] - mean, 2 * (X[:, 0] - mean))
    assert np.allclose(FITTED["feature_shrink"](X, 5)[:, 0] - mean, 0.1 * (X[:, 0] - mean))
    for name in ("feature_offset", "feature_spread", "feature_shrink", "feature_outliers"):
        np.testing.assert_array_equal(FITTED[name](X, 5)[:, 2], X[:, 2])  # a category has no units
    changed = FITTED["feature_missing"](X, 4)[:, :2] != X[:, :2]
    assert abs(changed.mean() - 0.45) < 0.02
    assert (FITTED["feature_missing"](X, 3)[:, :2] != X[:, :2])[~changed].sum() == 0  # a higher level holds a lower one
    assert set(FITTED["feature_missing"](X, 5)[:, 2].tolist()) == {0.0, 1.0, 2.0}
    far = FITTED["feature_outliers"](X, 5)[:, 0] - X[:, 0]
    assert abs((far != 0).mean() - 0.2) < 0.02
    assert np.allclose(abs(far[far != 0]), 6 * sd)
    shuffled = FITTED["feature_shuffled"](X, 5)
    assert abs(shuffled[:, 0].mean() - mean) < 0.1
    assert abs(shuffled[:, 0].std() - sd) < 0.1
    assert abs(np.corrcoef(shuffled[:, 0], X[:, 0])[0, 1] - 0.4) < 0.05
    dead = FITTED["feature_dead"](X, 5)
    n_replaced = sum(len(np.unique(dead[:, j])) == 1 for j in (0, 1, 2))
    assert n_replaced in (1, 2)  # two of four columns; one of them may be the constant one


def test_columns_are_drawn_by_the_seed():
    up = {tuple(FITTED["feature_offset"](X[:1], 1, seed=seed)[0, :2] > X[0, :2]) for seed in range(20)}
    assert len(up) == 4


def test_mistakes_name_the_way_out():
    with pytest.raises(NotFittedError, match=r"get_shift\('feature_dead'\)\.fit"):
        driftcal.get_shift("feature_dead")(X, 1)
    with pytest.raises(InputError, match="4 features"):
        FITTED["feature_dead"](X[:, :3], 1)
    with pytest.raises(InputError, match="whole number from 0"):
        FITTED["feature_dead"](X, 6)
    with pytest.raises(InputError, match="no option 'centre'"):
        driftcal.get_shift("feature_dead", centre=1)


def test_a_table_is_evaluated_under_its_own_suite(tmp_path):
    x, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x[::3], y[::3])
    validation = driftcal.open_source((x[1::3], y[1::3]), categorical=[0])
    tuned = driftcal.tune(model, validation, method="ts")
    results = driftcal.evaluate(tuned, x[2::3], y[2::3])
    assert results.suite == "tabular"
    assert [shift.name for shift in results.shifts] == list(DRIFTS)
    assert "under shift" in repr(results)
    assert len(repr(results).splitlines()) == 5
    test = driftcal.open_source((x[2::3], y[2::3]), categorical=[0])
    again = driftcal.evaluate(tuned, test)
    assert again.rows == results.rows, "categorical columns are those that the model was tuned with"
    assert driftcal.write_report(results, tmp_path / "report.html").stat().st_size > 10_000
    with pytest.raises(InputError, match=r"holds features, and the suite is 'affine'. Take 'tabular'"):
        driftcal.evaluate(tuned, x[2::3], y[2::3], suite="affine")
    digits = driftcal.open_source("digits").subset(np.arange(20))
    with pytest.raises(InputError, match=r"holds images, and the suite is 'tabular'. Take 'affine'"):
        driftcal.evaluate(tuned, digits, suite="tabular")
