"""Figures for notebooks: each draws into one pair of axes, the user's or new ones, and returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftcal.errors import InputError
from driftcal.monitor.monitor import Monitor
from driftcal.pipeline.evaluating.results import METRICS, Results
from driftcal.report.comparison import compare_calibrators
from driftcal.report.plot_style import COLOURS, GREY, plot_style
from driftcal.report.result_figures import draw_by_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_results(results: Results, *, metric: str = "ece", ax: Axes | None = None) -> Axes:
    """A metric against the level of shift, mean over the shifts, for the main calibrators."""
    if metric not in METRICS:
        raise InputError(f"metric must be one of {', '.join(METRICS)}; it is {metric!r}.")
    axes = _axes(ax)
    with plot_style():
        draw_by_level(axes, results, compare_calibrators(results), metric, f"{metric}, mean over shifts")
    return axes


def plot_monitor(monitor: Monitor, *, ax: Axes | None = None) -> Axes:
    """The estimated accuracy of each window with its interval, the mean confidence, and the true accuracy with labels."""
    windows = monitor.windows()
    if not windows:
        raise InputError("a monitor needs samples before it can be drawn; it has none. Call update(logits) first.")
    axes = _axes(ax)
    with plot_style():
        numbers = [window.window for window in windows]
        axes.plot(numbers, [window.confidence for window in windows], "--", color=GREY, label="mean confidence")
        estimated = [window for window in windows if window.accuracy is not None]
        x = [window.window for window in estimated]
        axes.plot(
            x, [window.accuracy or 0 for window in estimated], "o-", color=COLOURS[0], label="accuracy, estimated"
        )
        intervals = [window.accuracy_interval or (window.accuracy or 0,) * 2 for window in estimated]
        axes.fill_between(
            x, [low for low, _ in intervals], [high for _, high in intervals], color=COLOURS[0], alpha=0.18
        )
        labelled = [(window.window, window.labelled.accuracy) for window in windows if window.labelled is not None]
        if labelled:
            axes.plot(*zip(*labelled, strict=True), "s", color=COLOURS[1], label="accuracy, labelled")
        axes.set(xlabel="window", ylim=(0, 1.02))
        axes.legend()
    return axes


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(4.6, 3.2), layout="constrained")[1]
