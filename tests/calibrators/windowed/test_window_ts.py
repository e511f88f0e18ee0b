"""`window-ts`: transitions without a jump, changed class shares, estimates with an interval, extrapolation."""

import numpy as np
import pytest

from driftcal import TemperatureScaling, load
from driftcal.calibrators import make_calibrator
from driftcal.calibrators.windowed.window_ts import HALF_EXCESS
from driftcal.core.numerics import softmax
from driftcal.errors import InputError
from driftcal.metrics import expected_calibration_error

N, C = 1200, 5
FAMILIES = ["clean", *["weaker"] * 3, *["noisier"] * 2, *["both"] * 3]


def samples(signal, noise=1.6, seed=0, n=N, shares=None):
    """Logits of an over-confident model; less signal or more noise make it worse."""
    rng = np.random.default_rng(seed)
    y = rng.choice(C, n, p=shares)
    z = rng.normal(size=(n, C)) * noise
    z[np.arange(n), y] += signal
    return 3 * z, y


CONDITIONS = [
    (4.0, 1.6),
    (3.2, 1.6),
    (2.4, 1.6),
    (1.2, 1.6),
    (4.0, 2.0),
    (4.0, 2.6),
    (3.4, 1.8),
    (2.6, 2.1),
    (1.8, 2.4),
]
PARTS = [samples(*condition, seed=k) for k, condition in enumerate(CONDITIONS)]
Z, Y = (np.concatenate(part) for part in zip(*PARTS, strict=True))
LEVELS = np.repeat(np.arange(len(CONDITIONS)), N)


@pytest.fixture(scope="module")
def fitted():
    return make_calibrator("window-ts").fit(Z, Y, levels=LEVELS, families=FAMILIES)


@pytest.mark.parametrize("condition", [(4.0, 1.6), (2.0, 1.6), (4.0, 2.3), (3.0, 2.2)])
def test_windows_of_other_shifts_are_calibrated(fitted, condition):
    z, y = samples(*condition, seed=77, n=3000)
    assert expected_calibration_error(y, fitted.windowed(100).predict_proba(z)) < 0.075


def test_a_changed_class_mix_is_no_shift(fitted):
    z, y = samples(4.0, seed=78, n=3000, shares=[0.7, 0.2, 0.1, 0, 0])
    windowed = expected_calibration_error(y, fitted.windowed(100).predict_proba(z))
    assert windowed < expected_calibration_error(y, fitted.predict_proba(z)) + 0.02


def test_the_temperature_moves_only_with_evidence_of_a_shift(fitted):
    def moved(signal):
        z, _ = samples(signal, seed=90, n=4000)
        return np.median(
            [abs(np.log(fitted.adapt(part).temperature_ / fitted.temperature_)) for part in np.split(z, 40)]
        )

    assert moved(4.0) < 0.02
    assert moved(2.0) > 0.6


def test_one_sample_gets_the_per_sample_form_and_a_growing_window_leaves_it_without_a_jump(fitted):
    clean = TemperatureScaling().fit(*PARTS[0]).temperature_
    z, _ = samples(1.5, seed=79, n=400)
    statistics = fitted.window_statistics(z)
    temperatures = fitted.temperature_at(np.cumsum(statistics, axis=0))
    assert temperatures[0] == pytest.approx(clean, rel=1e-9)
    assert fitted.temperature_at(np.tile(statistics[0], (1, 1)))[0] == pytest.approx(clean, rel=1e-9)
    assert temperatures[-1] > 1.3 * clean
    # 200 copies of a mean sample: only the number of samples changes
    mean = statistics.mean(axis=0)
    by_size = np.log(fitted.temperature_at(np.arange(1, 200)[:, None] * mean))
    assert np.abs(np.diff(by_size)).max() < 0.35 * abs(by_size[-1] - by_size[0])


