"""Shifts of time series: the identity at level 0, functions of seed and index, growing amounts, units of the channels."""

import numpy as np
import pytest

from driftcal.errors import InputError, NotFittedError
from driftcal.shifts import SUITES, get_shift, simulated_conditions
from driftcal.shifts.series.changes import SERIES_SHIFTS, SIMULATED_SERIES
from driftcal.shifts.series.series_shift import SeriesNoise

RNG = np.random.default_rng(0)
TIME = np.linspace(0, 6, 40)
#: Two channels in very different units, and a constant one.
SERIES = np.stack(
    [np.sin(TIME + RNG.random((30, 1))), 100 + 50 * np.cos(TIME * RNG.uniform(1, 2, (30, 1))), np.full((30, 40), 7.0)],
    axis=2,
).astype(np.float32)
NAMES = ["series_noise", *SERIES_SHIFTS, *SIMULATED_SERIES]


def fitted(name):
    return get_shift(name).fit(SERIES)


@pytest.mark.parametrize("name", NAMES)
def test_each_shift(name):
    shift = fitted(name)
    levels = (0.0, 0.1, 0.5, 1.0, 3.0, 10.0) if shift.levels is None else shift.levels
    shifted = [shift(SERIES, level, seed=3) for level in levels]
    np.testing.assert_array_equal(shifted[0], SERIES)
    distances = [
        np.abs(after - SERIES)[..., :2].mean(axis=(0, 1)) / SERIES[..., :2].std(axis=(0, 1)) for after in shifted
    ]
    # larger at each level, in both channels alike whatever their units
    assert (np.diff(np.mean(distances, axis=1)) > 0).all()
    assert max(distances[3]) < 6 * min(distances[3])
    for after in shifted:
        assert after.dtype == np.float32
        assert np.isfinite(after).all()
        np.testing.assert_array_equal(after[..., 2], SERIES[..., 2])
    some = np.array([4, 17])
    np.testing.assert_array_equal(shift(SERIES[some], levels[2], seed=3, indices=some), shifted[2][some])
    if name not in ("series_smooth", "series_rounded", "series_clipped", "series_warped"):  # nothing of these is random
        assert not np.array_equal(shift(SERIES, levels[2], seed=4), shifted[2])


def test_noise_keeps_mean_and_variance_of_a_channel():
    noisy = fitted("series_noise")(np.tile(SERIES, (40, 1, 1)), 30.0)
    np.testing.assert_allclose(noisy.mean(axis=(0, 1)), SERIES.mean(axis=(0, 1)), rtol=0.02, atol=0.02)
    np.testing.assert_allclose(noisy.std(axis=(0, 1))[:2], SERIES.std(axis=(0, 1))[:2], rtol=0.05)


def test_a_drop_out_holds_a_value():
    out = fitted("series_dropout")(SERIES, 5)[0, :, 0]
    values, counts = np.unique(out, return_counts=True)
    assert counts.max() >= 0.7 * 40
    assert set(values) <= set(SERIES[0, :, 0])


def test_missing_values_stay():
    series = SERIES.copy()
    series[0, 3, 0] = np.nan
    assert np.isnan(get_shift("series_drift").fit(series)(series, 2)[0, 3, 0])
    assert np.isfinite(get_shift("series_drift").fit(series)(series, 2)[1:]).all()


def test_no_simulated_shift_is_in_the_suite():
    conditions = simulated_conditions("series", SERIES)
    assert {condition.shift.name for condition in conditions} == {"series_noise", *SIMULATED_SERIES}
    assert not {shift.name for shift in SUITES["series"].shifts} & {condition.shift.name for condition in conditions}
    assert all(condition.shift(SERIES[:2], condition.level).shape == (2, 40, 3) for condition in conditions)
    assert len({condition.family for condition in conditions}) == 6


def test_mistakes_name_the_way_out():
    with pytest.raises(NotFittedError, match=r"get_shift\('series_drift'\)\.fit"):
        get_shift("series_drift")(SERIES, 1)
    with pytest.raises(InputError, match="the 3 channels that the shift"):
        fitted("series_drift")(SERIES[..., :2], 1)
    with pytest.raises(InputError, match=r"x\[\.\.\., None\]"):
        SeriesNoise().fit(SERIES[..., 0])


def test_smoothing_leaves_missing_values_out():
    shift, series = fitted("series_smooth"), SERIES.copy()
    series[0, 5, 0] = np.nan
    for level in (1, 5):
        smooth = shift(series, level)
        assert np.isnan(smooth).sum() == 1
        assert np.isnan(smooth[0, 5, 0])
        np.testing.assert_array_equal(smooth[1:], shift(SERIES, level)[1:])
    series[0, :, 0] = 3.0
    series[0, ::2, 0] = np.nan
    np.testing.assert_allclose(shift(series, 3)[0, 1::2, 0], 3.0, rtol=1e-6)
