"""The style of all matplotlib figures: colours, markers, fonts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from driftcal.pipeline.evaluating.results import CalibratorInfo, Results
from driftcal.report.comparison import is_tuned_on_shift, is_uncalibrated, method_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The colours of Okabe and Ito, the pale ones darkened for a white page. Markers distinguish methods without colour.
COLOURS = ("#0072B2", "#C75600", "#008560", "#B4528B", "#A06A00", "#2A86BD", "#7D7300", "#7A3FC4")
MARKERS = ("o", "s", "^", "D", "v", "p", "h", "*")
UNCALIBRATED_COLOUR, TEXT_COLOUR, GREY, OVERCONFIDENT_COLOUR, UNDERCONFIDENT_COLOUR = (
    "#6A7179",
    "#222222",
    "#9A9A9A",
    "#D55E00",
    "#0072B2",
)
#: Line styles of matplotlib.
DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))
#: matplotlib's settings. Text in the files can be edited and searched, names are not read as formulas, and the same
#: figure gives the same bytes.
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

#: The metadata of a file, without dates, so that the same figure gives the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "driftcal"},
    "svg": {"Date": None, "Creator": "driftcal"},
    "png": {"Software": "driftcal"},
}


@contextmanager
def plot_style() -> Iterator[None]:
    """Draw in this style; the settings of the user are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # class names may hold characters that the font lacks; the figure shows a box for them
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(width: float, height: float, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure without pyplot, which would keep it in memory or open a window."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, **options)


def figure_files(figure: Figure, formats: Sequence[str], *, dpi: int) -> list[bytes]:
    """The figure as a file of each format. The layout is computed once, and the same figure gives the same bytes."""
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # the engine "none" would draw every file twice
    files = []
    for file_format in formats:
        out = BytesIO()
        figure.savefig(out, format=file_format, dpi=dpi, metadata=_METADATA[file_format])
        files.append(out.getvalue())
    return files


def method_style(number: int | None, line: Any, *, filled: bool) -> dict[str, Any]:
    """matplotlib's options for the method with this number; None is the uncalibrated model.

    Methods have different colours; those that share a colour have different markers.
    """
    if number is None:
        colour, marker, line, filled = UNCALIBRATED_COLOUR, "o", DOTTED, True
    else:
        colour = COLOURS[number % len(COLOURS)]
        marker = MARKERS[(number + 3 * (number // len(COLOURS))) % len(MARKERS)]
    return {"color": colour, "marker": marker, "linestyle": line, "markerfacecolor": colour if filled else "white"}


def series_style(info: CalibratorInfo, results: Results) -> dict[str, Any]:
    """Colour and marker by method; solid and filled if tuned on perturbed data, dashed and hollow if not."""
    number = None if is_uncalibrated(info) else method_numbers(results)[info.method]
    tuned = is_tuned_on_shift(info)
    return method_style(number, "-" if tuned else DASHED, filled=tuned)


def draw_bar(
    ax: Axes,
    position: float,
    thickness: float,
    value: float,
    info: CalibratorInfo,
    results: Results,
    label: str | None = None,
) -> None:
    """One bar, filled or hatched."""
    style = series_style(info, results)
    filled = is_tuned_on_shift(info) or is_uncalibrated(info)
    ax.barh(
        position,
        value,
        thickness,
        facecolor=style["color"] if filled else "white",
        edgecolor=style["color"],
        linewidth=0.8,
        hatch=None if filled else "////",
        label=label,
    )


def shorten(name: str, length: int = 24) -> str:
    """A name in one line of bounded length."""
    line = " ".join(name.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
