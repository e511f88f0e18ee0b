"""Simulated shifts: laws of every change, and the list of conditions."""

import numpy as np
import pytest

from driftcal.errors import InputError
from driftcal.shifts import SUITES, get_shift, simulated_conditions
from driftcal.shifts.simulated.image_changes import IMAGE_CHANGES
from driftcal.shifts.tabular.drifts import SIMULATED_DRIFTS

IMAGES = np.random.default_rng(0).random((40, 16, 20, 3), np.float32)
FEATURES = np.random.default_rng(1).normal(5, 2, (300, 6))
CHANGES = pytest.mark.parametrize("name", list(IMAGE_CHANGES))


@CHANGES
@pytest.mark.parametrize("channels", [1, 3])
def test_a_changed_image_is_an_image_that_does_not_depend_on_its_batch(name, channels):
    shift, images = get_shift(name), IMAGES[..., :channels]
    assert shift(images, 0).tobytes() == images.tobytes()
    assert shift(images[:0], 3).shape == (0, 16, 20, channels)
    for level in (1, 5):
        whole = shift(images, level, seed=3)
        assert whole.dtype == np.float32
        assert whole.min() >= 0
        assert whole.max() <= 1
        order = np.random.default_rng(1).permutation(40)[:7]
        assert shift(images[order], level, seed=3, indices=order).tobytes() == whole[order].tobytes()


@CHANGES
def test_a_higher_level_changes_more(name):
    rows, columns = np.meshgrid(np.linspace(0, 3, 32), np.linspace(0, 4, 32), indexing="ij")
    smooth = 0.5 + 0.45 * np.sin(rows + np.arange(24)[:, None, None]) * np.cos(columns)
    images = np.stack([smooth, smooth**2, 1 - smooth], axis=3).astype(np.float32)
    shift = get_shift(name)
    distances = [np.abs(shift(images, level) - images).mean() for level in shift.levels]
    assert distances[1] > 0
    assert distances == sorted(distances)


def test_resampling_keeps_constant_images():
    constant = np.full((2, 17, 30, 3), 0.3, np.float32)
    for name in ("downscale", "soften", "crop", "zoom_out"):
        np.testing.assert_allclose(get_shift(name)(constant, 4), constant, atol=1e-6)


def test_a_crop_shows_a_part_and_a_smaller_image_shows_all():
    ramp = np.broadcast_to(np.linspace(0, 1, 32, dtype=np.float32)[None, :, None, None], (9, 32, 32, 1))
    cropped, smaller = get_shift("crop")(ramp, 5), get_shift("zoom_out")(ramp, 4)
    np.testing.assert_allclose(np.ptp(cropped, axis=(1, 2, 3)), 0.5, atol=0.01)
    np.testing.assert_allclose(np.ptp(smaller, axis=(1, 2, 3)), 1, atol=0.05)


@pytest.mark.parametrize("name", list(SIMULATED_DRIFTS))
def test_a_drifted_table_does_not_depend_on_its_batch(name):
    shift = get_shift(name).fit(FEATURES)
    whole = shift(FEATURES, 5, seed=2)
    part = np.arange(30, 40)
    np.testing.assert_array_equal(shift(FEATURES[part], 5, seed=2, indices=part), whole[part])
    distances = [np.abs(shift(FEATURES, level) - FEATURES).mean() for level in shift.levels]
    assert distances[0] == 0
    assert distances[1] > 0
    assert distances == sorted(distances)


def test_tabular_drifts_do_what_they_say():
    drifted = {name: get_shift(name).fit(FEATURES)(FEATURES, 5) for name in SIMULATED_DRIFTS}
    z = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    ratio = (drifted["feature_scaled"] - FEATURES.mean(axis=0)) / (FEATURES - FEATURES.mean(axis=0))
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape))
    np.testing.assert_allclose(np.abs(drifted["feature_tilted"] - FEATURES) / FEATURES.std(axis=0) <= 3, True)
    rounded = (drifted["feature_rounded"] - FEATURES.mean(axis=0)) / FEATURES.std(axis=0) / 2.5
    np.testing.assert_allclose(rounded, np.round(z / 2.5), atol=1e-9)
    dropped = drifted["feature_dropped"] != FEATURES
    assert abs(dropped.mean() - 0.5) < 0.05
    assert set(np.broadcast_to(FEATURES.min(axis=0), dropped.shape)[dropped]) >= set(
        drifted["feature_dropped"][dropped]
    )
    redrawn = (drifted["feature_redrawn"] != FEATURES).mean(axis=0)
    assert sorted(np.round(redrawn)) == [0, 0, 1, 1, 1, 1]


def test_categories_are_replaced_by_categories():
    features = np.column_stack([FEATURES[:, 0], np.arange(300) % 3])
    for name in SIMULATED_DRIFTS:
        assert set(get_shift(name).fit(features, categorical=[1])(features, 5)[:, 1]) <= {0.0, 1.0, 2.0}


def test_conditions_are_separate_shifts_of_no_suite():
    images, features = simulated_conditions(), simulated_conditions("features", FEATURES)
    of_suites = {shift.name for suite in SUITES.values() for shift in suite.shifts}
    for conditions in (images, features):
        assert len({condition.name for condition in conditions}) == len(conditions)
        assert not {condition.shift.name for condition in conditions} & of_suites
        assert len({condition.family for condition in conditions}) >= 6
    for condition in features:
        assert condition.shift(FEATURES, condition.level).shape == FEATURES.shape
    with pytest.raises(InputError, match="'images', 'features', 'text' or 'series'"):
        simulated_conditions("sounds")
