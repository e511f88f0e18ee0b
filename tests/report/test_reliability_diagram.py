"""The reliability diagram: its numbers, and that it draws for any data without a warning."""

import matplotlib
import numpy as np
import pytest

import driftcal
from driftcal import metrics
from driftcal.metrics.diagram import _short, _wilson
from driftcal.numerics import softmax

matplotlib.use("agg")


def make(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_classes, n), softmax(rng.normal(size=(n, n_classes)) * 3)


@pytest.mark.parametrize(("n", "n_classes"), [(1, 3), (4, 2), (200, 2), (60, 1000)])
@pytest.mark.parametrize("n_bins", [1, 15, 40])
def test_it_draws_anything(n, n_classes, n_bins):
    from matplotlib import pyplot

    y, p = make(n, n_classes)
    ax = driftcal.plot_reliability(y, p, n_bins=n_bins)
    ax.figure.canvas.draw()
    texts = " ".join(t.get_text() for t in ax.texts)
    assert f"ECE {metrics.expected_calibration_error(y, p, n_bins=n_bins):.3f}" in texts
    assert "floor" in texts
    assert ax.get_ylabel() == "accuracy"
    pyplot.close(ax.figure)


def test_it_draws_into_given_axes_and_names_class_1():
    from matplotlib.figure import Figure

    y, p = make(50, 2)
    ax = Figure().add_subplot()
    assert driftcal.plot_reliability(y, p[:, 1], ax, label="TS") is ax
    assert ax.get_ylabel() == "frequency of class 1"
    assert "TS" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_numbers_are_those_of_the_statistics():
    y, p = make(300, 5)
    seen = metrics.prepare_reliability(y, p)
    whole = metrics.Statistics.of_probabilities(y, p)
    assert seen.statistics == whole
    filled = whole.bin_rows > 0
    assert np.isnan(seen.low[~filled]).all()
    assert (seen.low[filled] <= seen.outcome[filled]).all()
    assert (seen.outcome[filled] <= seen.high[filled]).all()


def test_rows_of_one_image_do_not_narrow_the_interval():
    y, p = make(200, 3)
    once = metrics.prepare_reliability(y, p, groups=np.arange(200))
    often = metrics.prepare_reliability(np.tile(y, 5), np.tile(p, (5, 1)), groups=np.tile(np.arange(200), 5))
    alone = metrics.prepare_reliability(np.tile(y, 5), np.tile(p, (5, 1)))
    many = once.statistics.bin_rows > 20
    width, copied, naive = ((r.high - r.low)[many] for r in (once, often, alone))
    assert (copied > 0.8 * width).all()
    assert (naive < 0.6 * width).all()


def test_wilson_is_that_of_scipy():
    from scipy.stats import binomtest

    expected = binomtest(7, 20).proportion_ci(0.9, method="wilson")
    low, high = _wilson(np.array([7 / 20]), np.array([20.0]), 0.9)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), rel=1e-12)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1.0k"), (34_567, "35k"), (1_240_000, "1.2M")]
)
def test_counts_fit_their_bins(count, text):
    assert _short(count) == text
