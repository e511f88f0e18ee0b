"""The experiments' figures, drawn from plain values."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.paper.outcome import Bars, Figure, Histograms, Lines, Panel, Picture, Pictures, Points
from driftcal.paper.output.scatter import draw_points
from driftcal.paper.output.style import METHODS, look, split_label
from driftcal.report.plot_style import GREY, TEXT_COLOUR, UNCALIBRATED_COLOUR, new_figure, plot_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

#: Bars beyond which a figure gets another row.
_MOST_BARS = 110
_PIXELS = 150


def figure_bytes(figure: Figure, endings: Sequence[str]) -> list[bytes]:
    """The figure as a file of each kind: png, pdf or svg; drawn and laid out once for all of them."""
    written = []
    with plot_style():
        drawn = DRAWERS[type(figure)](figure)
        drawn.set_dpi(_PIXELS)  # what texts measure depends on it a little
        drawn.draw_without_rendering()
        drawn.set_layout_engine(None)  # as an engine, "none" would have every file drawn twice
        for ending in endings:
            out = io.BytesIO()
            stamp = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(ending)  # the same bytes each time
            drawn.savefig(out, format=ending, dpi=_PIXELS, metadata=stamp)
            written.append(out.getvalue())
    return written


def _draw_bars(figure: Bars) -> Drawn:
    from matplotlib.figure import Figure as Canvas

    per_row = max(1, _MOST_BARS // len(figure.series))
    parts = math.ceil(len(figure.groups) / per_row)
    per_row = math.ceil(len(figure.groups) / parts)
    width = min(11.0, max(6.0, 1.2 + 0.1 * len(figure.series) * per_row))
    drawn = Canvas(figsize=(width, 0.9 + 2.3 * parts), layout="constrained")
    grid = drawn.subplots(parts, 1, squeeze=False, sharey=True)[:, 0]
    handles: dict[str, Any] = {}
    for number, ax in enumerate(grid):
        chosen = range(number * per_row, min(len(figure.groups), (number + 1) * per_row))
        handles = _bar_panel(ax, figure, chosen) | handles
        ax.set_xlim(-0.6, per_row - 0.4)
    _legend(drawn, handles)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _legend(drawn: Drawn, handles: Mapping[str, Any]) -> None:
    """Below the axes, a column per method with what it was tuned on underneath; what is no method stands in the first."""
    from matplotlib.lines import Line2D

    columns: dict[str, list[str]] = {}
    for label in handles:
        method = split_label(label)[0]
        columns.setdefault(method if method in METHODS else "", []).append(label)
    deepest = max(len(labels) for labels in columns.values())
    nothing = Line2D([], [], linestyle="none")
    cells = [name for labels in columns.values() for name in [*labels, *[""] * (deepest - len(labels))]]
    shown = [handles.get(name, nothing) for name in cells]
    drawn.legend(shown, cells, loc="outside lower center", ncols=len(columns), columnspacing=1.4)


def _bar_panel(ax: Axes, figure: Bars, chosen: range) -> dict[str, Any]:
    """Draw the groups; what stands in the legend comes back."""
    handles: dict[str, Any] = {}
    thick = 0.84 / len(figure.series)
    for k, (label, values) in enumerate(figure.series.items()):
        style, tuning = look(label), split_label(label)[1]
        filled = figure.one_tuning or tuning == "P" or style["color"] == UNCALIBRATED_COLOUR
        for place, group in enumerate(chosen):
            value, x = values[group], place + (k - (len(figure.series) - 1) / 2) * thick
            if value is not None:
                handles[label] = ax.bar(
                    x, value, thick * 0.86,
                    facecolor=style["color"] if filled else "white",
                    edgecolor=style["color"],
                    linewidth=0.7,
                    hatch=None if filled else {"": "//////", "H": "...."}[tuning],
                )  # fmt: skip
            between = figure.intervals.get(label, [None] * len(figure.groups))[group]
            if between is not None:
                ax.plot([x, x], between, color=TEXT_COLOUR, linewidth=0.8)
            printed = figure.published.get(label, [None] * len(figure.groups))[group]
            if printed is not None:
                (handles["paper"],) = ax.plot(
                    x, printed, "o", color=TEXT_COLOUR, markerfacecolor="white", markersize=3.2
                )
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set_xticks(range(len(chosen)), [_broken(figure.groups[group]) for group in chosen])
    ax.set_ylabel(figure.axis)
    ax.grid(axis="x", visible=False)
    return handles


def _draw_lines(figure: Lines) -> Drawn:
    names = list(dict.fromkeys(name for panel in figure.panels for name in panel.series))
    drawn, axes = new_figure(
        max(5.0, 1.0 + 3.3 * len(figure.panels)), 3.6 if len(names) > 6 else 3.2, len(figure.panels), squeeze=False
    )
    for ax, panel in zip(axes[0], figure.panels, strict=True):
        _line_panel(ax, panel)
    handles: dict[str, Any] = {}
    for ax in axes[0]:
        handles |= {name: handle for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)}
    _legend(drawn, handles)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _line_panel(ax: Axes, panel: Panel) -> None:
    if panel.diagonal:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=":", zorder=1)
        ax.set(xlim=(0, 1), aspect="equal")
    x = np.asarray(panel.x, float)
    for label, values in panel.series.items():
        y = np.array([np.nan if value is None else value for value in values])
        ax.plot(x, y, label=label, markersize=3.5, linewidth=1.2, **look(label))
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
            style, filled = look(label), split_label(label)[1] == "P"
            drawn_as = ax.stairs(
                shares, edges, color=style["color"], linestyle=style["linestyle"], linewidth=1.3, fill=False
            )
            if filled:
                ax.stairs(shares, edges, color=style["color"], alpha=0.18, fill=True)
            handles[label] = drawn_as
        ax.set(title=title, xlabel=figure.axis, xlim=(0, 1), ylim=(0, 1.05 * highest))
    axes[0][0].set_ylabel("share of images")
    _legend(drawn, handles)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _draw_pictures(figure: Pictures) -> Drawn:
    from matplotlib.figure import Figure as Canvas

    pairs = len(figure.rows[0])
    drawn = Canvas(figsize=(3.9 * pairs, 1.95 * len(figure.rows) + 0.5), layout="constrained")
    grid = drawn.subplots(len(figure.rows), 2 * pairs, squeeze=False, width_ratios=[1, 1.35] * pairs)
    for axes, row in zip(grid, figure.rows, strict=True):
        for k, picture in enumerate(row):
            _picture(axes[2 * k], axes[2 * k + 1], picture)
    drawn.suptitle(figure.title, fontsize=9)
    return drawn


def _picture(left: Axes, right: Axes, picture: Picture) -> None:
    image = np.clip(picture.image, 0, 1)
    left.imshow(image[..., 0] if image.shape[-1] == 1 else image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    left.set_axis_off()
    left.set_title(f"{picture.truth}, {picture.heading}", fontsize=7)
    for place, (label, (answer, confidence)) in enumerate(picture.answers.items()):
        right_answer = answer == picture.truth
        right.barh(place, confidence, 0.75, color=look(label)["color"] if right_answer else "#C9C9C9")
        words = f"{confidence:.2f}" if right_answer else f"{confidence:.2f}: {answer}"
        right.text(min(confidence + 0.02, 1.02), place, words, va="center", fontsize=5.5, color=TEXT_COLOUR)
    right.set_yticks(range(len(picture.answers)), list(picture.answers), fontsize=5.5)
    right.set(xlim=(0, 1.45), ylim=(len(picture.answers) - 0.4, -0.6), xticks=[0, 0.5, 1])
    right.tick_params(axis="x", labelsize=5.5)
    right.set_xlabel("confidence", fontsize=6)
    right.grid(axis="y", visible=False)


def _broken(words: str) -> str:
    """A group's name on two lines where it has a space: networks are long."""
    first, space, rest = words.partition(" ")
    return f"{first}\n{rest}" if space else words


DRAWERS: Mapping[type, Callable[[Any], Drawn]] = {
    Bars: _draw_bars,
    Lines: _draw_lines,
    Histograms: _draw_histograms,
    Points: draw_points,
    Pictures: _draw_pictures,
}
