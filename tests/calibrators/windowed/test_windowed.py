"""Calibrators that follow a window: what adapting must and must not do, for every one in the registry."""

import numpy as np
import pytest

from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.calibrators.serialization import load
from driftcal.calibrators.windowed.expectation_consistency import DifferenceOfConfidences, consistent_temperature
from driftcal.calibrators.windowed.level_matching import farthest
from driftcal.calibrators.windowed.windowed_calibrator import LEAST_ROWS, predict_windows
from driftcal.core.numerics import softmax
from driftcal.errors import InputError, NotFittedError, UnknownName
from driftcal.metrics import expected_calibration_error

NAMES = sorted(name for name, kind in CALIBRATORS.items() if kind.adaptive)
LADDERS = ["ladder-ec", "ladder-irm", "ladder-pts", "ladder-ts"]
RUNGS, N, C = 6, 1500, 5


def level_data(level, seed=0, n=N):
    """Logits of a model that is over-confident, and less often right the higher the rung."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, C, n)
    signal = 4.0 - 0.75 * level
    z = rng.normal(size=(n, C)) * 1.6
    z[np.arange(n), y] += signal
    return 3 * z, y


LADDER = [level_data(level, seed=level) for level in range(RUNGS)]
LOGITS, LABELS = np.concatenate([z for z, _ in LADDER]), np.concatenate([y for _, y in LADDER])
LEVELS = np.repeat(np.arange(RUNGS), N)


@pytest.fixture(scope="module", params=NAMES)
def fitted(request):
    return make_calibrator(request.param).fit(LOGITS, LABELS, levels=LEVELS)


def test_there_are_some():
    assert {"ladder-ts", "ladder-ec", "ladder-irm", "ladder-pts", "atc-ec", "doc-ec"} <= set(NAMES)


def test_adapting_gives_a_static_calibrator_that_keeps_the_accuracy_and_can_be_saved(fitted, tmp_path):
    window, _ = level_data(3, seed=50, n=100)
    frozen = fitted.adapt(window)
    assert not frozen.adaptive
    p = frozen.predict_proba(window)
    np.testing.assert_array_equal(p, fitted.predict_proba(window, context=window))
    np.testing.assert_array_equal(frozen.predict_log_proba(window), fitted.predict_log_proba(window, context=window))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-13)
    assert (p.argmax(axis=1) == window.argmax(axis=1)).all()
    again = load(frozen.save(tmp_path / "frozen.safetensors"))
    np.testing.assert_array_equal(again.predict_proba(window), p)


def test_the_artefact_keeps_all_that_adapting_needs(fitted, tmp_path):
    again = load(fitted.save(tmp_path / "cal.safetensors"))
    window, _ = level_data(2, seed=51, n=100)
    np.testing.assert_array_equal(again.predict_proba(window), fitted.predict_proba(window))
    np.testing.assert_array_equal(again.predict_proba(window, window), fitted.predict_proba(window, window))


def test_few_rows_and_no_context_are_answered_by_the_static_map(fitted):
    window, _ = level_data(4, seed=52, n=LEAST_ROWS - 1)
    np.testing.assert_allclose(fitted.predict_proba(window, context=window), fitted.predict_proba(window), atol=1e-12)
    one = window[:1]
    np.testing.assert_allclose(fitted.predict_proba(one, context=one), fitted.predict_proba(one), atol=1e-12)


def test_a_more_drifted_window_gets_less_confidence_from_the_same_logits(fitted):
    if isinstance(fitted, DifferenceOfConfidences):
        return  # it sees accuracy fall only as much as confidence, so that its temperature hardly moves
    clean, _ = level_data(0, seed=53, n=400)
    far, _ = level_data(5, seed=54, n=400)
    near, moved = (fitted.predict_proba(clean, context=window).max(axis=1).mean() for window in (clean, far))
    assert near > moved + 0.01


def test_the_order_of_a_window_and_a_constant_added_to_its_rows_do_not_matter(fitted):
    window, _ = level_data(2, seed=55, n=120)
    moved = np.round(window[::-1] * 2**20) / 2**20 + 2.0 ** np.random.default_rng(0).integers(-3, 8, (120, 1))
    np.testing.assert_allclose(
        fitted.predict_proba(LOGITS[:50], context=moved), fitted.predict_proba(LOGITS[:50], context=window), atol=1e-5
    )


def test_without_levels_all_rows_are_clean(fitted):
    name = next(n for n, kind in CALIBRATORS.items() if kind is type(fitted))
    z, y = LADDER[0]
    plain, told = make_calibrator(name).fit(z, y), make_calibrator(name).fit(z, y, levels=np.zeros(N, int))
    static = make_calibrator({"ladder-irm": "irm", "ladder-pts": "pts"}.get(name, "ts")).fit(z, y)
    np.testing.assert_array_equal(plain.predict_proba(z), told.predict_proba(z))
    np.testing.assert_allclose(plain.predict_proba(z), static.predict_proba(z), atol=1e-9)


def test_a_stream_remembers_the_last_rows(fitted):
    stream = fitted.stream(window=60)
    z = [level_data(level, seed=60 + level, n=40)[0] for level in (0, 2, 4)]
    stream.predict_proba(z[0])
    stream.predict_log_proba(z[1])
    found = stream.predict_proba(z[2])
    last = np.concatenate(z)[-60:]
    np.testing.assert_array_equal(found, fitted.predict_proba(z[2], context=last))


def test_windows_follow_each_other_and_the_remainder_looks_back(fitted):
    z, _ = level_data(2, seed=70, n=230)
    p = predict_windows(fitted, z, 100)
    np.testing.assert_array_equal(p[:100], fitted.predict_proba(z[:100], context=z[:100]))
    np.testing.assert_array_equal(p[200:], fitted.predict_proba(z[200:], context=z[130:]))
    static = fitted.adapt(z)
    np.testing.assert_array_equal(predict_windows(static, z), static.predict_proba(z))


@pytest.mark.parametrize("name", LADDERS)
def test_a_ladder_is_calibrated_on_every_rung_down_to_the_last_usable_one(name):
    cal = make_calibrator(name).fit(LOGITS, LABELS, levels=LEVELS)
    for level in range(int(cal.last_) + 1):
        z, y = level_data(level, seed=100 + level, n=3000)
        assert expected_calibration_error(y, predict_windows(cal, z)) < 0.05
    assert cal.position(level_data(0, seed=7)[0]) < 0.3
    assert cal.position(level_data(2, seed=8)[0]) == pytest.approx(2, abs=0.3)
    assert cal.position(level_data(5, seed=9)[0]) == cal.last_


def test_rungs_without_a_finite_temperature_take_their_neighbours():
    z = np.concatenate([LADDER[0][0], LADDER[1][0], LADDER[1][0]])
    y = np.concatenate([LADDER[0][1], LADDER[1][1], LADDER[1][0].argmin(axis=1)])  # the last rung: worse than chance
    cal = make_calibrator("ladder-ts").fit(z, y, levels=np.repeat([0, 1, 2], N))
    assert cal.temperatures_[2] == cal.temperatures_[1]


def test_the_last_usable_place_lies_60_percent_of_the_way_to_chance():
    assert farthest(np.array([0.9, 0.42, 0.1]), 0.1) == pytest.approx(1)
    assert farthest(np.array([0.9, 0.8]), 0.1) == 1  # a ladder that never gets there is used to its end
    assert farthest(np.array([0.9, 0.6, 0.8, 0.24, 0.1]), 0.1) == pytest.approx(2.5)
    assert farthest(np.array([0.9, 0.6, 0.8, 0.24]), 0.1) == 3  # so is one that stops before chance
    assert farthest(np.array([0.1]), 0.1) == 0


def test_mean_confidence_agrees_with_the_accuracy_asked_for():
    z, _ = level_data(1, n=200)
    for accuracy in (0.4, 0.7, 0.95):
        t = consistent_temperature(z, accuracy)
        assert softmax(z, 1 / t).max(axis=1).mean() == pytest.approx(accuracy, abs=1e-6)
    assert consistent_temperature(z, 0.0, near=2.0) == pytest.approx(200)
    assert consistent_temperature(z, 1.1, near=2.0) == pytest.approx(0.02)


def test_what_cannot_work_is_refused(fitted):
    with pytest.raises(InputError, match="window must be a whole number"):
        fitted.stream(window=3)
    with pytest.raises(NotFittedError):
        type(fitted)().adapt(LOGITS[:100])


def test_an_unknown_statistic_is_refused():
    with pytest.raises(UnknownName, match="statistic"):
        make_calibrator("ladder-ts", statistic="margins").fit(LOGITS, LABELS)
