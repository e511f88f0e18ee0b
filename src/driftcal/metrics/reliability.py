"""The reliability diagram: :func:`prepare_reliability` computes its numbers, :func:`plot_reliability` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.metrics.bootstrap import check_level, draw_weights, units_of
from driftcal.metrics.ordered import Ordered, prefix_sums
from driftcal.metrics.scores import Scores, check_pair
from driftcal.metrics.statistics import Statistics, bin_edges
from driftcal.metrics.summary import simulate_floor
from driftcal.types import AnyArray, Float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's colours, told apart with any kind of colour vision; over- and under-confidence differ in lightness too.
_BLUE, _VERMILION, _SKY, _INK, _GREY = "#0072B2", "#D55E00", "#56B4E9", "#333333", "#9a9a9a"

#: Bins beyond which their counts no longer fit under the diagram.
MOST_COUNTS = 20


@dataclass(frozen=True, eq=False)
class Reliability:
    """What a reliability diagram shows: one number per bin, NaN where a bin is empty.

    `low` and `high` are where the outcome of a bin lies with probability `level`.
    """

    statistics: Statistics
    confidence: Float64
    outcome: Float64
    low: Float64
    high: Float64
    level: float
    ece: float
    ece_floor: float


def prepare_reliability(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    groups: AnyArray = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Reliability:
    """The numbers behind a reliability diagram.

    A bin's interval is Wilson's at the bin's effective number of rows, (Σw)²/Σw², widened where `groups` of rows vary
    more than independent rows would.  Wilson 1927; Guo et al. 2017, section 2, for the diagram.

    >>> seen = prepare_reliability([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.7], n_bins=2)
    >>> seen.outcome.tolist()
    [0.0, 1.0]
    """
    check_level(level)
    labels, p, weights, positive = check_pair(y_true, probabilities, sample_weight, classes)
    scores = Scores.of_checked(labels, p, weights, positive)
    statistics = Statistics.of_scores(scores, n_bins=n_bins)
    confidence, outcome = statistics.curve
    effective = _effective_rows(scores, n_bins)
    if groups is not None:
        spread = _resampled_variance(scores, units_of(groups, scores.kept, len(p)), n_bins, draws, seed)
        with np.errstate(divide="ignore", invalid="ignore"):
            effective = np.fmin(effective, outcome * (1 - outcome) / spread)
    low, high = _wilson(outcome, np.maximum(effective, 1), level)
    floor = float(simulate_floor(scores, n_bins, min(draws, 500), seed).mean())
    return Reliability(statistics, confidence, outcome, low, high, level, statistics.ece, floor)


def _effective_rows(scores: Scores, n_bins: int) -> Float64:
    index = np.clip(np.searchsorted(bin_edges(n_bins), scores.confidence) - 1, 0, n_bins - 1)
    sums, squares = (np.bincount(index, w, n_bins) for w in (scores.weights, scores.weights**2))
    return np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1), np.nan)


def _resampled_variance(scores: Scores, units: Any, n_bins: int, draws: int, seed: int) -> Float64:
    """The variance of each bin's outcome when images are drawn anew."""
    rows = Ordered.of_scores(scores)
    ends = np.searchsorted(rows.claims, bin_edges(n_bins)[1:], side="right")
    starts = np.concatenate([[0], ends[:-1]])
    weights, counts, sums = np.empty(len(units)), np.empty(int(units.max()) + 1), np.empty((3, len(units) + 1))
    values = np.full((draws, n_bins), np.nan)
    for r in range(draws):
        draw_weights(seed, r, units, scores.weights, counts, weights)
        prefix_sums(rows.order, rows.claims, rows.outcomes, weights, sums)
        mass, hits = sums[0, ends] - sums[0, starts], sums[2, ends] - sums[2, starts]
        values[r] = np.divide(hits, mass, out=values[r], where=mass > 0)
    seen = np.isfinite(values)
    count = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, values, 0).sum(axis=0) / count
    variance: Float64 = np.where(seen, (values - mean) ** 2, 0).sum(axis=0) / count
    return variance


def _wilson(share: Float64, n: Float64, level: float) -> tuple[Float64, Float64]:
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.minimum(np.clip(centre - half, 0, 1), share), np.maximum(np.clip(centre + half, 0, 1), share)


def plot_reliability(
    y_true: AnyArray,
    probabilities: AnyArray,
    ax: Axes | None = None,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    groups: AnyArray = None,
    level: float = 0.95,
    label: str | None = None,
    seed: int = 0,
) -> Axes:
    """Draw how often the model is right (or class 1 occurs) against how sure it was, and return the axes.

    A line marks each bin's outcome, a box its interval, shading the gap to the bin's mean confidence; the strip below
    counts the rows; the corner gives the ECE beside the floor that a calibrated model would show on as many rows.

    >>> import matplotlib; matplotlib.use("agg")
    >>> ax = plot_reliability([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.7])
    >>> ax.get_ylabel()
    'frequency of class 1'
    """
    seen = prepare_reliability(
        y_true,
        probabilities,
        n_bins=n_bins,
        sample_weight=sample_weight,
        classes=classes,
        groups=groups,
        level=level,
        seed=seed,
    )
    return draw_reliability(seen, ax, label=label)


