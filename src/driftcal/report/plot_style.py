"""The look of the figures for a paper: colours, markers, type."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from driftcal.report.numbers import is_drift_tuned, is_uncalibrated
from driftcal.results import CalibratorInfo, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours, the pale ones darkened to be seen on white; markers tell methods apart without them.
COLOURS = ("#0072B2", "#C75600", "#008560", "#B4528B", "#A06A00", "#2A86BD", "#7D7300", "#7A3FC4")
MARKERS = ("o", "s", "^", "D", "v", "p", "h", "*")
BASE, INK, GREY, OVER, UNDER = "#6A7179", "#222222", "#9A9A9A", "#D55E00", "#0072B2"
# Text that can be edited and searched in the files, no names read as formulas, the same bytes each time.
STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E8E8E8",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "legend.frameon": False,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "driftcal",
    "text.parse_math": False,
    "text.usetex": False,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this look; the user's own settings come back afterwards."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Class names may hold characters the font lacks; the figure shows a box for them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def canvas(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure of its own, outside pyplot: no window, no state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, **options)


def look_of(info: CalibratorInfo, results: Results) -> dict[str, Any]:
    """Colour and marker by method; solid and filled when tuned on drift, dashed and hollow when not."""
    if is_uncalibrated(info):
        return {"color": BASE, "marker": "o", "linestyle": (0, (1, 1.5)), "markerfacecolor": BASE}
    methods = list(dict.fromkeys(i.method for i in results.calibrators if not is_uncalibrated(i)))
    place = methods.index(info.method) % len(COLOURS)
    tuned = is_drift_tuned(info)
    colour = COLOURS[place]
    return {
        "color": colour,
        "marker": MARKERS[place],
        "linestyle": "-" if tuned else (0, (4, 2)),
        "markerfacecolor": colour if tuned else "white",
    }


def bar(
    ax: Axes, place: float, thick: float, value: float, info: CalibratorInfo, results: Results, label: str | None = None
) -> None:
    """One bar, filled or hatched."""
    look = look_of(info, results)
    filled = is_drift_tuned(info) or is_uncalibrated(info)
    ax.barh(
        place,
        value,
        thick,
        facecolor=look["color"] if filled else "white",
        edgecolor=look["color"],
        linewidth=0.8,
        hatch=None if filled else "////",
        label=label,
    )


def clip(name: str, length: int = 24) -> str:
    """A name in one line of bounded length."""
    line = " ".join(name.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
