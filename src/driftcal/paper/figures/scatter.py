"""Draws a point per calibrator, and the Pareto front."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftcal.paper.calibrator_names import split_label
from driftcal.paper.figures.calibrator_style import METHODS, calibrator_style
from driftcal.paper.figures.figure_data import Points
from driftcal.report.plot_style import GREY, TEXT_COLOUR, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

#: Suffix -> the filled part of a marker, and its text in the legend.
_FILLS: dict[str, tuple[Any, str]] = {
    "": ("none", "no suffix: clean\nimages, or windows"),
    "P": ("full", "-P: noise"),
    "C": ("left", "-C: noise, clean\nimages weigh more"),
    "V": ("top", "-V: varied shifts"),
}
#: Offsets of a name from its marker in points (1/72 inch), the nearest first. With x below 0 the name is on the left.
_OFFSETS = (
    (6, -3), (6, 5), (6, -11), (-6, -3), (-6, 5), (-6, -11), (6, 13), (6, -19), (-6, 13), (-6, -19), (6, 21), (6, -27), (-6, 21),
    (-6, -27), (30, 13), (30, -19), (30, 21), (30, -27), (6, 33), (6, -39), (30, 33), (30, -39),
)  # fmt: skip
_FONT_SIZE = 7.0
#: Left, bottom, width, height.
Box = tuple[float, float, float, float]


def draw_points(figure: Points) -> Drawn:
    """Draw a marker per calibrator. The Pareto front has a line and names; the legend lists all calibrators."""
    drawn, ax = new_figure(7.2, 5.6)
    if figure.pareto_front:
        xs, ys = zip(*(figure.points[label] for label in figure.pareto_front), strict=True)
        ax.step(xs, ys, where="post", color=GREY, linewidth=0.8, zorder=0)
    for label, (x, y) in figure.points.items():
        ax.plot(x, y, **_marker(label, split_label(label)[1]))
    ax.set(xlabel=figure.x_axis, ylabel=figure.y_axis)
    ax.margins(0.06)
    ax.set_xlim(0, None)
    ax.set_ylim(0, None)
    _draw_legend(drawn, figure)
    drawn.suptitle(figure.title, fontsize=9)
    drawn.draw_without_rendering()  # fixes the layout
    _draw_names(drawn, ax, figure)
    return drawn


def _marker(label: str, suffix: str) -> dict[str, Any]:
    style = calibrator_style(label)
    fill = "full" if split_label(label)[0] not in METHODS else _FILLS.get(suffix, _FILLS["P"])[0]
    return {
        "linestyle": "none", "marker": style["marker"], "color": style["color"], "markersize": 6.5, "fillstyle": fill,
        "markerfacecoloralt": "white", "markeredgewidth": 1.0,
    }  # fmt: skip


def _draw_legend(drawn: Drawn, figure: Points) -> None:
    """The methods by colour and shape, then the meaning of the filled part."""
    from matplotlib.lines import Line2D

    methods = dict.fromkeys(split_label(label)[0] for label in figure.points)
    suffixes = {split_label(label)[1] for label in figure.points}
    handles: list[Any] = [Line2D([], [], label=method, **_marker(method, "P")) for method in methods]
    fills = [fill for suffix, fill in _FILLS.items() if suffix in suffixes]
    if len(fills) > 1:
        handles.append(Line2D([], [], linestyle="none", label=""))
        handles += [
            Line2D([], [], linestyle="none", marker="o", color=TEXT_COLOUR, markersize=6.5, markerfacecoloralt="white",
                   fillstyle=part, label=text) for part, text in fills
        ]  # fmt: skip
    if figure.pareto_front:
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, label="Pareto front"))
    drawn.legend(handles=handles, loc="outside right center")


def _draw_names(drawn: Drawn, ax: Axes, figure: Points) -> None:
    """Draw names next to the points of the Pareto front, where they do not overlap others if there is room."""
    scale = drawn.dpi / 72
    markers = [ax.transData.transform(point) / scale for point in figure.points.values()]
    left_edge = ax.bbox.x0 / scale  # names do not cover the numbers of the axis
    taken: list[Box] = [(float(x) - 3, float(y) - 3, 6.0, 6.0) for x, y in markers]
    for label in figure.pareto_front:
        x, y = ax.transData.transform(figure.points[label]) / scale
        width, height = 0.62 * _FONT_SIZE * len(label), 1.1 * _FONT_SIZE
        boxes = [(x + dx - (width if dx < 0 else 0), y + dy, width, height) for dx, dy in _OFFSETS]
        free = [k for k, box in enumerate(boxes) if box[0] > left_edge and not any(_overlap(box, t) for t in taken)]
        position = free[0] if free else len(_OFFSETS) - 1
        taken.append(boxes[position])
        dx, dy = _OFFSETS[position]
        is_far = abs(dy + 3) > 8 or abs(dx) > 6  # then a thin line joins the name and its marker
        ax.annotate(
            label, figure.points[label], xytext=(dx, dy), textcoords="offset points", fontsize=_FONT_SIZE,
            ha="right" if dx < 0 else "left",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": GREY, "shrinkA": 0, "shrinkB": 2} if is_far else None,
        )  # fmt: skip


def _overlap(first: Box, second: Box) -> bool:
    left_1, bottom_1, width_1, height_1 = first
    left_2, bottom_2, width_2, height_2 = second
    is_beside = left_1 + width_1 < left_2 or left_2 + width_2 < left_1
    is_above_or_below = bottom_1 + height_1 < bottom_2 or bottom_2 + height_2 < bottom_1
    return not (is_beside or is_above_or_below)
