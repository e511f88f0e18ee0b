"""Statistical properties of the metrics. Slow: run with `make theory`."""

import math

import numpy as np
import pytest

from driftcal import metrics
from driftcal.metrics.all_metrics import CALIBRATION_ERRORS, NAMES, AllMetrics
from driftcal.metrics.intervals import bootstrap_interval
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.sorted_samples import SortedSamples

pytestmark = pytest.mark.theory


def draw_samples(n, seed, gap=0.0):
    """Two-class samples whose top label is correct with probability confidence − gap."""
    rng = np.random.default_rng(seed)
    confidence = 0.5 + 0.5 * rng.beta(2, 1, n)
    correct = rng.random(n) < confidence - gap
    return np.where(correct, 0, 1), np.stack([confidence, 1 - confidence], axis=1)


def test_the_ece_of_a_calibrated_model_falls_with_the_root_of_n_and_is_the_null_ece():
    means = []
    for n in (200, 800, 3200, 12800):
        errors = [metrics.expected_calibration_error(*draw_samples(n, seed)) for seed in range(100)]
        y, p = draw_samples(n, 0)
        assert metrics.null_ece(y, p) == pytest.approx(np.mean(errors), rel=0.06)
        assert metrics.Statistics.of(y, p, score_type="probabilities").null_ece == pytest.approx(
            np.mean(errors), rel=0.08
        )
        means.append(np.mean(errors))
    ratios = np.array(means[:-1]) / means[1:]
    assert ratios == pytest.approx([2, 2, 2], rel=0.1)


def test_errors_find_the_true_gap():
    y, p = draw_samples(2_000_000, 0, gap=0.08)
    evaluation = metrics.evaluate(y, p, score_type="probabilities")
    for name in ("calibration_gap", "ece", "equal_mass_ece", "sweep_ece", "debiased_ece", "smooth_ece", "ks"):
        assert getattr(evaluation, name) == pytest.approx(0.08, abs=0.002), name


def test_the_debiased_square_is_unbiased():
    """Its mean over samples, before the bound at 0 and the root, is the squared gap; the plain square is larger."""
    squares = []
    for seed in range(400):
        samples = SampleScores.of_probabilities(*draw_samples(300, seed, gap=0.2))
        squares.append(SortedSamples.by_confidence(samples).debiased(samples.weights, 15))
    error = 3 * np.std(squares) / math.sqrt(len(squares))
    assert np.mean(squares) == pytest.approx(0.04, abs=error)


@pytest.mark.parametrize(("gap", "n", "least"), [(0.0, 1000, 0.9), (0.08, 3000, 0.85)])
def test_intervals_hold_the_true_value(gap, n, least):
    names = ("ece", "equal_mass_ece", "smooth_ece", "ks", "sweep_ece", "debiased_ece")
    held = dict.fromkeys(names, 0)
    data_sets = 100
    for seed in range(data_sets):
        samples = SampleScores.of_probabilities(*draw_samples(n, seed, gap))
        all_metrics = AllMetrics.of(samples, 15)
        estimate = dict(zip(NAMES, all_metrics.values(samples.weights), strict=True))
        drawn = dict(zip(NAMES, all_metrics.replicates(np.arange(n), 300, seed).T, strict=True))
        null = dict(zip(NAMES, all_metrics.null_replicates(300, seed + 1000).T, strict=True))
        assert set(names) <= set(CALIBRATION_ERRORS)
        for name in names:
            held[name] += gap in bootstrap_interval(
                estimate[name], drawn[name], bounds=(0, 1), null_replicates=null[name]
            )
    assert min(held.values()) >= (least - 0.05) * data_sets, held


def test_replicates_of_a_mean_vary_as_its_standard_error():
    samples = SampleScores.of_probabilities(*draw_samples(1000, 0))
    drawn = AllMetrics.of(samples, 15).replicates(np.arange(1000), 4000, 0)[:, NAMES.index("nll")]
    assert drawn.mean() == pytest.approx(samples.nll.mean(), abs=4 * samples.nll.std() / math.sqrt(1000 * 4000))
    assert drawn.std() == pytest.approx(samples.nll.std() / math.sqrt(1000), rel=0.05)


def test_ks_of_a_calibrated_model_is_that_of_a_brownian_path():
    """√n · KS tends to max |W(t)| over the variance: mean sqrt(π/2) · sqrt(mean c(1−c))."""
    n = 4000
    errors = [metrics.ks_calibration_error(*draw_samples(n, seed)) for seed in range(300)]
    confidence = draw_samples(n, 0)[1][:, 0]
    expected = math.sqrt(math.pi / 2) * math.sqrt(np.mean(confidence * (1 - confidence)) / n)
    assert np.mean(errors) == pytest.approx(expected, rel=0.08)
