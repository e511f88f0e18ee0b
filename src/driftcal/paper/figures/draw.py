"""Draws the figures of experiments."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.paper.calibrator_names import split_label
from driftcal.paper.figures.calibrator_style import METHODS, calibrator_style
from driftcal.paper.figures.figure_data import Bars, Figure, Histograms, Lines, Panel, Picture, Pictures, Points
from driftcal.paper.figures.scatter import draw_points
from driftcal.report.plot_style import GREY, TEXT_COLOUR, UNCALIBRATED_COLOUR, figure_files, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

#: The most bars in one row of the figure; further bars are drawn in another row.
_MAX_BARS = 110
#: Pixels per inch of PNG files.
_DPI = 150


def figure_bytes(figure: Figure, formats: Sequence[str]) -> list[bytes]:
    """The figure as a file of each format (png, pdf or svg), drawn once for all of them."""
    with plot_style():
        drawn = DRAWERS[type(figure)](figure)
        drawn.set_dpi(_DPI)  # the layout depends on it a little
        return figure_files(drawn, formats, dpi=_DPI)


def _draw_bars(figure: Bars) -> Drawn:
    from matplotlib.figure import Figure as Canvas

    per_row = max(1, _MAX_BARS // len(figure.series))
    n_rows = math.ceil(len(figure.groups) / per_row)
    per_row = math.ceil(len(figure.groups) / n_rows)
    width = min(11.0, max(6.0, 1.2 + 0.1 * len(figure.series) * per_row))
    drawn = Canvas(figsize=(width, 0.9 + 2.3 * n_rows), layout="constrained")
    grid = drawn.subplots(n_rows, 1, squeeze=False, sharey=True)[:, 0]
    handles: dict[str, Any] = {}
    for number, ax in enumerate(grid):
        groups = range(number * per_row, min(len(figure.groups), (number + 1) * per_row))
        handles = _draw_groups(ax, figure, groups) | handles
        ax.set_xlim(-0.6, per_row - 0.4)
    _draw_legend(drawn, handles)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _draw_legend(drawn: Drawn, handles: Mapping[str, Any]) -> None:
    """A legend below the axes with a column per method; the uncalibrated model and marks are in the first column."""
    from matplotlib.lines import Line2D

    columns: dict[str, list[str]] = {}
    for label in handles:
        method = split_label(label)[0]
        columns.setdefault(method if method in METHODS else "", []).append(label)
    height = max(len(labels) for labels in columns.values())
    empty = Line2D([], [], linestyle="none")
    cells = [name for labels in columns.values() for name in [*labels, *[""] * (height - len(labels))]]
    lines = [handles.get(name, empty) for name in cells]
    drawn.legend(lines, cells, loc="outside lower center", ncols=len(columns), columnspacing=1.4)


def _draw_groups(ax: Axes, figure: Bars, groups: range) -> dict[str, Any]:
    """Draw some groups of bars; return the handles of the legend."""
    handles: dict[str, Any] = {}
    thickness = 0.84 / len(figure.series)
    for k, (label, values) in enumerate(figure.series.items()):
        style, suffix = calibrator_style(label), split_label(label)[1]
        filled = figure.all_filled or suffix == "P" or style["color"] == UNCALIBRATED_COLOUR
        for position, group in enumerate(groups):
            value, x = values[group], position + (k - (len(figure.series) - 1) / 2) * thickness
            if value is not None:
                handles[label] = ax.bar(
                    x, value, thickness * 0.86,
                    facecolor=style["color"] if filled else "white",
                    edgecolor=style["color"],
                    linewidth=0.7,
                    hatch=None if filled else {"": "//////", "H": "...."}[suffix],
                )  # fmt: skip
            interval = figure.intervals.get(label, [None] * len(figure.groups))[group]
            if interval is not None:
                ax.plot([x, x], interval, color=TEXT_COLOUR, linewidth=0.8)
            published = figure.published.get(label, [None] * len(figure.groups))[group]
            if published is not None:
                (handles["paper"],) = ax.plot(
                    x, published, "o", color=TEXT_COLOUR, markerfacecolor="white", markersize=3.2
                )
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set_xticks(range(len(groups)), [_two_lines(figure.groups[group]) for group in groups])
    ax.set_ylabel(figure.axis)
    ax.grid(axis="x", visible=False)
    return handles


def _draw_lines(figure: Lines) -> Drawn:
    labels = list(dict.fromkeys(label for panel in figure.panels for label in panel.series))
    drawn, axes = new_figure(
        max(5.0, 1.0 + 3.3 * len(figure.panels)), 3.6 if len(labels) > 6 else 3.2, len(figure.panels), squeeze=False
    )
    for ax, panel in zip(axes[0], figure.panels, strict=True):
        _draw_panel(ax, panel)
    handles: dict[str, Any] = {}
    for ax in axes[0]:
        handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    _draw_legend(drawn, handles)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _draw_panel(ax: Axes, panel: Panel) -> None:
    if panel.diagonal:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":", zorder=1)
        ax.set(xlim=(0, 1), aspect="equal")
    x = np.asarray(panel.x, float)
    for label, values in panel.series.items():
        y = np.array([np.nan if value is None else value for value in values])
        ax.plot(x, y, label=label, markersize=3.5, linewidth=1.2, **calibrator_style(label))
    if panel.logarithmic:
        ax.set_xscale("log")
        ax.set_xticks(x, [f"{value:,.0f}" for value in x])
        ax.minorticks_off()
    elif panel.ticks:
        ax.set_xticks(x, panel.ticks, rotation=45 if max(map(len, panel.ticks)) > 3 else 0)
    ax.set_ylim(*panel.y_limits)
    ax.set(xlabel=panel.x_axis, ylabel=panel.y_axis)


def _draw_histograms(figure: Histograms) -> Drawn:
    drawn, axes = new_figure(2.1 * len(figure.panels) + 0.6, 2.6, len(figure.panels), squeeze=False, sharey=True)
    edges = np.asarray(figure.edges)
    highest = max(max(shares) for series in figure.panels.values() for shares in series.values())
    handles: dict[str, Any] = {}
    for ax, (title, series) in zip(axes[0], figure.panels.items(), strict=True):
        for label, shares in series.items():
            style = calibrator_style(label)
            handles[label] = ax.stairs(
                shares, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.3, fill=False
            )
            if split_label(label)[1] == "P":
                ax.stairs(shares, edges, color=style["color"], alpha=0.18, fill=True)
        ax.set(title=title, xlabel=figure.axis, xlim=(0, 1), ylim=(0, 1.05 * highest))
    axes[0][0].set_ylabel("share of images")
    _draw_legend(drawn, handles)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _draw_pictures(figure: Pictures) -> Drawn:
    from matplotlib.figure import Figure as Canvas

    per_row = len(figure.rows[0])
    drawn = Canvas(figsize=(3.9 * per_row, 1.95 * len(figure.rows) + 0.5), layout="constrained")
    grid = drawn.subplots(len(figure.rows), 2 * per_row, squeeze=False, width_ratios=[1, 1.35] * per_row)
    for axes, row in zip(grid, figure.rows, strict=True):
        for k, picture in enumerate(row):
            _draw_picture(axes[2 * k], axes[2 * k + 1], picture)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _draw_picture(image_axes: Axes, bar_axes: Axes, picture: Picture) -> None:
    """Draw the image on the left, and bars of the confidence on the right; incorrect predictions are grey."""
    image = np.clip(picture.image, 0, 1)
    image_axes.imshow(
        image[..., 0] if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1, interpolation="nearest"
    )
    image_axes.set_axis_off()
    image_axes.set_title(f"{picture.true_class}, {picture.heading}", fontsize=7)
    for position, (label, (predicted, confidence)) in enumerate(picture.predictions.items()):
        correct = predicted == picture.true_class
        bar_axes.barh(position, confidence, 0.75, color=calibrator_style(label)["color"] if correct else "#C9C9C9")
        text = f"{confidence:.2f}" if correct else f"{confidence:.2f}: {predicted}"
        bar_axes.text(min(confidence + 0.02, 1.02), position, text, va="center", fontsize=5.5, color=TEXT_COLOUR)
    bar_axes.set_yticks(range(len(picture.predictions)), list(picture.predictions), fontsize=5.5)
    bar_axes.set(xlim=(0, 1.45), ylim=(len(picture.predictions) - 0.4, -0.6), xticks=[0, 0.5, 1])
    bar_axes.tick_params(axis="x", labelsize=5.5)
    bar_axes.set_xlabel("confidence", fontsize=6)
    bar_axes.grid(axis="y", visible=False)


def _two_lines(name: str) -> str:
    """The name of a group, broken at its first space, because names of networks are long."""
    return name.replace(" ", "\n", 1)


#: Kind of figure -> function that draws it.
DRAWERS: Mapping[type, Callable[[Any], Drawn]] = {
    Bars: _draw_bars,
    Lines: _draw_lines,
    Histograms: _draw_histograms,
    Points: draw_points,
    Pictures: _draw_pictures,
}
