"""Windowed calibrators: what adapting to a window must and must not do, for every one in the registry."""

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS, WindowedCalibrator, make_calibrator
from driftcal.calibrators.serialization import load
from driftcal.calibrators.windowed.level_temperature import last_used_level
from driftcal.errors import InputError, NoFiniteOptimum, NotFittedError, UnknownName
from driftcal.metrics import expected_calibration_error

NAMES = sorted(name for name, kind in CALIBRATORS.items() if kind.needs_window)
N_LEVELS, N, C = 6, 1500, 5


def level_data(level, seed=0, n=N):
    """Logits of an over-confident model, which is less often correct the higher the level."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    signal = 4.0 - 0.75 * level
    z = rng.normal(size=(n, C)) * 1.6
    z[np.arange(n), y] += signal
    return 3 * z, y


BY_LEVEL = [level_data(level, seed=level) for level in range(N_LEVELS)]
LOGITS, LABELS = np.concatenate([z for z, _ in BY_LEVEL]), np.concatenate([y for _, y in BY_LEVEL])
LEVELS = np.repeat(np.arange(N_LEVELS), N)


@pytest.fixture(scope="module", params=NAMES)
def fitted(request):
    return make_calibrator(request.param).fit(LOGITS, LABELS, levels=LEVELS)


def adapted_proba(fitted, logits, window):
    return fitted.adapt(window).predict_proba(logits)


def test_the_registry_has_both_windowed_calibrators():
    assert {"level-ts", "window-ts"} <= set(NAMES)


def test_an_adapted_calibrator_is_per_sample_keeps_the_accuracy_and_can_be_saved(fitted, tmp_path):
    window, _ = level_data(3, seed=50, n=100)
    adapted = fitted.adapt(window)
    assert not adapted.needs_window
    p = adapted.predict_proba(window)
    np.testing.assert_allclose(np.exp(adapted.predict_log_proba(window)), p, atol=1e-12)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-13)
    assert (p.argmax(axis=1) == window.argmax(axis=1)).all()
    again = load(adapted.save(tmp_path / "adapted.safetensors"))
    np.testing.assert_array_equal(again.predict_proba(window), p)


def test_a_file_keeps_all_that_adapting_needs(fitted, tmp_path):
    again = load(fitted.save(tmp_path / "cal.safetensors"))
    window, _ = level_data(2, seed=51, n=100)
    np.testing.assert_array_equal(again.predict_proba(window), fitted.predict_proba(window))
    np.testing.assert_array_equal(adapted_proba(again, window, window), adapted_proba(fitted, window, window))


def test_predict_proba_looks_at_each_sample_alone(fitted):
    batch, _ = level_data(4, seed=52, n=300)
    together, one_by_one = fitted.predict_proba(batch), [fitted.predict_proba(sample[None])[0] for sample in batch[:5]]
    np.testing.assert_array_equal(together[:5], one_by_one)
    np.testing.assert_array_equal(together, fitted.per_sample().predict_proba(batch))


def test_small_windows_get_the_per_sample_form(fitted):
    window, _ = level_data(4, seed=52, n=max(1, fitted.min_window - 1))
    np.testing.assert_allclose(adapted_proba(fitted, window, window), fitted.predict_proba(window), rtol=1e-12)
    np.testing.assert_allclose(fitted.windowed(50).predict_proba(window), fitted.predict_proba(window), rtol=1e-12)


def test_a_window_of_a_higher_level_lowers_the_confidence_of_the_same_logits(fitted):
    clean, _ = level_data(0, seed=53, n=400)
    shifted, _ = level_data(5, seed=54, n=400)
    near, far = (adapted_proba(fitted, clean, window).max(axis=1).mean() for window in (clean, shifted))
    assert near > far + 0.01


def test_the_order_of_a_window_and_a_constant_added_to_its_samples_do_not_matter(fitted):
    window, _ = level_data(2, seed=55, n=120)
    moved = np.round(window[::-1] * 2**20) / 2**20 + 2.0 ** np.random.default_rng(0).integers(-3, 8, (120, 1))
    np.testing.assert_allclose(
        adapted_proba(fitted, LOGITS[:50], moved), adapted_proba(fitted, LOGITS[:50], window), atol=1e-5
    )


def test_without_levels_all_samples_are_clean(fitted):
    name = next(n for n, kind in CALIBRATORS.items() if kind is type(fitted))
    z, y = BY_LEVEL[0]
    without, with_zeros = make_calibrator(name).fit(z, y), make_calibrator(name).fit(z, y, levels=np.zeros(N, int))
    per_sample = make_calibrator("ts").fit(z, y)
    np.testing.assert_array_equal(without.predict_proba(z), with_zeros.predict_proba(z))
    np.testing.assert_allclose(without.predict_proba(z), per_sample.predict_proba(z), atol=1e-9)


def test_the_window_is_the_last_samples_with_the_present_batch(fitted):
    live = fitted.windowed(60)
    z = [level_data(level, seed=60 + level, n=40)[0] for level in (0, 2, 4)]
    live.predict_proba(z[0])
    live.predict_log_proba(z[1])
    last = np.concatenate(z)[-60:]
    np.testing.assert_array_equal(live.predict_proba(z[2]), adapted_proba(fitted, z[2], last))


def test_a_larger_batch_is_cut_into_blocks_of_the_window_size(fitted):
    z, _ = level_data(2, seed=70, n=230)
    p = fitted.windowed(100).predict_proba(z)
    np.testing.assert_array_equal(p[:100], adapted_proba(fitted, z[:100], z[:100]))
    np.testing.assert_array_equal(p[100:200], adapted_proba(fitted, z[100:200], z[100:200]))
    np.testing.assert_array_equal(p[200:], adapted_proba(fitted, z[200:], z[130:]))


def test_windows_are_calibrated_on_every_level_down_to_the_last_used_one(fitted):
    for level in range(int(getattr(fitted, "last_level_", N_LEVELS - 1)) + 1):
        z, y = level_data(level, seed=100 + level, n=3000)
        assert expected_calibration_error(y, fitted.windowed(100).predict_proba(z)) < 0.075
    if not hasattr(fitted, "position"):
        return
    assert fitted.position(level_data(0, seed=7)[0]) < 0.3
    assert fitted.position(level_data(2, seed=8)[0]) == pytest.approx(2, abs=0.3)
    assert fitted.position(level_data(5, seed=9)[0]) == fitted.last_level_


def test_a_level_without_a_finite_temperature_takes_that_of_its_neighbour():
    z = np.concatenate([BY_LEVEL[0][0], BY_LEVEL[1][0], BY_LEVEL[1][0]])
    y = np.concatenate([BY_LEVEL[0][1], BY_LEVEL[1][1], BY_LEVEL[1][0].argmin(axis=1)])  # the last: worse than chance
    cal = make_calibrator("level-ts").fit(z, y, levels=np.repeat([0, 1, 2], N))
    assert cal.temperatures_[2] == cal.temperatures_[1]


def test_the_last_used_level_lies_60_percent_of_the_way_to_chance():
    assert last_used_level(np.array([0.9, 0.42, 0.1]), 0.1) == pytest.approx(1)
    assert last_used_level(np.array([0.9, 0.8]), 0.1) == 1  # levels that never get there are all used
    assert last_used_level(np.array([0.9, 0.6, 0.8, 0.24, 0.1]), 0.1) == pytest.approx(2.5)
    assert last_used_level(np.array([0.9, 0.6, 0.8, 0.24]), 0.1) == 3  # so are those that stop before chance
    assert last_used_level(np.array([0.1]), 0.1) == 0


def test_statistics_have_names_and_count_samples(fitted):
    z, _ = level_data(1, n=50)
    statistics = fitted.window_statistics(z)
    assert statistics.shape == (50, len(fitted.statistic_names))
    assert fitted.statistic_names[0] == "count"
    assert (statistics[:, 0] == 1).all()


def test_only_the_sums_of_the_statistics_matter(fitted):
    window, _ = level_data(2, seed=56, n=90)
    sums = fitted.window_sums(window[:50]) + fitted.window_sums(window[50:])
    np.testing.assert_allclose(
        fitted.calibrator_at(sums).predict_proba(window), adapted_proba(fitted, window, window), atol=1e-12
    )


def test_a_window_beyond_the_last_used_level_extrapolates(fitted):
    assert not fitted.extrapolates(fitted.window_sums(level_data(0, seed=57)[0]))
    assert fitted.extrapolates(fitted.window_sums(level_data(5, seed=58)[0] / 3))


def test_unusable_windows_are_refused(fitted):
    with pytest.raises(InputError, match="window_size must be a whole number"):
        fitted.windowed(fitted.min_window - 1)
    with pytest.raises(NotFittedError):
        type(fitted)().adapt(LOGITS[:100])


def test_an_unknown_statistic_is_refused():
    with pytest.raises(UnknownName, match="statistic"):
        make_calibrator("level-ts", statistic="margins").fit(LOGITS, LABELS)


def test_a_subclass_that_lacks_a_method_is_refused_by_name():
    class Incomplete(WindowedCalibrator):
        def window_statistics(self, logits):
            raise NotImplementedError

    with pytest.raises(TypeError, match="calibrator_at"):
        Incomplete()


def test_levels_that_are_together_no_better_than_chance_have_no_optimum():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 4)) * 5
    z[200:] /= 5
    y = np.where(np.arange(400) < 200, (z.argmax(axis=1) + 1) % 4, (z + rng.gumbel(size=z.shape)).argmax(axis=1))
    levels = np.repeat([0, 1], 200)
    with pytest.raises(NoFiniteOptimum, match="no better than chance"):
        make_calibrator("level-ts").fit(z, y, levels=levels)
    assert make_calibrator("level-ts", t_max=20).fit(z, y, levels=levels).temperature_ == 20


def test_tied_logits_do_not_make_the_order_of_columns_matter():
    """The accuracy of a level, which decides the last used level, counts tied predictions in equal parts."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        logits = np.round(rng.normal(size=(60, 3)) * 2) / 2
        y, levels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1), np.repeat([0, 1, 2], 20)
        logits[levels == 2] = np.round(rng.normal(size=(20, 3)))
        order = np.array([2, 0, 1])
        try:
            a = make_calibrator("level-ts").fit(logits, y, levels=levels)
        except NoFiniteOptimum:
            with pytest.raises(NoFiniteOptimum):
                make_calibrator("level-ts").fit(logits[:, order], np.argsort(order)[y], levels=levels)
            continue
        b = make_calibrator("level-ts").fit(logits[:, order], np.argsort(order)[y], levels=levels)
        assert b.last_level_ == pytest.approx(a.last_level_, abs=1e-12)
        p = b.predict_proba(logits[:, order])
        np.testing.assert_allclose(p[:, np.argsort(order)], a.predict_proba(logits), atol=1e-8)
