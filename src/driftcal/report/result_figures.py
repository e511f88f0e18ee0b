"""Figures of results for a paper, drawn with matplotlib: PDF, SVG and PNG."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from driftcal.errors import UnknownName
from driftcal.io.atomic import write_atomic
from driftcal.metrics.reliability import Reliability
from driftcal.pipeline.evaluating.results import POOLED, ResultRow, Results
from driftcal.report.comparison import ComparisonLine, compare_calibrators, featured_line, main_lines, uncalibrated_line
from driftcal.report.plot_style import (
    COLOURS,
    TEXT_COLOUR,
    draw_bar,
    figure_files,
    new_figure,
    plot_style,
    series_style,
    shorten,
)
from driftcal.report.reliability_diagram import draw_reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The formats that a figure can be written in.
FIGURE_FORMATS = ("pdf", "svg", "png")

#: The most curves of a panel: more would hide each other.
_MAX_CURVES = 5
#: Pixels per inch of PNG files, as journals require.
_DPI = 300


def write_figures(
    results: Results, folder: str | os.PathLike[str], formats: Sequence[str] = FIGURE_FORMATS
) -> list[Path]:
    """Write all figures of the results into `folder`, in each of `formats`; return the paths.

    The figures are ``mean_ece``, ``ece_by_level``, ``accuracy_by_level``, ``shifts``, ``reliability`` and, if the
    results hold them, ``perturbation_levels``. Sizes are those of one or two columns of a paper. The same results give
    the same bytes.
    """
    for file_format in formats:
        if file_format not in FIGURE_FORMATS:
            raise UnknownName.of("figure format", file_format, FIGURE_FORMATS)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    lines = compare_calibrators(results)
    written = []
    with plot_style():
        for name, draw in FIGURES.items():
            figure = draw(results, lines) if lines else None
            if figure is None:
                continue
            files = zip(formats, figure_files(figure, formats, dpi=_DPI), strict=True)
            written += [write_atomic(target / f"{name}.{file_format}", data) for file_format, data in files]
    return written


def draw_mean_ece(results: Results, lines: Sequence[ComparisonLine]) -> Figure:
    """Bars of the mean ECE under shift of each calibrator; a dot marks its ECE in domain."""
    ordered = sorted(lines, key=lambda line: -line.summary.mean_ece)
    figure, ax = new_figure(3.4, 0.7 + 0.2 * len(ordered))
    for i, line in enumerate(ordered):
        draw_bar(ax, i, 0.72, line.summary.mean_ece, line.info, results)
    ax.plot(
        [line.summary.in_domain_ece for line in ordered],
        range(len(ordered)),
        "o",
        color="white",
        markeredgecolor=TEXT_COLOUR,
        markersize=4.5,
        label="in domain",
    )
    ax.set_yticks(range(len(ordered)), [shorten(line.info.label) for line in ordered])
    ax.set(xlabel="mean ECE under shift", xlim=(0, None), ylim=(-0.6, len(ordered) - 0.4))
    ax.grid(axis="y", visible=False)
    ax.legend(loc="upper right")
    return figure


def draw_ece_by_level(results: Results, lines: Sequence[ComparisonLine]) -> Figure:
    """Curves of the ECE against the level of shift, mean over the shifts."""
    return _by_level(results, lines, "ece", "ECE, mean over shifts")


def draw_accuracy_by_level(results: Results, lines: Sequence[ComparisonLine]) -> Figure:
    """Curves of accuracy and mean confidence against the level of shift, mean over the shifts."""
    figure = _by_level(results, lines, "confidence", "confidence, mean over shifts")
    ax = figure.axes[0]
    base = uncalibrated_line(lines) or lines[0]
    levels = _shared_levels(results)
    accuracy = [_mean_at(results, base.info.name, level, "accuracy") for level in levels]
    ax.plot(range(len(levels)), accuracy, color=TEXT_COLOUR, linewidth=2.2, label="accuracy", zorder=1.5)
    ax.set(ylabel="accuracy, confidence", ylim=(0, 1))
    ax.legend()
    return figure


def draw_shifts(results: Results, lines: Sequence[ComparisonLine]) -> Figure:
    """Bars of the pooled ECE of each shift, with intervals."""
    chosen = _chosen(results, lines)
    figure, ax = new_figure(3.4, 0.8 + len(results.shifts) * (0.12 + 0.11 * len(chosen)))
    thickness = 0.82 / len(chosen)
    rows = {(row.calibrator, row.shift): row for row in results.rows if row.level == POOLED and row.group is None}
    for i, shift in enumerate(results.shifts):
        for k, line in enumerate(chosen):
            row = rows.get((line.info.name, shift.name))
            if row is None:
                continue
            y = i + (k - (len(chosen) - 1) / 2) * thickness
            draw_bar(ax, y, thickness * 0.86, row.ece, line.info, results, label=line.info.label if i == 0 else None)
            if "ece" in row.intervals:
                ax.plot(row.intervals["ece"], [y, y], color=TEXT_COLOUR, linewidth=0.8)
    ax.set_yticks(range(len(results.shifts)), [shorten(shift.name) for shift in results.shifts])
    ax.set(xlabel="ECE, all levels pooled", xlim=(0, None), ylim=(len(results.shifts) - 0.45, -0.55))
    ax.grid(axis="y", visible=False)
    figure.legend(loc="outside upper center", ncols=min(3, len(chosen)))
    return figure


def draw_reliability_diagrams(results: Results, lines: Sequence[ComparisonLine]) -> Figure | None:
    """Two rows of reliability diagrams: in domain above, the worst shift of the featured calibrator below."""
    chosen = _chosen(results, lines, max_curves=3)
    featured = featured_line(lines, results.metadata) or chosen[-1]
    shift = featured.summary.worst_shift
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.2 * len(chosen) + 0.4, 5.0), layout="constrained")
    grid = figure.subplots(2, len(chosen), squeeze=False, sharex=True, sharey=True)
    for k, line in enumerate(chosen):
        cases: tuple[tuple[float | str, str], ...] = ((0, "in domain"), (POOLED, shift))
        for i, (level, data_name) in enumerate(cases):
            row = _find(results, line.info.name, shift, level)
            if row is None:
                return None
            _draw_diagram(grid[i][k], row)
            grid[i][k].set_title(f"{shorten(line.info.label)}, {shorten(data_name)}")
        grid[1][k].set_xlabel("confidence")
    for i in range(2):
        grid[i][0].set_ylabel("accuracy")
    return figure


def draw_perturbation_levels(results: Results, lines: Sequence[ComparisonLine]) -> Figure | None:
    """The target accuracy and the reached accuracy of each perturbation level of Algorithm 1."""
    perturbation = results.perturbation or {}
    levels = perturbation.get("levels") or []
    if not levels:
        return None
    figure, ax = new_figure(3.4, 2.3)
    positions = range(len(levels))  # ε spans decades, so levels are drawn at equal distances
    if all(level.get("target") is not None for level in levels) and perturbation.get("solver") != "table":
        targets = [level["target"] for level in levels]
        ax.plot(positions, targets, "s", color=COLOURS[1], markerfacecolor="white", markersize=6, label="target")
    ax.errorbar(
        positions,
        [level["accuracy"] for level in levels],
        yerr=[1.96 * (level.get("standard_error") or 0) for level in levels],
        color=COLOURS[0],
        marker="o",
        markersize=3,
        linewidth=1,
        label="reached, 95 % interval",
    )
    is_gaussian = perturbation.get("shift") == "gaussian"
    ax.set_xticks(positions, [f"{level['epsilon']:.3g}" for level in levels], rotation=45)
    ax.set(xlabel="ε, variance of the noise" if is_gaussian else "level", ylabel="accuracy", ylim=(0, 1))
    ax.legend()
    return figure


#: File name -> function that draws the figure; it returns None if the results hold nothing for it.
FIGURES: dict[str, Callable[[Results, Sequence[ComparisonLine]], Figure | None]] = {
    "mean_ece": draw_mean_ece,
    "ece_by_level": draw_ece_by_level,
    "accuracy_by_level": draw_accuracy_by_level,
    "shifts": draw_shifts,
    "reliability": draw_reliability_diagrams,
    "perturbation_levels": draw_perturbation_levels,
}


def _chosen(results: Results, lines: Sequence[ComparisonLine], max_curves: int = _MAX_CURVES) -> list[ComparisonLine]:
    """All calibrators if they are few; otherwise the first of the main ones and the last of them."""
    if len(lines) <= max_curves:
        return list(lines)
    main = main_lines(lines, results.metadata)
    return main if len(main) <= max_curves else [*main[: max_curves - 1], main[-1]]


def _by_level(results: Results, lines: Sequence[ComparisonLine], metric: str, label: str) -> Figure:
    figure, ax = new_figure(3.4, 2.5)
    draw_by_level(ax, results, lines, metric, label)
    return figure


def draw_by_level(ax: Axes, results: Results, lines: Sequence[ComparisonLine], metric: str, label: str) -> None:
    """Curves of a metric against the level of shift, mean over the shifts."""
    levels = _shared_levels(results)
    for line in _chosen(results, lines):
        values = [_mean_at(results, line.info.name, level, metric) for level in levels]
        ax.plot(range(len(levels)), values, label=shorten(line.info.label), **series_style(line.info, results))
    ax.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
    ax.set(xlabel="level of shift", ylabel=label, ylim=(0, None))
    ax.legend()


def _shared_levels(results: Results) -> list[float]:
    """The levels that all shifts have; those of the first shift if they share none."""
    if not results.shifts:
        return [0]
    first = results.shifts[0].levels
    return [level for level in first if all(level in shift.levels for shift in results.shifts)] or list(first)


def _mean_at(results: Results, name: str, level: float, metric: str) -> float:
    rows = [row for shift in results.shifts if (row := _find(results, name, shift.name, level)) is not None]
    return sum(getattr(row, metric) for row in rows) / len(rows) if rows else float("nan")


def _find(results: Results, name: str, shift: str, level: float | str) -> ResultRow | None:
    rows = [row for row in results.rows if (row.calibrator, row.level, row.group) == (name, level, None)]
    # at level 0 all shifts have the same clean samples
    return next((row for row in rows if row.shift == shift), rows[0] if rows and level == 0 else None)


def _draw_diagram(ax: Axes, row: ResultRow) -> None:
    reliability = Reliability.of_sums(
        row.bins["weight"],
        row.bins["confidence"],
        row.bins["outcome"],
        ece=row.ece,
        null_ece=row.null_ece,
        n_samples=row.n_samples,
    )
    draw_reliability(reliability, ax, legend=False, font_size=7)
