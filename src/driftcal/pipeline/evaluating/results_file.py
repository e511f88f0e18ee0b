"""The text of results.json: its digest, and checks of what was read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftcal.core.scalars import is_number, is_whole
from driftcal.errors import ArtefactError
from driftcal.io.fingerprint import canonical_json, sha256_bytes
from driftcal.io.json_text import parse_json
from driftcal.io.limits import JSON_BYTES

if TYPE_CHECKING:
    from driftcal.pipeline.evaluating.results import Results

_KEYS = {"format", "version", "suite", "n_bins", "calibrators", "shifts", "rows", "perturbation", "metadata", "digest"}
_TEXT_FIELDS = {"calibrator", "shift"}
_OTHER_FIELDS = {"level", "n_samples", "bins", "intervals", "group", "decision", "accuracy_at_coverage"}


def results_text(values: Mapping[str, Any]) -> str:
    """The JSON text of results, with a digest over all other values."""
    plain = json.loads(json.dumps(values, allow_nan=False, default=float))
    return json.dumps({**plain, "digest": _digest(plain)}, separators=(",", ":"))


def read_results(path: Path) -> dict[str, Any]:
    """The values of a results.json that is intact; files of earlier versions have no digest."""
    size, limit = path.stat().st_size, JSON_BYTES.value()
    if size > limit:
        raise ArtefactError(f"{path} must have at most {limit:,} bytes; it has {size:,}. {JSON_BYTES.way_out()}")
    values = parse_json(path.read_bytes())
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    unknown = values.keys() - _KEYS
    if unknown and values.get("version") != 1:
        raise ValueError(f"{sorted(unknown)[0]!r} is no part of results")
    if "digest" in values and values.pop("digest") != _digest(values):
        raise ArtefactError(
            f"{path} must match its own digest; it was altered or damaged. Copy it again, or evaluate again."
        )
    return values


def check_results(results: Results) -> None:
    """Raise ValueError for values of the wrong type, or for rows that are missing: reports and tables rely on them."""
    _check(isinstance(results.suite, str), "suite must be text")
    _check(is_whole(results.n_bins) and results.n_bins >= 1, "n_bins must be a whole number")
    _check(results.perturbation is None or isinstance(results.perturbation, dict), "perturbation must be an object")
    _check(isinstance(results.metadata, dict), "metadata must be an object")
    for info in results.calibrators:
        texts = (info.name, info.label, info.method, info.tuned_on, info.form, *info.warnings)
        _check(all(isinstance(text, str) for text in texts), "the names of calibrators must be text")
        _check(isinstance(info.keeps_accuracy, bool), "keeps_accuracy must be true or false")
        _check(info.temperature is None or _is_number(info.temperature), "temperature must be a number")
        _check(info.window_size is None or is_whole(info.window_size), "window_size must be a whole number")
    for shift in results.shifts:
        _check(isinstance(shift.name, str), "the names of shifts must be text")
        _check(
            _are_numbers(shift.levels) and len(shift.labels) == len(shift.levels), "levels must be numbers with labels"
        )
        _check(all(isinstance(label, str) for label in shift.labels), "the labels of levels must be text")
    for row in results.rows:
        for name, value in vars(row).items():
            if name in _TEXT_FIELDS:
                _check(isinstance(value, str), f"{name} must be text")
            elif name not in _OTHER_FIELDS:
                _check(_is_number(value), f"{name} must be a number")
        _check(_is_number(row.level) or row.level == "all", "level must be a number or 'all'")
        _check(is_whole(row.n_samples) and row.n_samples >= 0, "n_samples must be a whole number")
        _check(row.group is None or isinstance(row.group, str), "group must be text")
        _check(isinstance(row.bins, dict) and all(map(_are_numbers, row.bins.values())), "bins must hold numbers")
        pairs = list(row.intervals.values())
        _check(all(_are_numbers(pair) and len(pair) == 2 for pair in pairs), "intervals must be pairs of numbers")
        _check(_are_numbers(row.accuracy_at_coverage), "accuracy_at_coverage must hold numbers")
        _check(row.decision is None or _is_decision(row.decision), "decision must hold coverage, accuracy and a count")
    _check_complete(results)


def _is_decision(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and _is_number(value.get("coverage"))
        and is_whole(value.get("n_accepted"))
        and (value.get("accuracy") is None or _is_number(value["accuracy"]))
    )


def _check_complete(results: Results) -> None:
    """Every calibrator has a clean row and a pooled row, in every group."""
    levels: dict[tuple[str, str | None], set[Any]] = {}
    for row in results.rows:
        levels.setdefault((row.calibrator, row.group), set()).add(row.level)
    for group in (None, *results.groups):
        for info in results.calibrators:
            recorded = levels.get((info.name, group), set())
            _check({0, "all"} <= recorded, f"calibrator {info.name!r} lacks the rows of level 0 or of all levels")


def _digest(values: Mapping[str, Any]) -> str:
    return sha256_bytes(canonical_json(values).encode())


def _check(is_valid: bool, problem: str) -> None:
    if not is_valid:
        raise ValueError(problem)


def _is_number(value: Any) -> bool:
    return is_number(value) and abs(value) < 1e300


def _are_numbers(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(map(_is_number, values))
