"""The comparison of all calibrators of an evaluation: a line for each, and the lines that a report shows first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType
from typing import Any

from driftcal.pipeline.evaluating.results import (
    CLEAN_SAMPLES,
    NOTHING,
    POOLED,
    WINDOWED,
    CalibratorInfo,
    CalibratorSummary,
    EceRatios,
    ResultRow,
    Results,
    ece_ratios,
    find_best_p,
    find_temperature_scaling,
)


@dataclass(frozen=True)
class ComparisonLine:
    """The summary of a calibrator with null ECEs, intervals and ratios.

    Means are over the shifts, each pooled over its levels. A null ECE is the ECE that a perfectly calibrated model
    would show on these samples.
    """

    info: CalibratorInfo
    summary: CalibratorSummary
    ratios: EceRatios
    in_domain_null_ece: float
    in_domain_interval: Sequence[float] | None
    mean_null_ece: float
    mean_confidence: float
    worst_null_ece: float
    worst_interval: Sequence[float] | None


def compare_calibrators(results: Results, group: str | None = None) -> list[ComparisonLine]:
    """A line per calibrator that has rows in domain and under shift in this group."""
    return _compare(results, [row for row in results.rows if row.group == group], group)


def compare_by_group(results: Results) -> dict[str | None, list[ComparisonLine]]:
    """The lines of all data (None) and of each group, in one pass over the rows."""
    rows_of: dict[str | None, list[ResultRow]] = defaultdict(list)
    for row in results.rows:
        rows_of[row.group].append(row)
    return {group: _compare(results, rows_of[group], group) for group in [None, *results.groups]}


def _compare(results: Results, rows: Sequence[ResultRow], group: str | None) -> list[ComparisonLine]:
    rows_of: dict[str, list[ResultRow]] = defaultdict(list)
    for row in rows:
        rows_of[row.calibrator].append(row)
    infos = [info for info in results.calibrators if {POOLED, 0} <= {row.level for row in rows_of[info.name]}]
    summaries = [replace(results, calibrators=[info], rows=rows_of[info.name]).summary(group)[0] for info in infos]
    lines = []
    for info, summary, ratios in zip(infos, summaries, ece_ratios(infos, summaries), strict=True):
        pooled = [row for row in rows_of[info.name] if row.level == POOLED]
        clean = next(row for row in rows_of[info.name] if row.level == 0)
        worst = max(pooled, key=lambda row: row.ece)
        lines.append(
            ComparisonLine(
                info=info,
                summary=summary,
                ratios=ratios,
                in_domain_null_ece=clean.null_ece,
                in_domain_interval=clean.intervals.get("ece"),
                mean_null_ece=fmean(row.null_ece for row in pooled),
                mean_confidence=fmean(row.confidence for row in pooled),
                worst_null_ece=worst.null_ece,
                worst_interval=worst.intervals.get("ece"),
            )
        )
    return lines


def is_uncalibrated(info: CalibratorInfo) -> bool:
    """True for the uncalibrated model."""
    return info.tuned_on == NOTHING


def is_tuned_on_shift(info: CalibratorInfo) -> bool:
    """True for calibrators tuned on perturbed samples: -P, -H and the like."""
    return info.tuned_on not in (NOTHING, CLEAN_SAMPLES)


def method_numbers(results: Results) -> dict[str, int]:
    """The number of each method, for its colour and marker: temperature scaling, windowed methods, the chosen one, others.

    With more methods than colours the first ones share none, and these are shown beside each other most often.
    """
    infos = [info for info in results.calibrators if not is_uncalibrated(info)]
    forms = {info.method: info.form for info in infos}
    scaling = find_temperature_scaling(infos)
    chosen = str(results.metadata.get("calibrator") or "").casefold()
    chosen_methods = {info.method for info in infos if info.name.casefold() == chosen}
    ordered = sorted(
        forms,
        key=lambda method: (
            scaling is None or method != scaling.method,
            forms[method] != WINDOWED,
            method not in chosen_methods,
        ),
    )
    return {method: number for number, method in enumerate(ordered)}


def form_text(info: CalibratorInfo) -> str:
    """The form of a calibrator as text: "per-sample", or "windowed (100)" with the size of its window."""
    if info.form != WINDOWED:
        return info.form
    return WINDOWED if info.window_size is None else f"{WINDOWED} ({info.window_size})"


def uncalibrated_line(lines: Sequence[ComparisonLine]) -> ComparisonLine | None:
    """The line of the uncalibrated model."""
    return next((line for line in lines if is_uncalibrated(line.info)), None)


def temperature_scaling_line(lines: Sequence[ComparisonLine]) -> ComparisonLine | None:
    """The line of plain temperature scaling."""
    return _line_of(lines, find_temperature_scaling([line.info for line in lines]))


def best_p_line(lines: Sequence[ComparisonLine]) -> ComparisonLine | None:
    """The line of the calibrator with the suffix -P that has the lowest ECE under shift."""
    return _line_of(lines, find_best_p([line.info for line in lines], [line.summary for line in lines]))


def _line_of(lines: Sequence[ComparisonLine], info: CalibratorInfo | None) -> ComparisonLine | None:
    return next((line for line in lines if line.info is info), None)


def featured_line(
    lines: Sequence[ComparisonLine], metadata: Mapping[str, Any] = MappingProxyType({})
) -> ComparisonLine | None:
    """The main line of a report: the per-sample calibrator that was tuned, otherwise the best one under shift.

    `metadata` is that of the results; "calibrator" in it is the name. Results of version 0.1 have "method" only. Among
    several calibrators with that method, one tuned on perturbed samples is preferred.
    """
    name, method = (str(metadata.get(key) or "").casefold() for key in ("calibrator", "method"))
    named = [line for line in lines if name and name == line.info.name.casefold()]
    if named:
        return named[0]
    same_method = [line for line in lines if method in (line.info.name.casefold(), line.info.method.casefold())]
    if same_method:
        return next((line for line in same_method if is_tuned_on_shift(line.info)), same_method[0])
    tuned = [line for line in lines if is_tuned_on_shift(line.info)]
    fitted = [line for line in lines if not is_uncalibrated(line.info)]
    return min(tuned or fitted or list(lines), key=lambda line: line.summary.mean_ece, default=None)


def clean_tuned_line(lines: Sequence[ComparisonLine], featured: ComparisonLine) -> ComparisonLine | None:
    """The clean-tuned baseline of a calibrator tuned on perturbed samples: the same method, tuned on clean samples."""
    if not is_tuned_on_shift(featured.info):
        return None
    same_method = (line for line in lines if line.info.method == featured.info.method)
    return next((line for line in same_method if line.info.tuned_on == CLEAN_SAMPLES), None)


def windowed_line(lines: Sequence[ComparisonLine]) -> ComparisonLine | None:
    """The line of the windowed form with the lowest ECE under shift."""
    windowed = [line for line in lines if line.info.form == WINDOWED]
    return min(windowed, key=lambda line: line.summary.mean_ece, default=None)


def plain_name(line: ComparisonLine, lines: Sequence[ComparisonLine], metadata: Mapping[str, Any]) -> str:
    """The name of a line for a reader who knows no short names: "temperature scaling", "driftcal, per sample (ETS-P)"."""
    info = line.info
    if is_uncalibrated(info):
        return "uncalibrated model"
    if line is temperature_scaling_line(lines):
        return "temperature scaling"
    if info.form == WINDOWED:
        size = f" of {info.window_size}" if info.window_size else ""
        return f"driftcal, windows{size} ({info.label})"
    if line is featured_line(lines, metadata):
        return f"driftcal, per sample ({info.label})"
    if line is best_p_line(lines):
        return f"best -P of the paper ({info.label})"
    return f"{info.label}, tuned on {info.tuned_on}"


def main_lines(
    lines: Sequence[ComparisonLine], metadata: Mapping[str, Any] = MappingProxyType({})
) -> list[ComparisonLine]:
    """The lines that are shown first: uncalibrated, temperature scaling, best -P, featured, windowed.

    If the featured line is itself the best -P, its clean-tuned baseline takes that place.
    """
    featured = featured_line(lines, metadata)
    if featured is None:
        return []
    best_p = best_p_line(lines)
    candidates = (
        uncalibrated_line(lines),
        temperature_scaling_line(lines),
        clean_tuned_line(lines, featured) if best_p in (None, featured) else best_p,
        featured,
        windowed_line(lines),
    )
    return list({line.info.name: line for line in candidates if line is not None}.values())
