"""The reliability diagram draws any data without a warning, and stays inside its axes."""

import matplotlib
import numpy as np
import pytest

import driftcal
from driftcal import metrics
from driftcal.core.numerics import softmax
from driftcal.report.reliability_diagram import short_count

matplotlib.use("agg")


def make(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_classes, n), softmax(rng.normal(size=(n, n_classes)) * 3)


@pytest.mark.parametrize(("n", "n_classes"), [(1, 3), (4, 2), (200, 2), (60, 1000)])
@pytest.mark.parametrize("n_bins", [1, 15, 40])
def test_it_draws_any_data(n, n_classes, n_bins):
    from matplotlib import pyplot

    y, p = make(n, n_classes)
    ax = driftcal.plot_reliability(y, p, n_bins=n_bins)
    ax.figure.canvas.draw()
    texts = " ".join(t.get_text() for t in ax.texts)
    assert f"ECE {metrics.expected_calibration_error(y, p, n_bins=n_bins):.3f}" in texts
    assert "null ECE" in texts
    assert f"{n_bins} bins" in texts
    assert ax.get_ylabel() == "accuracy"
    pyplot.close(ax.figure)


def test_it_draws_into_axes_and_names_class_1():
    from matplotlib.figure import Figure

    y, p = make(50, 2)
    ax = Figure().add_subplot()
    assert driftcal.plot_reliability(y, p[:, 1], ax=ax, label="TS") is ax
    assert ax.get_ylabel() == "frequency of class 1"
    assert ax.get_xlabel() == "probability of class 1"
    assert "TS" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_several_fit_into_one_figure():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    grid = figure.subplots(2, 3)
    for seed, ax in enumerate(grid.flat):
        driftcal.plot_reliability(*make(200, 3, seed), ax=ax)
    figure.canvas.draw()
    assert figure.axes == list(grid.flat)  # no further axes
    boxes = [ax.get_tightbbox().padded(-1) for ax in grid.flat]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and figure.bbox.y0 <= box.y0 for box in boxes)


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1.0k"), (34_567, "35k"), (1_240_000, "1.2M")]
)
def test_counts_fit_their_bins(count, text):
    assert short_count(count) == text
