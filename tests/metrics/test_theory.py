"""What statistics promises about the metrics. Slow: run with `make theory`."""

import math

import numpy as np
import pytest

from driftcal import metrics
from driftcal.metrics.scores import Scores
from driftcal.metrics.summary import ERRORS, NAMES, Summary

pytestmark = pytest.mark.theory


def world(n, seed, too_sure=0.0):
    """Two-class rows whose top label is right with probability confidence − too_sure."""
    rng = np.random.default_rng(seed)
    confidence = 0.5 + 0.5 * rng.beta(2, 1, n)
    right = rng.random(n) < confidence - too_sure
    return np.where(right, 0, 1), np.stack([confidence, 1 - confidence], axis=1)


def test_the_ece_of_a_perfect_forecaster_falls_with_the_root_of_n_and_is_its_floor():
    means = []
    for n in (200, 800, 3200, 12800):
        found = [metrics.expected_calibration_error(*world(n, seed)) for seed in range(100)]
        y, p = world(n, 0)
        assert metrics.ece_floor(y, p) == pytest.approx(np.mean(found), rel=0.06)
        assert metrics.Statistics.of_probabilities(y, p).ece_floor == pytest.approx(np.mean(found), rel=0.08)
        means.append(np.mean(found))
    ratios = np.array(means[:-1]) / means[1:]
    assert ratios == pytest.approx([2, 2, 2], rel=0.1)


def test_errors_find_the_true_gap():
    y, p = world(2_000_000, 0, too_sure=0.08)
    seen = metrics.evaluate_probabilities(y, p)
    for name in ("gap", "ece", "equal_mass_ece", "sweep_ece", "debiased_ece", "smooth_ece", "ks"):
        assert getattr(seen, name) == pytest.approx(0.08, abs=0.002), name


def test_the_debiased_square_is_unbiased():
    """Its mean over samples, before the floor at 0 and the root, is the squared gap; the plain square is larger."""
    from driftcal.metrics.ordered import Ordered

    squares = []
    for seed in range(400):
        scores = Scores.of_probabilities(*world(300, seed, too_sure=0.2))
        squares.append(Ordered.of_scores(scores).debiased(scores.weights, 15))
    error = 3 * np.std(squares) / math.sqrt(len(squares))
    assert np.mean(squares) == pytest.approx(0.04, abs=error)


@pytest.mark.parametrize(("too_sure", "n", "least"), [(0.0, 1000, 0.9), (0.08, 3000, 0.85)])
def test_intervals_hold_the_truth(too_sure, n, least):
    from driftcal.metrics.bootstrap import interval_of

    names = ("ece", "equal_mass_ece", "smooth_ece", "ks", "sweep_ece", "debiased_ece")
    held = dict.fromkeys(names, 0)
    worlds = 100
    for seed in range(worlds):
        scores = Scores.of_probabilities(*world(n, seed, too_sure))
        summary = Summary.of_scores(scores, 15)
        estimate = dict(zip(NAMES, summary.of(scores.weights), strict=True))
        drawn = dict(zip(NAMES, summary.replicates(np.arange(n), 300, seed).T, strict=True))
        calibrated = dict(zip(NAMES, summary.calibrated(300, seed + 1000).T, strict=True))
        assert set(names) <= set(ERRORS)
        for name in names:
            held[name] += too_sure in interval_of(
                estimate[name], drawn[name], bounds=(0, 1), calibrated=calibrated[name]
            )
    assert min(held.values()) >= (least - 0.05) * worlds, held


def test_replicates_of_a_mean_vary_as_its_standard_error():
    scores = Scores.of_probabilities(*world(1000, 0))
    drawn = Summary.of_scores(scores, 15).replicates(np.arange(1000), 4000, 0)[:, NAMES.index("nll")]
    assert drawn.mean() == pytest.approx(scores.nll.mean(), abs=4 * scores.nll.std() / math.sqrt(1000 * 4000))
    assert drawn.std() == pytest.approx(scores.nll.std() / math.sqrt(1000), rel=0.05)


def test_ks_of_a_perfect_forecaster_is_that_of_a_brownian_path():
    """√n · KS tends to max |W(t)| over the variance: mean sqrt(π/2) · sqrt(mean c(1−c))."""
    n = 4000
    found = [metrics.ks_calibration_error(*world(n, seed)) for seed in range(300)]
    confidence = world(n, 0)[1][:, 0]
    expected = math.sqrt(math.pi / 2) * math.sqrt(np.mean(confidence * (1 - confidence)) / n)
    assert np.mean(found) == pytest.approx(expected, rel=0.08)
