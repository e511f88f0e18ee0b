"""Data frames under the tabular shifts: columns, index and dtypes stay, and so do missing values."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

import driftcal
from driftcal.errors import InputError, UnknownName
from driftcal.pipeline.collecting.conditions import shift_identity
from driftcal.shifts.tabular.drifts import DRIFTS

RNG = np.random.default_rng(0)
N = 400
NUMBERS = pd.DataFrame(RNG.normal(size=(N, 3)) * [1, 10, 0.1] + [0, 5, 2], columns=["a", "b", "c"])
NUMBERS["code"] = RNG.integers(0, 4, N).astype(float)
NUMBERS.loc[3, "b"] = np.nan
NUMBERS.index = pd.Index([f"row {k}" for k in range(N)], name="key")


def with_missing(values, dtype, missing=None):
    values = list(values)
    values[7] = values[100] = missing
    return pd.Series(values, dtype=dtype)


MIXED = pd.DataFrame(
    {
        "float32": RNG.normal(size=N).astype(np.float32),
        "Float64": with_missing(RNG.normal(size=N), "Float64"),
        "int64": RNG.integers(-50, 50, N),
        "uint8": RNG.integers(0, 256, N).astype(np.uint8),
        "Int64": with_missing(RNG.integers(0, 9, N).tolist(), "Int64"),
        "bool": RNG.random(N) < 0.3,
        "boolean": with_missing((RNG.random(N) < 0.3).tolist(), "boolean"),
        "object": with_missing(RNG.choice(["x", "y", "z"], N).tolist(), object),
        "string": with_missing(RNG.choice(["left", "right"], N).tolist(), "string"),
        "category": with_missing(
            RNG.choice(["low", "mid", "high"], N), pd.CategoricalDtype(["low", "mid", "high"], ordered=True), np.nan
        ),
        "numbered": with_missing(RNG.integers(0, 3, N), pd.CategoricalDtype([0, 1, 2]), np.nan),
        "constant": np.full(N, 7),
    }
).set_index(pd.RangeIndex(1000, 1000 + N))
CATEGORICAL = ["bool", "boolean", "object", "string", "category", "numbered"]

NAMES = ["tabular_noise", *DRIFTS]
EVERY_SHIFT = pytest.mark.parametrize("name", NAMES)


def strong_level(name):
    return 1.0 if name == "tabular_noise" else 5


@EVERY_SHIFT
def test_a_frame_of_floats_equals_the_matrix_to_the_bit(name):
    matrix = NUMBERS.to_numpy()
    of_frame = driftcal.get_shift(name).fit(NUMBERS, categorical=["code"])
    of_matrix = driftcal.get_shift(name).fit(matrix, categorical=[3])
    assert shift_identity(of_frame) == shift_identity(of_matrix)
    for level in (0, 0.3, 9.0) if name == "tabular_noise" else range(6):
        out = of_frame(NUMBERS, level, seed=4)
        assert out.to_numpy().tobytes() == of_matrix(matrix, level, seed=4).tobytes()
        pd.testing.assert_index_equal(out.index, NUMBERS.index)
        pd.testing.assert_index_equal(out.columns, NUMBERS.columns)
    small = NUMBERS.astype(np.float32)
    out = of_frame(small, strong_level(name))
    assert (out.dtypes == np.float32).all()
    assert out.to_numpy().tobytes() == of_matrix(matrix.astype(np.float32), strong_level(name)).tobytes()


@EVERY_SHIFT
def test_columns_index_dtypes_and_missing_values_stay(name):
    before = MIXED.copy()
    out = driftcal.get_shift(name).fit(MIXED)(MIXED, strong_level(name), seed=2)
    assert_frame_equal(MIXED, before)  # the input is not touched
    pd.testing.assert_series_equal(out.dtypes, MIXED.dtypes)
    pd.testing.assert_index_equal(out.index, MIXED.index)
    assert_frame_equal(out.isna(), MIXED.isna())
    assert out["object"][1007] is None
    assert (out["constant"] == 7).all() or name == "feature_dead"
    for column in CATEGORICAL:
        assert set(out[column].dropna()) <= set(MIXED[column].dropna())


def test_noise_changes_every_column_that_varies():
    out = driftcal.get_shift("tabular_noise").fit(MIXED)(MIXED, 1.0, seed=2)
    for column in MIXED.columns.drop("constant"):
        changed = (out[column] != MIXED[column])[MIXED[column].notna()].mean()
        assert changed > 0.1, column
    shares = [(out[column] != MIXED[column])[MIXED[column].notna()].mean() for column in ("category", "object")]
    assert np.allclose(shares, 0.5 * 2 / 3, atol=0.07)  # half is redrawn, a third of it hits the same value
    assert out["int64"].std() == pytest.approx(MIXED["int64"].std(), rel=0.1)


def test_drifts_of_categories():
    frame = pd.DataFrame({"x": np.arange(100.0), "colour": ["red"] * 60 + ["blue"] * 40}).astype({"colour": "category"})
    fitted = {name: driftcal.get_shift(name).fit(frame) for name in DRIFTS}
    for name in ("feature_offset", "feature_spread", "feature_shrink", "feature_outliers"):
        pd.testing.assert_series_equal(fitted[name](frame, 5)["colour"], frame["colour"])
    missing = fitted["feature_missing"](frame, 5)["colour"]
    assert (missing[:60] == "red").all()
    assert 0.4 < (missing[60:] == "red").mean() < 0.8
    shuffled = fitted["feature_shuffled"](frame, 5)["colour"]
    assert 0.1 < (shuffled[:60] == "blue").mean() < 0.4
    assert 0.2 < (shuffled[60:] == "red").mean() < 0.55
    dead = [fitted["feature_dead"](frame, 5, seed=seed)["colour"] for seed in range(9)]
    assert {column.nunique() for column in dead} == {1, 2}


@EVERY_SHIFT
@settings(max_examples=20)
@given(seed=st.integers(0, 9), first=st.integers(0, N - 10), count=st.integers(0, 10))
def test_a_sample_of_a_frame_does_not_depend_on_its_batch(name, seed, first, count):
    shift = driftcal.get_shift(name).fit(MIXED)
    whole = shift(MIXED, strong_level(name), seed=seed)
    indices = np.arange(first, first + count)[::-1]
    assert_frame_equal(shift(MIXED.iloc[indices], strong_level(name), seed=seed, indices=indices), whole.iloc[indices])


@EVERY_SHIFT
def test_level_0_is_a_copy(name):
    out = driftcal.get_shift(name).fit(MIXED)(MIXED, 0)
    assert_frame_equal(out, MIXED)
    assert out is not MIXED


def test_whole_numbers_stay_in_the_range_of_their_dtype():
    frame = pd.DataFrame({"byte": np.arange(256).astype(np.uint8), "wide": np.arange(256) * (2**63 // 255)})
    for name in ("tabular_noise", "feature_offset", "feature_outliers"):
        out = driftcal.get_shift(name).fit(frame)(frame, strong_level(name))
        assert out["byte"].dtype == np.uint8
        # a value that wrapped around would be far on the other side
        assert (out["wide"] > -(2**62)).all() or name != "feature_offset"
    up = driftcal.get_shift("feature_spread").fit(frame)(frame, 5)
    assert up["byte"].iloc[0] == 0
    assert up["byte"].iloc[-1] == 255
    assert up["wide"].iloc[-1] > 2**62


def test_a_suite_takes_frames():
    suite = driftcal.get_suite("tabular").fit(MIXED, categorical=["int64"])
    for shift, level in suite:
        pd.testing.assert_series_equal(shift(MIXED, level).dtypes, MIXED.dtypes)
    assert "categorical [2, 5, 6, 7, 8, 9, 10]" in repr(driftcal.TabularNoise().fit(MIXED, categorical=["int64"]))


def test_columns_may_share_a_name():
    frame = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["a", "a"])
    out = driftcal.TabularNoise().fit(frame)(frame, 1.0)
    assert list(out.columns) == ["a", "a"]
    assert (out.to_numpy() != frame.to_numpy()).all()


def test_a_category_that_was_not_there_at_fit_time_is_no_error():
    shift = driftcal.TabularNoise().fit(pd.DataFrame({"colour": ["red", "blue"] * 50}))
    out = shift(pd.DataFrame({"colour": ["green"] * 1000}), 1.0)["colour"]
    assert set(out) == {"red", "blue", "green"}
    assert (out == "green").mean() == pytest.approx(0.5, abs=0.06)


def test_identities_tell_categories_apart():
    one, other = (pd.DataFrame({"colour": [name, "blue"] * 5}) for name in ("red", "green"))
    for name in NAMES:
        assert shift_identity(driftcal.get_shift(name).fit(one)) != shift_identity(driftcal.get_shift(name).fit(other))


def test_an_object_matrix_of_categories_drifts_too():
    matrix = NUMBERS[["a"]].assign(colour=np.where(NUMBERS["a"] > 0, "red", "blue")).to_numpy()
    for name in NAMES:
        out = driftcal.get_shift(name).fit(matrix, categorical=[1])(matrix, strong_level(name))
        assert out.dtype == object
        assert set(out[:, 1]) <= {"red", "blue"}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: driftcal.TabularNoise().fit(MIXED, categorical=["objekt"]), UnknownName, "did you mean 'object'"),
        (lambda: driftcal.TabularNoise().fit(MIXED, categorical=[12]), InputError, "0 to 11, or names of columns; it holds 12"),
        (lambda: driftcal.TabularNoise().fit(NUMBERS.to_numpy(), categorical=["a"]), InputError, "from 0 to 3; it holds 'a'"),
        (
            lambda: driftcal.TabularNoise().fit(pd.DataFrame({"when": pd.date_range("2024", periods=3)})),
            InputError,
            r"column 'when' is datetime64.*categorical=\['when'\]",
        ),
        (
            lambda: driftcal.TabularNoise().fit(pd.DataFrame({"a": [1.0, np.inf]})),
            InputError,
            "column 'a' holds inf",
        ),
        (
            lambda: driftcal.TabularNoise().fit(MIXED[["category"]])(
                MIXED[["category"]].apply(lambda column: column.cat.set_categories(["low"])), 9.0
            ),
            InputError,
            "column 'category' of dtype category must take values of the frame that the shift was fitted on",
        ),
    ],
)  # fmt: skip
def test_mistakes_name_the_column_and_the_way_out(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_matrix_does_not_import_pandas():
    code = """
import sys, numpy as np, driftcal
x = np.arange(20.0).reshape(10, 2)
for name in ("tabular_noise", "feature_shuffled"):
    driftcal.get_shift(name).fit(x)(x, 1)
print("pandas" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
