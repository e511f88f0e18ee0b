"""What the monitor promises about error rates, on streams whose truth is known. Slow: run with `make theory`."""

import math

import numpy as np
import pytest

from driftcal.drift.reference import DriftReference
from driftcal.monitor.sequential_test import log_evidence, wilson
from driftcal.monitor.states import clean_range
from driftcal.monitor.window_sums import Sums, fixed, sums_of_labels

pytestmark = pytest.mark.theory

ALPHA, TOLERANCE = 0.05, 0.02


def highest(rng, windows, labels, bias):
    """The highest log evidence of a run that is looked at after every window; outcomes are right with p + bias."""
    keys, seen, most = [], [], -math.inf
    for key in range(windows):
        p = rng.beta(4, 1, size=labels)
        right = rng.random(labels) < np.clip(p + bias(key), 0, 1)
        keys.append(key)
        seen.append(Sums(sums_of_labels(fixed(p), right, 3, tolerance=TOLERANCE)))
        most = max(most, log_evidence(keys, seen, Sums(np.zeros_like(seen[0].values)), 0))
    return most


def test_the_sequential_test_keeps_its_level_however_often_one_looks():
    # at the edge of the tolerance, where a false alarm is likeliest; a run is 20 looks at 40 labels each
    for bias in (0.0, -TOLERANCE):
        alarms = sum(
            highest(np.random.default_rng([7, run]), 20, 40, lambda key, b=bias: b) >= -math.log(ALPHA)
            for run in range(300)
        )
        assert alarms <= 300 * ALPHA


def test_the_sequential_test_sees_what_is_broken_also_after_a_long_good_time():
    assert highest(np.random.default_rng(0), 10, 100, lambda key: -0.15) > -math.log(ALPHA)
    late = highest(np.random.default_rng(1), 60, 100, lambda key: 0.0 if key < 40 else -0.15)
    assert late > -math.log(ALPHA)


def test_clean_windows_leave_their_range_as_rarely_as_stated():
    rng = np.random.default_rng(3)
    rate, windows, rows = 0.01, 4000, 200
    outside = []
    for _ in range(12):  # one validation set after the other: the rate must hold for nearly all of them
        validation = 1 - rng.beta(0.4, 3, size=2000)  # a long tail downwards, as certainties have
        spread = validation.std()
        drift_reference = DriftReference(
            temperature=1.0, threshold=0.5, accuracies=(0.9, 0.5), n_samples=len(validation),
            means=((0.9, 0.9, float(validation.mean()), 0.9), (0.5, 0.5, 0.5, 0.5)),
            standard_deviation=float(spread), skewness=float(np.mean(((validation - validation.mean()) / spread) ** 3)),
            class_shares=(0.5, 0.5), estimator="atc-level-mean",
        )  # fmt: skip
        low, high = clean_range(drift_reference, rows, rate)
        means = (1 - rng.beta(0.4, 3, size=(windows, rows))).mean(axis=1)
        outside.append(np.mean((means < low) | (means > high)))
    assert np.mean(outside) <= rate
    assert sum(share > rate * 1.3 for share in outside) <= 1
    assert max(outside) > 0  # the range is not merely endless


def test_wilson_covers():
    rng = np.random.default_rng(0)
    covered = [low <= 0.9 <= high for low, high in (wilson(int(k), 100) for k in rng.binomial(100, 0.9, size=2000))]
    assert np.mean(covered) > 0.92
