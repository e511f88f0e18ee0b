"""The results as plain values for the script of the HTML report."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from driftcal.pipeline.evaluating.results import METRICS, CalibratorInfo, ResultRow, Results
from driftcal.report.comparison import (
    ComparisonLine,
    compare_by_group,
    featured_line,
    form_text,
    is_tuned_on_shift,
    is_uncalibrated,
    main_lines,
    method_numbers,
)
from driftcal.report.shift_names import shift_title, shift_title_and_name

#: Colours and marker shapes of the page for methods; the uncalibrated model has a further one.
N_COLOURS = 8
#: Digits of a number in the page: more than any figure shows. results.json has all digits.
_DIGITS = 6
#: With more rows, rows of groups have no bins, so that the page stays small: 20,000 rows are about 10 MB.
_MAX_ROWS = 20_000


def page_data(results: Results) -> dict[str, Any]:
    """All values that the page shows. The keys of rows are short, because there are many rows."""
    calibrators = {info.name: i for i, info in enumerate(results.calibrators)}
    shifts = {shift.name: i for i, shift in enumerate(results.shifts)}
    groups = {group: i for i, group in enumerate([None, *results.groups])}
    by_group = compare_by_group(results)
    lines = by_group[None] or next(iter(by_group.values()), [])
    featured = featured_line(lines, results.metadata)
    return {
        "metrics": list(METRICS),
        "bins": results.n_bins,
        "in_domain_only": results.in_domain_only,
        "calibrators": _calibrators(results.calibrators, method_colours(results)),
        "shifts": [
            {
                "name": s.name,
                "title": shift_title(s.name),
                "both": shift_title_and_name(s.name),
                "levels": [_round(v) for v in s.levels],
                "labels": list(map(str, s.labels)),
            }
            for s in results.shifts
        ],
        "groups": list(groups),
        "shown": [calibrators[line.info.name] for line in main_lines(lines, results.metadata)],
        "featured": calibrators[featured.info.name] if featured else 0,
        "summary": [[_summary(line, calibrators) for line in by_group[group]] for group in groups],
        "rows": [
            _row(row, calibrators, shifts, groups, with_bins=row.group is None or len(results.rows) <= _MAX_ROWS)
            for row in results.rows
            if row.calibrator in calibrators
        ],
        "perturbation": _plain(results.perturbation),
    }


def method_colours(results: Results) -> dict[str, int]:
    """The colour of each method in the page's styles, from 1."""
    return {method: 1 + number % N_COLOURS for method, number in method_numbers(results).items()}


def _calibrators(infos: Sequence[CalibratorInfo], colours: Mapping[str, int]) -> list[dict[str, Any]]:
    n_tuned_on_shift: dict[str, int] = defaultdict(int)
    entries = []
    for info in infos:
        # 0 uncalibrated, 1 tuned on clean samples, 2 and 3 tuned on perturbed samples: dashes and hollow markers differ
        style = 0 if is_uncalibrated(info) else 1
        if is_tuned_on_shift(info):
            style = 2 + n_tuned_on_shift[info.method] % 2
            n_tuned_on_shift[info.method] += 1
        entries.append(
            {
                "name": info.name,
                "label": info.label,
                "method": info.method,
                "tuned_on": info.tuned_on,
                "form": form_text(info),
                "keeps_accuracy": info.keeps_accuracy,
                "colour": 0 if style == 0 else colours[info.method],
                "style": style,
            }
        )
    return entries


def _summary(line: ComparisonLine, calibrators: Mapping[str, int]) -> dict[str, Any]:
    values = {**asdict(line.summary), **asdict(line.ratios)}
    for key in ("in_domain_null_ece", "mean_null_ece", "worst_null_ece", "in_domain_interval", "worst_interval"):
        values[key] = getattr(line, key)
    return {**{key: _plain(value) for key, value in values.items()}, "calibrator": calibrators[line.info.name]}


def _row(
    row: ResultRow,
    calibrators: Mapping[str, int],
    shifts: Mapping[str, int],
    groups: Mapping[str | None, int],
    *,
    with_bins: bool,
) -> dict[str, Any]:
    columns = [row.bins.get(key, ()) if with_bins else () for key in ("weight", "confidence", "outcome")]
    return {
        "c": calibrators[row.calibrator],
        "s": shifts.get(row.shift, -1),  # -1: clean samples under another name
        "g": groups[row.group],
        "l": row.level if isinstance(row.level, str) else _round(row.level),
        "n": row.n_samples,
        "e0": _round(row.null_ece),
        "v": [_round(getattr(row, metric)) for metric in METRICS],
        "i": {METRICS.index(k): [_round(v) for v in pair] for k, pair in row.intervals.items() if k in METRICS},
        "b": [[i, *map(_round, sums)] for i, sums in enumerate(zip(*columns, strict=False)) if sums[0] > 0],
    }


def _round(value: float) -> float | None:
    number = float(value)
    if not math.isfinite(number):
        return None
    short = float(f"{number:.{_DIGITS}g}")
    return int(short) if short == int(short) else short


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, str | bool):
        return value
    return _round(value)
