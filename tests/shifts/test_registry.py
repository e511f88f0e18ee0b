"""Names, options, suites, users' own shifts, feature matrices; and what each mistake says."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import driftcal
from driftcal.errors import ImagesError, InputError, NotFittedError, UnknownName
from driftcal.shifts import SHIFTS, SUITES, Shift
from driftcal.shifts.affine import AFFINE
from driftcal.shifts.catalogue import ABOUT
from driftcal.shifts.corruptions.corruption import CORRUPTIONS
from driftcal.shifts.corruptions.severities import TABLES

IMAGES = np.full((3, 8, 8, 3), 0.5, np.float32)


def test_the_registry_holds_the_28_and_more() -> None:
    assert len(AFFINE) == 9
    assert len(CORRUPTIONS) == 19
    assert {"gaussian", "h_mixture", "tabular_noise", *AFFINE, *CORRUPTIONS} <= set(SHIFTS)
    assert all(isinstance(shift, Shift) and shift.name == name for name, shift in SHIFTS.items())
    assert set(ABOUT) <= set(SHIFTS)
    for table in TABLES.values():
        assert set(table) == set(CORRUPTIONS)
        assert all(len(rows) == 5 for rows in table.values())


def test_suites_list_shifts_and_levels() -> None:
    sizes = {name: (len(suite.shifts), len(suite)) for name, suite in SUITES.items()}
    assert sizes == {
        "affine": (9, 90), "imagenet-c": (19, 114), "cifar10-c": (19, 114), "h-tuning": (4, 24), "all": (28, 204),
        "tabular": (7, 42),
    }  # fmt: skip
    suite = driftcal.get_suite("imagenet-c")
    assert list(suite)[:2] == [(suite.shifts[0], 0), (suite.shifts[0], 1)]
    assert "snow" in str(suite)
    assert driftcal.get_suite(suite) is suite
    with pytest.raises(UnknownName, match="did you mean 'affine'"):
        driftcal.get_suite("afine")


def test_a_suites_shifts_carry_its_parameters() -> None:
    fog = next(shift for shift in driftcal.get_suite("cifar10-c").shifts if shift.name == "fog")
    large = np.full((1, 96, 96, 3), 0.5, np.float32)
    assert np.array_equal(fog(large, 1), driftcal.get_shift("fog", table="cifar10-c")(large, 1))
    assert not np.array_equal(fog(large, 1), driftcal.get_shift("fog")(large, 1))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: driftcal.get_shift("gausian"), UnknownName, "did you mean 'gaussian'"),
        (lambda: driftcal.get_shift(7), InputError, "a shift must be a name or a shift; got 7"),
        (lambda: driftcal.get_shift("fog", tabel="x"), InputError, "no option 'tabel'; it takes table"),
        (lambda: driftcal.get_shift("shear", clip=True), InputError, "it takes none"),
        (lambda: driftcal.get_shift("fog", table="imagenet"), UnknownName, "did you mean 'imagenet-c'"),
        (lambda: driftcal.get_shift("fog")(IMAGES, 6), InputError, "whole number from 0 (untouched) to 5; got 6"),
        (lambda: driftcal.get_shift("fog")(IMAGES, -1), InputError, "got -1"),
        (lambda: driftcal.get_shift("fog")(IMAGES, 2.5), InputError, "position in the shift's table"),
        (lambda: driftcal.get_shift("fog")(IMAGES, "3"), InputError, "got '3'"),
        (lambda: driftcal.get_shift("fog")(IMAGES, True), InputError, "got True"),
        (lambda: driftcal.get_shift("shear")(IMAGES, 10), InputError, "from 0 (untouched) to 9"),
        (lambda: driftcal.get_shift("gaussian")(IMAGES, -0.1), InputError, "square a standard deviation"),
        (lambda: driftcal.get_shift("gaussian")(IMAGES, float("nan")), InputError, "finite number"),
        (lambda: driftcal.get_shift("gaussian")(IMAGES, float("inf")), InputError, "finite number"),
        (lambda: driftcal.get_shift("fog")(IMAGES, 1, seed=-1), InputError, "seed must be a whole number"),
        (lambda: driftcal.get_shift("fog")(IMAGES, 1, seed=0.5), InputError, "Try seed=0"),
        (lambda: driftcal.get_shift("fog")(IMAGES, 1, indices=[1, 2]), InputError, "each of the 3 inputs"),
        (lambda: driftcal.get_shift("fog")(IMAGES, 1, indices=[0, -2, 1]), InputError, "position 1 holds -2"),
        (lambda: driftcal.get_shift("fog")(IMAGES * 255, 1), ImagesError, "pass uint8, or divide by 255"),
        (lambda: driftcal.get_shift("fog")(IMAGES - 1, 0), ImagesError, "normalised for a model"),
        (lambda: driftcal.get_shift("fog")(IMAGES + 0.505, 1), ImagesError, "Clip them"),
        (lambda: driftcal.get_shift("fog")(IMAGES[0], 1), ImagesError, "images[None]"),
        (lambda: driftcal.get_shift("fog")(IMAGES[..., 0], 1), ImagesError, "images[..., None]"),
        (lambda: driftcal.get_shift("fog")(np.moveaxis(IMAGES, 3, 1), 1), ImagesError, "np.moveaxis(images, 1, -1)"),
        (lambda: driftcal.get_shift("fog")(IMAGES[:, :7], 1), ImagesError, "at least 8 x 8"),
        (lambda: driftcal.get_shift("fog")(IMAGES.astype(int), 1), ImagesError, "astype('uint8')"),
        (lambda: driftcal.get_shift("gaussian")(np.zeros((5, 4)), 1), ImagesError, "tabular_noise"),
        (lambda: driftcal.get_shift("fog")(np.zeros((1, 9, 9, 4), np.float32), 1), ImagesError, "grey and RGB"),
        (lambda: driftcal.register_shift("fog", lambda x, level: x), InputError, "Choose another"),
        (lambda: driftcal.register_shift("mine", 3), InputError, "must be callable"),
        (lambda: driftcal.register_shift("mine", lambda x, level: x, levels=[1, 2]), InputError, "count 0, 1, 2"),
    ],
)  # fmt: skip
def test_mistakes_name_argument_wish_fact_and_way_out(call, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_the_first_bad_image_is_named() -> None:
    images = np.repeat(IMAGES, 2000, axis=0)
    images[4321, 2, 3, 1] = np.nan
    with pytest.raises(ImagesError, match=re.escape("image 4321 holds NaN at (row, column, channel) (2, 3, 1)")):
        driftcal.get_shift("gaussian")(images, 0.1)


def test_a_users_function_is_a_shift_in_one_line() -> None:
    darker = driftcal.register_shift("test_darker", lambda images, level: images * (1 - level / 10), levels=range(6))
    try:
        assert darker is driftcal.get_shift("test_darker")
        assert np.array_equal(darker(IMAGES, 0), IMAGES)
        assert np.allclose(darker(IMAGES, 5), 0.25)
        with pytest.raises(InputError, match="from 0"):
            darker(IMAGES, 6)
    finally:
        del SHIFTS["test_darker"]


def test_a_users_function_may_take_seed_and_indices_and_must_keep_the_shape() -> None:
    seen = {}

    def mine(inputs, level, *, seed, indices):
        seen.update(level=level, seed=seed, indices=indices.tolist())
        return inputs[:, :4]

    try:
        shift = driftcal.register_shift("test_mine", mine)
        assert shift.levels is None
        with pytest.raises(InputError, match="must keep the shape"):
            shift(IMAGES, 0.5, seed=9, indices=[4, 5, 6])
        assert seen == {"level": 0.5, "seed": 9, "indices": [4, 5, 6]}
    finally:
        del SHIFTS["test_mine"]


def test_tabular_noise_scales_with_the_features() -> None:
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


def test_tabular_noise_keeps_gaps_types_and_names() -> None:
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
        (lambda: driftcal.TabularNoise().fit(np.zeros((0, 3))), InputError, "at least one row"),
        (lambda: driftcal.TabularNoise().fit(np.zeros((2, 3)), categorical=[3]), InputError, "of 3 features; got 3"),
        (lambda: driftcal.TabularNoise().fit(np.zeros((2, 3)))(np.zeros((2, 4)), 1), InputError, "Fit again"),
        (lambda: driftcal.TabularNoise().fit(np.array([["a"], ["b"]])), InputError, "categorical=[0]"),
        (lambda: driftcal.TabularNoise().fit(np.array([[np.inf], [1]])), InputError, "column 0 holds inf"),
    ],
)
def test_tabular_mistakes(call, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_listing_shifts_needs_no_compiler() -> None:
    code = "import sys, driftcal; driftcal.get_shift('fog'); driftcal.get_suite('all'); print('numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