def draw_reliability(seen: Reliability, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    """Draw prepared numbers."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=(4.2, 4.6), layout="constrained")
    strip = ax.inset_axes((0, -0.24, 1, 0.2))
    edges, filled = seen.statistics.edges, seen.statistics.bin_weight > 0
    left, width = edges[:-1], np.diff(edges)
    over = seen.confidence > seen.outcome

    ax.set_axisbelow(True)
    ax.grid(color="#e8e8e8", linewidth=0.7)
    ax.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=2)
    for colour, which, name in ((_VERMILION, over, "over-confident"), (_SKY, ~over, "under-confident")):
        bins = filled & which
        bottom, top = np.fmin(seen.outcome, seen.confidence), np.fmax(seen.outcome, seen.confidence)
        ax.bar(
            left[bins],
            (top - bottom)[bins],
            width[bins],
            bottom[bins],
            align="edge",
            color=colour,
            alpha=0.38,
            linewidth=0,
            zorder=1.5,
            label=name if bins.any() else "_nolegend_",
        )
    ax.bar(
        left[filled],
        (seen.high - seen.low)[filled],
        width[filled],
        seen.low[filled],
        align="edge",
        color=_INK,
        alpha=0.13,
        linewidth=0,
        zorder=2.5,
        label=f"{100 * seen.level:g} % interval",
    )
    ax.hlines(
        seen.outcome[filled], left[filled], edges[1:][filled], color=_BLUE, linewidth=1.6, zorder=3, clip_on=False
    )
    ax.plot(
        seen.confidence[filled],
        seen.outcome[filled],
        "o",
        markersize=3.6,
        color=_BLUE,
        zorder=4,
        clip_on=False,
        label=label or "observed",
    )
    positive = seen.statistics.positive
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", ylabel="frequency of class 1" if positive else "accuracy")
    ax.tick_params(labelbottom=False, length=0, colors=_INK)
    handles, names = ax.get_legend_handles_labels()
    order = [names.index(name) for name in sorted(names, key=_rank)]
    ax.legend(
        [handles[i] for i in order],
        [names[i] for i in order],
        loc="upper left",
        fontsize="small",
        handlelength=1.2,
        borderaxespad=0.3,
        framealpha=0.7,
        edgecolor="none",
    )
    x, y, side, base = _free_place(seen)
    ax.text(
        x,
        y,
        f"ECE {seen.ece:.3f}\nfloor {seen.ece_floor:.3f}\n$M$ = {seen.statistics.n_bins}, $n$ = {seen.statistics.rows:,}",
        transform=ax.transAxes,
        ha=side,
        va=base,
        fontsize="small",
        linespacing=1.35,
        color=_INK,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 2},
        zorder=5,
    )
    _draw_strip(strip, seen, "probability of class 1" if positive else "confidence")
    for axes in (ax, strip):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(_GREY)
    return ax


def _free_place(seen: Reliability) -> tuple[float, float, str, str]:
    """The lower right corner for the numbers or, where more data lies there, the left side below the legend."""
    low, high = (
        find([end, seen.outcome, seen.confidence], axis=0) for find, end in ((np.min, seen.low), (np.max, seen.high))
    )
    left, right = seen.statistics.edges[:-1], seen.statistics.edges[1:]

    def covered(x: tuple[float, float], y: tuple[float, float]) -> float:
        across = np.clip(np.minimum(right, x[1]) - np.maximum(left, x[0]), 0, None)
        return float(np.nansum(across * np.clip(np.minimum(high, y[1]) - np.maximum(low, y[0]), 0, None)))

    if covered((0.66, 1), (0, 0.19)) > covered((0, 0.34), (0.48, 0.67)):
        return 0.02, 0.67, "left", "top"
    return 0.98, 0.03, "right", "bottom"


def _draw_strip(strip: Axes, seen: Reliability, name: str) -> None:
    """The histogram of confidence, with the number of rows in each bin."""
    statistics = seen.statistics
    share = statistics.histogram
    left, width = statistics.edges[:-1], np.diff(statistics.edges)
    strip.bar(left, share, width, align="edge", color=_GREY, alpha=0.55, edgecolor="white", linewidth=0.6)
    strip.set(xlim=(0, 1), ylim=(0, share.max() * 1.4), xlabel=name, ylabel="rows")
    strip.set_yticks([])
    strip.tick_params(length=0, colors=_INK)
    if statistics.n_bins <= MOST_COUNTS:
        for x, height, rows in zip(left + width / 2, share, statistics.bin_rows, strict=True):
            if rows:
                strip.text(x, height, _short(int(rows)), ha="center", va="bottom", fontsize=6, color=_INK)


def _rank(name: str) -> int:
    """The data first in the legend, then its interval, then the gaps."""
    return 2 if name.endswith("confident") else 1 if name.endswith("interval") else 0


def _short(count: int) -> str:
    """At most four characters: 999, 1.2k, 35k, 1.2M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 9.95 * size else f"{count / size:.0f}{unit}"
    return str(count)