def test_outside_the_range_of_training_the_temperature_moves_smoothly_to_the_per_sample_form(fitted):
    z, _ = samples(4.0, seed=80, n=200)
    factors = np.geomspace(1, 60, 2000)
    sums = np.stack([fitted.window_statistics(z * factor).sum(axis=0) for factor in factors[::20]])
    temperatures = fitted.temperature_at(sums)
    assert not fitted.extrapolates(sums[0])
    assert fitted.extrapolates(sums[-1])
    assert fitted.accuracy_at(sums[-1]).extrapolates
    assert np.abs(np.diff(np.log(temperatures))).max() < 0.3
    assert abs(np.log(temperatures[-1] / fitted.temperature_)) < 0.5
    assert fitted.accuracy_at(sums[-1]).excess > HALF_EXCESS


def test_the_interval_of_the_estimated_accuracy_covers_the_accuracy_of_new_windows(fitted):
    covered, widths = [], []
    for seed, condition in enumerate([(4.0, 1.6), (3.5, 1.6), (2.8, 1.6), (2.0, 1.6), (4.0, 2.3), (3.0, 2.2)] * 4):
        z, y = samples(*condition, seed=200 + seed, n=300)
        estimate = fitted.estimate_accuracy(z)
        covered.append(estimate.low <= (z.argmax(axis=1) == y).mean() <= estimate.high)
        widths.append(estimate.high - estimate.low)
    assert np.mean(covered) >= 0.85
    assert np.median(widths) < 0.5


def test_the_order_of_samples_and_whole_weights_do_not_matter_to_the_fit(fitted):
    order = np.random.default_rng(0).permutation(len(Y))
    again = make_calibrator("window-ts").fit(Z[order], Y[order], levels=LEVELS[order], families=FAMILIES)
    sums = fitted.window_sums(Z[:150]) if hasattr(fitted, "window_sums") else fitted.window_statistics(Z[:150]).sum(0)
    np.testing.assert_allclose(again.temperature_at(sums), fitted.temperature_at(sums), rtol=1e-6)


def temperatures(calibrator, columns=slice(None)):
    return [calibrator.adapt(Z[low : low + 100, columns]).temperature_ for low in range(0, len(Z), N)]


def test_the_order_of_columns_does_not_matter_to_the_fit(fitted):
    order = np.random.default_rng(0).permutation(C)
    again = make_calibrator("window-ts").fit(Z[:, order], np.argsort(order)[Y], levels=LEVELS, families=FAMILIES)
    np.testing.assert_allclose(temperatures(again, order), temperatures(fitted), rtol=1e-6)


def test_ties_and_the_scale_of_weights_do_not_make_an_order_matter():
    z = np.round(Z)  # samples with the same scores in other columns, and ties of the top class
    once = make_calibrator("window-ts").fit(z, Y, levels=LEVELS)
    samples, columns = np.random.default_rng(1).permutation(len(Y)), np.random.default_rng(2).permutation(C)
    again = make_calibrator("window-ts").fit(
        z[samples][:, columns],
        np.argsort(columns)[Y[samples]],
        levels=LEVELS[samples],
        sample_weight=np.full(len(Y), 7.3),
    )
    np.testing.assert_allclose(temperatures(again, columns), temperatures(once), rtol=1e-6)


def test_the_mean_confidence_of_a_large_window_equals_the_estimate(fitted):
    z, _ = samples(2.5, seed=81, n=5000)
    accuracy = fitted.estimate_accuracy(z).accuracy
    assert softmax(z, 1 / fitted.adapt(z).temperature_).max(axis=1).mean() == pytest.approx(accuracy, abs=0.005)


def test_families_must_name_every_level(fitted):
    with pytest.raises(InputError, match=r"families must name the shift of each of the levels 0\.\.8"):
        make_calibrator("window-ts").fit(Z, Y, levels=LEVELS, families=["clean", "weaker"])


def test_a_file_keeps_the_estimate(fitted, tmp_path):
    again = load(fitted.save(tmp_path / "window.safetensors"))
    window, _ = samples(3.0, seed=82, n=60)
    assert again.estimate_accuracy(window) == fitted.estimate_accuracy(window)


@pytest.mark.parametrize("families", [5, (name for name in FAMILIES), FAMILIES[:-1], "families"])
def test_families_that_name_no_level_are_refused(families):
    with pytest.raises(InputError, match="families must name"):
        make_calibrator("window-ts").fit(Z, Y, levels=LEVELS, families=families)
