"""The reliability diagram, drawn into one pair of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from driftcal.metrics.reliability import Reliability, prepare_reliability
from driftcal.report.plot_style import COLOURS, GREY, OVERCONFIDENT_COLOUR, TEXT_COLOUR, UNDERCONFIDENT_COLOUR
from driftcal.types import AnyArray, Array, Float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: With more bins there is no room for their counts.
MAX_COUNTED_BINS = 20
#: The height of the histogram below the diagram, in units of the y axis.
_HISTOGRAM = 0.24


def plot_reliability(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    ax: Axes | None = None,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    groups: AnyArray = None,
    confidence_level: float = 0.95,
    label: str | None = None,
    random_state: int = 0,
) -> Axes:
    """Draw accuracy (or the frequency of class 1) against confidence, bin by bin, and return the axes.

    In each bin a line marks the accuracy, a box its interval, and shading the difference to the mean confidence. The
    histogram below counts the samples. A corner shows the ECE and the null ECE, the expected ECE of a calibrated model.

    Parameters
    ----------
    y_true
        Labels.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    ax
        Axes to draw into, such as one of ``pyplot.subplots(2, 3)``; nothing is drawn outside of them.
    n_bins
        Number of equal-width bins.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.
    groups
        The image of each sample, if an image has several.
    confidence_level
        Probability that a box holds the true accuracy.
    label
        Name in the legend.
    random_state
        Seed of the bootstrap over `groups`.

    >>> import matplotlib; matplotlib.use("agg")
    >>> ax = plot_reliability([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.7])
    >>> ax.get_ylabel()
    'frequency of class 1'
    """
    reliability = prepare_reliability(
        y_true,
        probabilities,
        n_bins=n_bins,
        sample_weight=sample_weight,
        classes=classes,
        groups=groups,
        confidence_level=confidence_level,
        random_state=random_state,
    )
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=(4.2, 4.8), layout="constrained")
    draw_reliability(reliability, ax, label=label)
    ax.set_xlabel("probability of class 1" if reliability.positive_class else "confidence")
    ax.set_ylabel("frequency of class 1" if reliability.positive_class else "accuracy")
    return ax


def draw_reliability(
    reliability: Reliability,
    ax: Axes,
    *,
    label: str | None = None,
    legend: bool = True,
    font_size: float | str = "small",
) -> None:
    """Draw a prepared diagram into `ax`, with a legend or without."""
    edges, filled = reliability.edges, reliability.weight > 0
    left, width = edges[:-1], np.diff(edges)
    ax.set_axisbelow(True)
    ax.grid(color="#e8e8e8", linewidth=0.7)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    _draw_gaps(ax, reliability, filled)
    if reliability.low is not None and reliability.high is not None:
        ax.bar(
            left[filled], (reliability.high - reliability.low)[filled], width[filled], reliability.low[filled],
            align="edge", color=TEXT_COLOUR, alpha=0.13, linewidth=0, zorder=2.5,
            label=f"{100 * reliability.confidence_level:g} % interval",
        )  # fmt: skip
    accuracy, colour = reliability.outcome[filled], COLOURS[0]
    ax.hlines(accuracy, left[filled], edges[1:][filled], color=colour, linewidth=1.6, zorder=3, clip_on=False)
    ax.plot(
        reliability.confidence[filled], accuracy, "o", color=colour, markersize=3.6, zorder=4, clip_on=False,
        label=label or "observed",
    )  # fmt: skip
    _draw_histogram(ax, reliability, left, width)
    ax.set(xlim=(0, 1), ylim=(-_HISTOGRAM, 1), aspect="equal", yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.tick_params(length=0, colors=TEXT_COLOUR)
    if legend:
        _draw_legend(ax)
    corner = _text_corner(reliability) if legend else _Corner(0.03, 0.97, "left", "top")
    ax.text(
        corner.x, corner.y, f"ECE {reliability.ece:.3f}\nnull ECE {reliability.null_ece:.3f}\n{reliability.n_bins} bins, n = {reliability.n_samples:,}",
        transform=ax.transAxes, ha=corner.horizontal, va=corner.vertical, fontsize=font_size, linespacing=1.35, color=TEXT_COLOUR,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2}, zorder=5, parse_math=False,
    )  # fmt: skip
    for edge in ("top", "right"):
        ax.spines[edge].set_visible(False)
    for edge in ("left", "bottom"):
        ax.spines[edge].set_color(GREY)


def _draw_gaps(ax: Axes, reliability: Reliability, filled: Array) -> None:
    """Shade the difference between confidence and outcome; bins of few samples are pale, because they are uncertain."""
    edges, overconfident = reliability.edges, reliability.confidence > reliability.outcome
    bottom = np.fmin(reliability.outcome, reliability.confidence)
    height = np.fmax(reliability.outcome, reliability.confidence) - bottom
    strength = 0.12 + 0.38 * np.sqrt(reliability.weight / reliability.weight.max())
    kinds = (
        (OVERCONFIDENT_COLOUR, filled & overconfident, "over-confident"),
        (UNDERCONFIDENT_COLOUR, filled & ~overconfident, "under-confident"),
    )
    for colour, is_drawn, name in kinds:
        for i in np.flatnonzero(is_drawn):
            ax.bar(
                edges[i], height[i], edges[i + 1] - edges[i], bottom[i],
                align="edge", color=colour, alpha=float(strength[i]), linewidth=0, zorder=1.5,
            )  # fmt: skip
        if is_drawn.any():
            ax.bar([0], [0], color=colour, alpha=0.5, label=name)


def _draw_histogram(ax: Axes, reliability: Reliability, left: Float64, width: Float64) -> None:
    """Draw bars below 0: the share of samples in each bin, and their number if it was counted."""
    share = reliability.weight / reliability.weight.sum()
    height = 0.72 * _HISTOGRAM * share / share.max()
    ax.bar(left, height, width, -_HISTOGRAM, align="edge", color=GREY, alpha=0.55, edgecolor="white", linewidth=0.6)
    ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    if reliability.count is not None and reliability.n_bins <= MAX_COUNTED_BINS:
        for x, top, count in zip(left + width / 2, height - _HISTOGRAM, reliability.count, strict=True):
            if count:
                ax.text(x, top, short_count(int(count)), ha="center", va="bottom", fontsize=6, color=TEXT_COLOUR)


def _draw_legend(ax: Axes) -> None:
    handles, names = ax.get_legend_handles_labels()

    def rank(name: str) -> int:
        return 2 if name.endswith("confident") else 1 if name.endswith("interval") else 0

    order = [names.index(name) for name in sorted(names, key=rank)]
    ax.legend(
        [handles[i] for i in order], [names[i] for i in order],
        loc="upper left", fontsize="small", handlelength=1.2, borderaxespad=0.3, framealpha=0.7, edgecolor="none",
    )  # fmt: skip


class _Corner(NamedTuple):
    """The position of a text in units of the axes, and its alignment."""

    x: float
    y: float
    horizontal: str
    vertical: str


def _text_corner(reliability: Reliability) -> _Corner:
    """The lower right corner above the histogram or, if more data is drawn there, the left side below the legend."""
    bars = [values for values in (reliability.outcome, reliability.confidence) if values is not None]
    low = np.min([*bars, *([] if reliability.low is None else [reliability.low])], axis=0)
    high = np.max([*bars, *([] if reliability.high is None else [reliability.high])], axis=0)
    left, right = reliability.edges[:-1], reliability.edges[1:]

    def covered(x: tuple[float, float], y: tuple[float, float]) -> float:
        width = np.clip(np.minimum(right, x[1]) - np.maximum(left, x[0]), 0, None)
        return float(np.nansum(width * np.clip(np.minimum(high, y[1]) - np.maximum(low, y[0]), 0, None)))

    if covered((0.66, 1), (0, 0.19)) > covered((0, 0.34), (0.48, 0.67)):
        return _Corner(0.02, (0.67 + _HISTOGRAM) / (1 + _HISTOGRAM), "left", "top")
    return _Corner(0.98, (0.03 + _HISTOGRAM) / (1 + _HISTOGRAM), "right", "bottom")


def short_count(count: int) -> str:
    """A count in at most four characters.

    >>> [short_count(n) for n in (999, 1234, 34567, 1240000)]
    ['999', '1.2k', '35k', '1.2M']
    """
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 9.95 * size else f"{count / size:.0f}{unit}"
    return str(count)
