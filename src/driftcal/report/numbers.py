"""What the page shows, as plain values: results arranged for drawing, nothing measured anew."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from driftcal.pipeline.results import METRICS, POOLED, CalibratorInfo, CalibratorSummary, ResultRow, Results

#: Colours and marker shapes the page has for methods besides the uncalibrated model.
FAMILIES = 8
# Digits kept in the page: more than any figure shows; all of them are in results.json.
_DIGITS = 6
# Rows beyond which those of groups come without bins, so that the page still opens at once: 20,000 are about 10 MB.
_MOST_ROWS = 20_000


def is_uncalibrated(info: CalibratorInfo) -> bool:
    """True for the model as it came."""
    return info.tuned_on == "nothing"


def is_drift_tuned(info: CalibratorInfo) -> bool:
    """True for calibrators tuned on simulated drift: -P, -H and the like."""
    return info.tuned_on not in ("nothing", "clean rows")


@dataclass(frozen=True)
class Line:
    """A calibrator's summary with what surrounds it; means are over the shifts, each pooled over its levels."""

    info: CalibratorInfo
    summary: CalibratorSummary
    in_domain_floor: float
    in_domain_interval: Sequence[float] | None
    mean_floor: float
    mean_confidence: float
    worst_floor: float
    worst_interval: Sequence[float] | None


def lines_of(results: Results, group: str | None = None) -> list[Line]:
    """A line per calibrator that has both clean and drifted rows of this group."""
    return _lines(results, [row for row in results.rows if row.group == group], group)


def lines_by_group(results: Results) -> dict[str | None, list[Line]]:
    """The lines of all data (None) and of every group, in one pass over the rows."""
    parts: dict[str | None, list[ResultRow]] = defaultdict(list)
    for row in results.rows:
        parts[row.group].append(row)
    return {group: _lines(results, parts[group], group) for group in [None, *results.groups]}


def _lines(results: Results, rows: Sequence[ResultRow], group: str | None) -> list[Line]:
    pooled: dict[str, list[ResultRow]] = defaultdict(list)
    clean: dict[str, ResultRow] = {}
    for row in rows:
        if row.level == POOLED:
            pooled[row.calibrator].append(row)
        elif row.level == 0:
            clean.setdefault(row.calibrator, row)
    infos = [info for info in results.calibrators if info.name in clean and pooled[info.name]]
    found = []
    for info in infos:
        drifted, start = pooled[info.name], clean[info.name]
        summary = replace(results, calibrators=[info], rows=[*drifted, start]).summary(group)[0]
        worst = max(drifted, key=lambda row: row.ece)
        found.append(
            Line(
                info=info,
                summary=summary,
                in_domain_floor=start.null_ece,
                in_domain_interval=start.intervals.get("ece"),
                mean_floor=_mean([row.null_ece for row in drifted]),
                mean_confidence=_mean([row.confidence for row in drifted]),
                worst_floor=worst.null_ece,
                worst_interval=worst.intervals.get("ece"),
            )
        )
    return found


def find_base(lines: Sequence[Line]) -> Line | None:
    """The uncalibrated model."""
    return next((line for line in lines if is_uncalibrated(line.info)), None)


def find_featured(lines: Sequence[Line], method: Any = None) -> Line | None:
    """The calibrator the report is about: the one that was chosen, else the best under drift."""
    wish = str(method).casefold() if method else ""
    by_name = [line for line in lines if wish == line.info.name.casefold()]
    by_method = [line for line in lines if wish == line.info.method.casefold()]
    tuned = [line for line in lines if is_drift_tuned(line.info)]
    fitted = [line for line in lines if not is_uncalibrated(line.info)]
    for named in ([line for line in [*by_name, *by_method] if is_drift_tuned(line.info)], [*by_name, *by_method]):
        if named:
            return named[0]
    return min(tuned or fitted or list(lines), key=lambda line: line.summary.mean_ece, default=None)


def find_twin(lines: Sequence[Line], featured: Line) -> Line | None:
    """The same method tuned on clean rows only."""
    if not is_drift_tuned(featured.info):
        return None
    return next(
        (line for line in lines if line.info.method == featured.info.method and line.info.tuned_on == "clean rows"),
        None,
    )


def page_data(results: Results) -> dict[str, Any]:
    """All that the page's script draws from: plain values, short keys where there are many."""
    names = {info.name: i for i, info in enumerate(results.calibrators)}
    shifts = {shift.name: i for i, shift in enumerate(results.shifts)}
    groups = {group: i for i, group in enumerate([None, *results.groups])}
    by_group = lines_by_group(results)
    everything = by_group[None] or next(iter(by_group.values()), [])
    featured, base = find_featured(everything, results.metadata.get("method")), find_base(everything)
    twin = find_twin(everything, featured) if featured else None
    shown = [line.info.name for line in (base, twin, featured) if line is not None]
    return {
        "metrics": list(METRICS),
        "bins": results.n_bins,
        "calibrators": _calibrators(results.calibrators),
        "shifts": [
            {"name": s.name, "levels": [_round(v) for v in s.levels], "labels": list(map(str, s.labels))}
            for s in results.shifts
        ],
        "groups": list(groups),
        "shown": [names[name] for name in dict.fromkeys(shown)],
        "featured": names[featured.info.name] if featured else 0,
        "summary": [[_summary(line, names) for line in by_group[group]] for group in groups],
        "rows": [
            _row(row, names, shifts, groups, bins=row.group is None or len(results.rows) <= _MOST_ROWS)
            for row in results.rows
            if row.calibrator in names
        ],
        "ladder": _plain(results.perturbation),
    }


def _calibrators(infos: Sequence[CalibratorInfo]) -> list[dict[str, Any]]:
    methods = list(dict.fromkeys(info.method for info in infos if not is_uncalibrated(info)))
    seen: dict[str, int] = defaultdict(int)
    entries = []
    for info in infos:
        # 0 uncalibrated, 1 tuned on clean rows, 2, 3, … tuned on drift: told apart by dashes and hollow markers.
        style = 0
        if not is_uncalibrated(info):
            style = 1
        if is_drift_tuned(info):
            style = 2 + seen[info.method] % 2
            seen[info.method] += 1
        entries.append(
            {
                "name": info.name,
                "label": info.label,
                "method": info.method,
                "tuned": info.tuned_on,
                "keeps": info.keeps_accuracy,
                "colour": 0 if style == 0 else 1 + methods.index(info.method) % FAMILIES,
                "style": style,
            }
        )
    return entries


def _summary(line: Line, names: Mapping[str, int]) -> dict[str, Any]:
    entry = {key: _plain(value) for key, value in asdict(line.summary).items()}
    entry["calibrator"] = names[line.info.name]
    for key in ("in_domain_floor", "mean_floor", "worst_floor", "in_domain_interval", "worst_interval"):
        entry[key] = _plain(getattr(line, key))
    return entry


def _row(
    row: ResultRow, names: Mapping[str, int], shifts: Mapping[str, int], groups: Mapping[str | None, int], *, bins: bool
) -> dict[str, Any]:
    columns = [row.bins.get(key, ()) if bins else () for key in ("weight", "confidence", "outcome")]
    return {
        "c": names[row.calibrator],
        "s": shifts.get(row.shift, -1),  # -1: rows of the untouched data under a name of their own
        "g": groups[row.group],
        "l": row.level if isinstance(row.level, str) else _round(row.level),
        "n": row.n_samples,
        "f": _round(row.null_ece),
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


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
