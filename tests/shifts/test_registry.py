"""The registry of shifts: names, options, suites, users' own shifts, and the errors of each mistake."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import driftcal
from driftcal.errors import ImagesError, InputError, UnknownName
from driftcal.shifts import SHIFTS, SUITES, Shift
from driftcal.shifts.affine import AFFINE
from driftcal.shifts.catalogue import DESCRIPTIONS
from driftcal.shifts.corruptions.corruption import CORRUPTIONS
from driftcal.shifts.corruptions.severities import TABLES

IMAGES = np.full((3, 8, 8, 3), 0.5, np.float32)


def test_the_registry_holds_every_shift() -> None:
    assert len(AFFINE) == 9
    assert len(CORRUPTIONS) == 19
    assert {"gaussian", "h_mixture", "tabular_noise", *AFFINE, *CORRUPTIONS} <= set(SHIFTS)
    assert all(isinstance(shift, Shift) and shift.name == name for name, shift in SHIFTS.items())
    assert set(DESCRIPTIONS) <= set(SHIFTS)
    for table in TABLES.values():
        assert set(table) == set(CORRUPTIONS)
        assert all(len(severities) == 5 for severities in table.values())


def test_suites_list_shifts_and_levels() -> None:
    sizes = {name: (len(suite.shifts), len(suite)) for name, suite in SUITES.items()}
    assert sizes == {
        "affine": (9, 90), "imagenet-c": (19, 114), "cifar10-c": (19, 114), "h-tuning": (4, 24), "all": (28, 204),
        "tabular": (7, 42), "text": (6, 36), "series": (6, 36),
    }  # fmt: skip
    suite = driftcal.get_suite("imagenet-c")
    assert list(suite)[:2] == [(suite.shifts[0], 0), (suite.shifts[0], 1)]
    assert "snow" in str(suite)
    assert driftcal.get_suite(suite) is suite
    with pytest.raises(UnknownName, match="did you mean 'affine'"):
        driftcal.get_suite("afine")


def test_the_shifts_of_a_suite_use_its_parameters() -> None:
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
        (lambda: driftcal.get_suite(["fog"]), InputError, "a suite must be a name or a Suite; got ['fog']"),
        (lambda: driftcal.register_shift("mine", 3), InputError, "must be callable"),
        (lambda: driftcal.register_shift("mine", lambda x, level: x, levels=[1, 2]), InputError, "count 0, 1, 2"),
    ],
)  # fmt: skip
def test_mistakes_name_the_argument_and_the_way_out(call, error, message) -> None:
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
    arguments = {}

    def mine(inputs, level, *, seed, indices):
        arguments.update(level=level, seed=seed, indices=indices.tolist())
        return inputs[:, :4]

    try:
        shift = driftcal.register_shift("test_mine", mine)
        assert shift.levels is None
        with pytest.raises(InputError, match="must keep the shape"):
            shift(IMAGES, 0.5, seed=9, indices=[4, 5, 6])
        assert arguments == {"level": 0.5, "seed": 9, "indices": [4, 5, 6]}
    finally:
        del SHIFTS["test_mine"]


def test_listing_shifts_needs_no_compiler() -> None:
    code = "import sys, driftcal; driftcal.get_shift('fog'); driftcal.get_suite('all'); print('numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_a_users_function_gets_a_data_frame_and_returns_one() -> None:
    frame = pd.DataFrame({"age": [20.0, 30.0], "colour": ["red", "blue"]}, index=["first", "second"])
    shift = driftcal.register_shift("test_older", lambda inputs, level: inputs.assign(age=inputs["age"] + level))
    try:
        assert_frame_equal(shift(frame, 5.0), frame.assign(age=[25.0, 35.0]))
        assert_frame_equal(shift(frame, 0), frame)
        assert shift(frame.to_numpy()[:, :1], 0).shape == (2, 1)
    finally:
        del SHIFTS["test_older"]
