"""Notebook displays: tables with small figures, every name escaped; figures draw into the user's axes."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from report_fixture import HOSTILE, digits_results
from sklearn.linear_model import LogisticRegression

import driftcal
from driftcal.errors import InputError
from driftcal.report.notebook import html_of

matplotlib.use("agg")
from matplotlib import pyplot

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 4))
Y = (X[:, 0] + RNG.logistic(size=600) > 0).astype(int) + (X[:, 1] > 1)


@pytest.fixture(scope="module")
def calibrated():
    model = LogisticRegression().fit(X[:200], Y[:200])
    return driftcal.tune(model, X[200:], Y[200:], method="level-ts", n_levels=4)


def test_results_are_a_table_with_two_small_reliability_plots():
    results = replace(digits_results(), metadata={"calibrator": "irm-p"})
    html = results._repr_html_()
    assert html.count("<svg") == 2
    for name in ("uncalibrated model", "temperature scaling", "driftcal, per sample (IRM-P)", "Accuracy in domain"):
        assert name in html


def test_names_are_escaped_everywhere(calibrated):
    results = digits_results()
    infos = [replace(info, label=HOSTILE) for info in results.calibrators]
    shifts = [replace(shift, name=HOSTILE) for shift in results.shifts]
    rows = [replace(row, shift=HOSTILE) for row in results.rows if row.shift == results.shifts[0].name]
    assert HOSTILE not in replace(results, calibrators=infos, shifts=shifts[:1], rows=rows)._repr_html_()
    assert HOSTILE not in replace(calibrated, explanation=HOSTILE, tuned_on=HOSTILE)._repr_html_()
    assert HOSTILE not in html_of(HOSTILE)
    calibrator = driftcal.TemperatureScaling(classes=[HOSTILE, "b", "c"])
    assert HOSTILE not in calibrator._repr_html_()


def test_calibrated_models_monitors_and_calibrators_have_a_table(calibrated):
    html = calibrated._repr_html_()
    assert "LogisticRegression" in html
    assert "LEVEL-TS: calibrated.windowed(100)" in html
    assert "100 samples" in calibrated.windowed(100)._repr_html_()
    monitor = driftcal.Monitor(calibrated, window_size=100)
    monitor.update(calibrated.logits(X[200:]))
    assert monitor._repr_html_().count("<tr>") == 5
    assert "not fitted" in driftcal.TemperatureScaling(t_max=3.0)._repr_html_()
    assert "temperature_" in calibrated.calibrator._repr_html_()


def test_text_has_fewer_than_ten_lines_and_names_the_accuracy(calibrated):
    results = digits_results()
    many = [replace(info, name=f"{info.name}{k}") for k in range(4) for info in results.calibrators]
    rows = [replace(row, calibrator=f"{row.calibrator}{k}") for k in range(4) for row in results.rows]
    larger = replace(results, calibrators=[*results.calibrators, *many], rows=[*results.rows, *rows])
    for value in (results, larger, calibrated, driftcal.Monitor(calibrated), calibrated.calibrator):
        assert repr(value).count("\n") < 9
    assert "more calibrators" in repr(larger)
    assert "accuracy" in repr(results)


def test_plots_draw_into_subplots_and_make_no_other_figure(calibrated):
    figure, axes = pyplot.subplots(1, 3)
    results = digits_results()
    assert results.plot(ax=axes[0]) is axes[0]
    monitor = driftcal.Monitor(calibrated, window_size=100)
    with pytest.raises(InputError, match="it has none"):
        monitor.plot(ax=axes[1])
    monitor.update(calibrated.logits(X[200:]), y=Y[200:])
    assert monitor.plot(ax=axes[1]) is axes[1]
    driftcal.plot_reliability(Y[200:], calibrated.predict_proba(X[200:]), ax=axes[2])
    assert all(ax.has_data() for ax in axes)
    assert pyplot.get_fignums() == [figure.number]
    with pytest.raises(InputError, match="metric must be one of ece"):
        results.plot(metric="speed")
    assert results.plot(metric="accuracy").get_ylabel().startswith("accuracy")
    pyplot.close("all")
