"""The error rates of the monitor on simulated streams. Slow: run with `make theory`."""

import math

import numpy as np
import pytest

from driftcal.drift.reference import DriftReference
from driftcal.metrics.intervals import wilson_interval
from driftcal.monitor.alarm_rule import clean_range, largest_clean_distance
from driftcal.monitor.fixed_point import UNIT, to_fixed_point
from driftcal.monitor.sequential_test import N_BETS, log_bets, log_evidence

pytestmark = pytest.mark.theory

ALPHA, TOLERANCE = 0.05, 0.02


def highest_evidence(rng, n_windows, n_labels, bias):
    """The highest log evidence of a run that is read after every window; predictions are correct with p + bias."""
    bets, highest = [], -math.inf
    for window in range(n_windows):
        p = rng.beta(4, 1, size=n_labels)
        correct = rng.random(n_labels) < np.clip(p + bias(window), 0, 1)
        bets.append(log_bets(to_fixed_point(p) / UNIT, correct.astype(np.int64), TOLERANCE))
        highest = max(highest, log_evidence(range(window + 1), bets, np.zeros(N_BETS, np.int64), 0))
    return highest


def test_the_sequential_test_keeps_its_level_however_often_it_is_read():
    # at the edge of the tolerance, where a false alarm is most probable; a run is read 20 times, after 40 labels each
    for bias in (0.0, -TOLERANCE):
        alarms = sum(
            highest_evidence(np.random.default_rng([7, run]), 20, 40, lambda window, b=bias: b) >= -math.log(ALPHA)
            for run in range(300)
        )
        assert alarms <= 300 * ALPHA


def test_the_sequential_test_rejects_also_after_a_long_calibrated_period():
    assert highest_evidence(np.random.default_rng(0), 10, 100, lambda window: -0.15) > -math.log(ALPHA)
    late = highest_evidence(np.random.default_rng(1), 60, 100, lambda window: 0.0 if window < 40 else -0.15)
    assert late > -math.log(ALPHA)


def test_clean_windows_leave_their_range_as_rarely_as_stated():
    rng = np.random.default_rng(3)
    rate, n_windows, n_samples = 0.01, 4000, 200
    outside = []
    for _ in range(12):  # the rate must hold for nearly all validation sets
        validation = 1 - rng.beta(0.4, 3, size=2000)  # a long lower tail, as normalised negative entropies have
        deviation = validation.std()
        skewness = np.mean(((validation - validation.mean()) / deviation) ** 3)
        drift_reference = DriftReference(
            temperature=1.0, threshold=0.5, accuracies=(0.9, 0.5), n_samples=len(validation),
            means=((0.9, 0.9, float(validation.mean()), 0.9), (0.5, 0.5, 0.5, 0.5)),
            standard_deviation=float(deviation), skewness=float(skewness),
            class_shares=(0.5, 0.5), estimator="atc-level-mean",
        )  # fmt: skip
        low, high = clean_range(drift_reference, n_samples, rate)
        means = (1 - rng.beta(0.4, 3, size=(n_windows, n_samples))).mean(axis=1)
        outside.append(np.mean((means < low) | (means > high)))
    assert np.mean(outside) <= rate
    assert sum(share > rate * 1.3 for share in outside) <= 1
    assert max(outside) > 0  # the range is finite


@pytest.mark.parametrize(("n_classes", "n_samples"), [(2, 50), (3, 50), (10, 100)])
def test_the_class_mix_of_clean_windows_is_as_far_as_stated(n_classes, n_samples):
    rng, rate, outside = np.random.default_rng(4), 0.01, []
    for _ in range(12):
        shares = rng.dirichlet(np.full(n_classes, 2.0))
        validation = rng.multinomial(1000, shares) / 1000
        reference = DriftReference(
            temperature=1.0, threshold=0.5, accuracies=(0.9, 0.5), n_samples=1000, means=((0.9,) * 4, (0.5,) * 4),
            standard_deviation=0.1, skewness=0.0, class_shares=tuple(validation.tolist()), estimator="atc",
        )  # fmt: skip
        windows = rng.multinomial(n_samples, shares, size=4000) / n_samples
        distance = np.linalg.norm(windows - validation, axis=1)
        outside.append(np.mean(distance > largest_clean_distance(reference, n_samples, rate)))
    assert np.mean(outside) <= rate
    assert sum(share > rate * 1.3 for share in outside) <= 1
    assert max(outside) > 0  # the distance is not far too large


def test_wilson_intervals_cover():
    share = np.random.default_rng(0).binomial(100, 0.9, size=2000) / 100
    low, high = wilson_interval(share, np.full(2000, 100.0))
    assert np.mean((low <= 0.9) & (high >= 0.9)) > 0.92
