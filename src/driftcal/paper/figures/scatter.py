"""Calibrators as points: two of their numbers against each other, and the front that nothing beats at both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftcal.paper.outcome import Points
from driftcal.paper.output.style import METHODS, look, split_label
from driftcal.report.plot_style import GREY, TEXT_COLOUR, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawn

#: What is filled of a marker, by what a calibrator was tuned on, and the words for it.
_FILLS: dict[str, tuple[Any, str]] = {
    "": ("none", "no suffix: clean\nimages, or windows"),
    "P": ("full", "-P: noise"),
    "C": ("left", "-C: noise, clean\nimages weigh more"),
    "V": ("top", "-V: varied drift"),
}
#: Points (1/72 inch) to the right and up at which a name may stand, the nearest first; below 0 it ends left of its marker.
_PLACES = (
    (6, -3), (6, 5), (6, -11), (-6, -3), (-6, 5), (-6, -11), (6, 13), (6, -19), (-6, 13), (-6, -19), (6, 21), (6, -27), (-6, 21),
    (-6, -27), (30, 13), (30, -19), (30, 21), (30, -27), (6, 33), (6, -39), (30, 33), (30, -39),
)  # fmt: skip
_TYPE = 7.0


def draw_points(figure: Points) -> Drawn:
    """A marker per calibrator; those of the front are joined and named beside, all are named in the legend."""
    drawn, ax = new_figure(7.2, 5.6)
    if figure.front:
        xs, ys = zip(*(figure.points[label] for label in figure.front), strict=True)
        ax.step(xs, ys, where="post", color=GREY, linewidth=0.8, zorder=0)
    for label, (x, y) in figure.points.items():
        ax.plot(x, y, **_marker(label, split_label(label)[1]))
    ax.set(xlabel=figure.x_axis, ylabel=figure.y_axis)
    ax.margins(0.06)
    ax.set_xlim(0, None)
    ax.set_ylim(0, None)
    _legend(drawn, figure)
    drawn.suptitle(figure.title, fontsize=9)
    drawn.draw_without_rendering()  # the layout is known from here on
    _name_front(drawn, ax, figure)
    return drawn


def _marker(label: str, tuning: str) -> dict[str, Any]:
    style = look(label)
    fill = "full" if split_label(label)[0] not in METHODS else _FILLS.get(tuning, _FILLS["P"])[0]
    return {
        "linestyle": "none", "marker": style["marker"], "color": style["color"], "markersize": 6.5, "fillstyle": fill,
        "markerfacecoloralt": "white", "markeredgewidth": 1.0,
    }  # fmt: skip


def _legend(drawn: Drawn, figure: Points) -> None:
    """Methods by colour and shape, then what the filled part says."""
    from matplotlib.lines import Line2D

    methods = dict.fromkeys(split_label(label)[0] for label in figure.points)
    tunings = dict.fromkeys(split_label(label)[1] for label in figure.points)
    handles: list[Any] = [Line2D([], [], label=method, **_marker(method, "P")) for method in methods]
    fills = [key for key in _FILLS if key in tunings]
    if len(fills) > 1:
        handles.append(Line2D([], [], linestyle="none", label=""))
        handles += [
            Line2D([], [], linestyle="none", marker="o", color=TEXT_COLOUR, markersize=6.5, markerfacecoloralt="white",
                   fillstyle=_FILLS[key][0], label=_FILLS[key][1]) for key in fills
        ]  # fmt: skip
    if figure.front:
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, label="Pareto front"))
    drawn.legend(handles=handles, loc="outside right center")


def _name_front(drawn: Drawn, ax: Axes, figure: Points) -> None:
    """Names beside the points of the front, each where no other name and no marker stands, if there is such a place."""
    scale = drawn.dpi / 72
    markers = [ax.transData.transform(place) / scale for place in figure.points.values()]
    edge = ax.bbox.x0 / scale  # names keep off the numbers of the axis
    taken = [(float(x) - 3, float(y) - 3, 6.0, 6.0) for x, y in markers]
    for label in figure.front:
        x, y = ax.transData.transform(figure.points[label]) / scale
        width, height = 0.62 * _TYPE * len(label), 1.1 * _TYPE
        boxes = [(x + dx - (width if dx < 0 else 0), y + dy, width, height) for dx, dy in _PLACES]
        free = [k for k, box in enumerate(boxes) if box[0] > edge and not any(_overlap(box, other) for other in taken)]
        place = free[0] if free else len(_PLACES) - 1
        taken.append(boxes[place])
        far = abs(_PLACES[place][1] + 3) > 8 or abs(_PLACES[place][0]) > 6  # a thin line then tells whose name it is
        ax.annotate(
            label, figure.points[label], xytext=_PLACES[place], textcoords="offset points", fontsize=_TYPE,
            ha="right" if _PLACES[place][0] < 0 else "left",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": GREY, "shrinkA": 0, "shrinkB": 2} if far else None,
        )  # fmt: skip


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    apart = one[0] + one[2] < other[0] or other[0] + other[2] < one[0]
    return not (apart or one[1] + one[3] < other[1] or other[1] + other[3] < one[1])
