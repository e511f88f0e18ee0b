"""The numbers of a reliability diagram."""

import numpy as np
import pytest

from driftcal import metrics
from driftcal.core.numerics import softmax
from driftcal.metrics.intervals import wilson_interval


def make(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_classes, n), softmax(rng.normal(size=(n, n_classes)) * 3)


def test_numbers_are_those_of_the_statistics():
    y, p = make(300, 5)
    reliability = metrics.prepare_reliability(y, p)
    whole = metrics.Statistics.of(y, p, score_type="probabilities")
    np.testing.assert_array_equal(reliability.weight, whole.bin_weight)
    np.testing.assert_array_equal(reliability.count, whole.bin_count)
    np.testing.assert_array_equal((reliability.confidence, reliability.outcome), whole.curve)
    assert (reliability.ece, reliability.n_samples, reliability.n_bins) == (whole.ece, 300, 15)
    assert reliability.null_ece == pytest.approx(whole.null_ece, rel=0.1)
    filled = whole.bin_count > 0
    assert np.isnan(reliability.low[~filled]).all()
    assert (reliability.low[filled] <= reliability.outcome[filled]).all()
    assert (reliability.outcome[filled] <= reliability.high[filled]).all()


def test_recorded_sums_give_the_same_curve():
    y, p = make(300, 5)
    whole = metrics.Statistics.of(y, p, score_type="probabilities")
    sums = (whole.bin_weight.tolist(), whole.bin_confidence.tolist(), whole.bin_outcome.tolist())
    reliability = metrics.Reliability.of_sums(*sums, ece=whole.ece, null_ece=0.1, n_samples=300)
    np.testing.assert_array_equal((reliability.confidence, reliability.outcome), whole.curve)
    assert reliability.low is None
    assert reliability.count is None


def test_several_samples_of_an_image_do_not_narrow_the_interval():
    y, p = make(200, 3)
    once = metrics.prepare_reliability(y, p, groups=np.arange(200))
    often = metrics.prepare_reliability(np.tile(y, 5), np.tile(p, (5, 1)), groups=np.tile(np.arange(200), 5))
    alone = metrics.prepare_reliability(np.tile(y, 5), np.tile(p, (5, 1)))
    many = once.count > 20
    width, copied, naive = ((r.high - r.low)[many] for r in (once, often, alone))
    assert (copied > 0.8 * width).all()
    assert (naive < 0.6 * width).all()


def test_wilson_is_that_of_scipy():
    from scipy.stats import binomtest

    expected = binomtest(7, 20).proportion_ci(0.9, method="wilson")
    low, high = wilson_interval(np.array([7 / 20]), np.array([20.0]), 0.9)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), rel=1e-12)
