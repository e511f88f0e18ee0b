"""Traffic as it comes: lines of JSON from a pipe, .npz, .npy and .csv files, none of them trusted.

Whatever a stream holds, reading goes on: what cannot be read is counted by its reason, and memory stays bounded.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftcal.errors import DataError
from driftcal.io.npz import LABEL_NAMES, open_arrays
from driftcal.monitor.clock import seconds, times_of
from driftcal.monitor.lines import LONGEST_LINE, line_groups

_ROWS = 4096


@dataclass
class Batch:
    """Rows for `Monitor.update`, labels of rows seen before for `Monitor.label`, and what had to be dropped."""

    scores: Any = None
    at: Any = None
    labels: Any = None
    ids: Any = None
    late: list[tuple[Any, Any]] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    #: Rows of one kind can be put together; None for what must stay apart.
    kind: tuple[Any, ...] | None = None


def json_batches(stream: BinaryIO, inputs: str, *, longest: int = LONGEST_LINE) -> Iterator[Batch]:
    """Lines of JSON as batches: objects with `inputs` (one row or several), and perhaps label, id and time.

    A line with label and id but no scores is a label that comes late. Time is a number or ISO 8601. While the stream is
    quiet an empty batch comes now and then.
    """
    for group in line_groups(stream, longest):
        if not group:
            yield Batch()
        yield from joined(
            Batch(rejected={"line too long": 1}) if line is None else _parsed(line, inputs)
            for line in group
            if line is None or line.strip()
        )


def joined(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Neighbouring single rows that are alike, as one batch: the same numbers with fewer calls."""
    held: Batch | None = None
    for batch in batches:
        if held is not None and batch.kind is not None and held.kind == batch.kind and len(held.scores) < _ROWS:
            for name in ("scores", "at", "labels", "ids"):
                if getattr(held, name) is not None:
                    getattr(held, name).extend(getattr(batch, name))
            continue
        if held is not None:
            yield held
        held = batch
    if held is not None:
        yield held


def _parsed(line: bytes, inputs: str) -> Batch:
    try:
        found = json.loads(line.decode("utf-8"), parse_int=_whole)
    except UnicodeDecodeError:
        return Batch(rejected={"not UTF-8": 1})
    except (ValueError, RecursionError):  # half a line, a number of a million digits, a thousand brackets
        return Batch(rejected={"not JSON": 1})
    if isinstance(found, list):
        found = {inputs: found}
    if not isinstance(found, dict):
        return Batch(rejected={"not an object": 1})
    scores = found.get(inputs)
    if scores is None:
        late = _many(found.get("label")), _many(found.get("id"))
        if found.get("label") is not None and found.get("id") is not None and len(late[0]) == len(late[1]):
            return Batch(late=list(zip(late[1], late[0], strict=True)))
        return Batch(rejected={f"no {inputs}": 1})
    if not isinstance(scores, list) or not scores:
        return Batch(rejected={"not numbers": 1})
    rows = scores if isinstance(scores[0], list) else [scores]
    width = _width(rows)
    at, labels, ids = (None if found.get(name) is None else _many(found[name]) for name in ("time", "label", "id"))
    if any(given is not None and len(given) not in counts for given, counts in (
        (at, {1, len(rows)}), (labels, {len(rows)}), (ids, {len(rows)}),
    )):  # fmt: skip
        return Batch(rejected={"fields of different lengths": len(rows)})
    times = None if at is None else [seconds(value) for value in at]
    if times is not None and len(times) < len(rows):
        times *= len(rows)
    kind = None if width is None else (width, times is None, labels is None, ids is None)
    return Batch(rows, times, labels, ids, kind=kind)


def _whole(digits: str) -> int | float:
    """Small whole numbers as they are, for labels and ids; the largest as floats, which may be infinite."""
    return int(digits) if len(digits) < 19 else float(digits)


def _width(rows: list[Any]) -> int | None:
    """The common length of rows of plain numbers; None if they are anything else."""
    if not all(isinstance(row, list) and all(type(value) in (float, int) for value in row) for row in rows):
        return None
    widths = {len(row) for row in rows}
    return widths.pop() if len(widths) == 1 else None


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def file_batches(path: str | os.PathLike[str], inputs: str) -> Iterator[Batch]:
    """The rows of a file, a few thousand at a time: .npz, .npy, .csv, or lines of JSON under any other name."""
    place = Path(path)
    kind = place.suffix.lower()
    if kind == ".npz":
        yield from _npz(place, inputs)
    elif kind == ".npy":
        yield from _arrays(open_arrays(place).single(), None, None, None)
    elif kind == ".csv":
        yield from _csv(place)
    else:
        with open(place, "rb") as file:
            yield from json_batches(file, inputs)


def _npz(place: Path, inputs: str) -> Iterator[Batch]:
    file = open_arrays(place)
    scores = file.find([inputs], "the scores", "Rename it.")
    yield from _arrays(scores, file.get("time"), file.get(*LABEL_NAMES), file.get("id"))


def _arrays(scores: Any, at: Any, labels: Any, ids: Any) -> Iterator[Batch]:
    for name, given in (("time", at), ("labels", labels), ("id", ids)):
        if given is not None and len(given) != len(scores):
            raise DataError(
                f"{name} must hold one entry per row; there are {len(scores)} rows and {len(given)} entries."
            )
    for start in range(0, len(scores), _ROWS):
        part = slice(start, start + _ROWS)
        yield Batch(
            np.asarray(scores[part]),
            None if at is None else _times(at[part]),
            None if labels is None else labels[part],
            None if ids is None else ids[part],
        )


def _times(at: Any) -> list[float]:
    times = times_of(at)
    return [seconds(value) for value in times.tolist()]  # text as well


def _csv(place: Path) -> Iterator[Batch]:
    """Numbers with commas between; a first line with names may call columns label, id and time."""
    with open(place, "rb") as file:
        reader = _Columns()
        for group in line_groups(file):
            yield from joined(filter(None, map(reader, group)))


class _Columns:
    """Lines of a CSV file to rows; the first line decides which column is what."""

    def __init__(self) -> None:
        self.names: list[str] | None = None

    def __call__(self, line: bytes | None) -> Batch | None:
        if line is None:
            return Batch(rejected={"line too long": 1})
        try:
            cells = next(csv.reader([line.decode("utf-8-sig")]), [])
        except UnicodeDecodeError:
            return Batch(rejected={"not UTF-8": 1})
        except csv.Error:
            return Batch(rejected={"not CSV": 1})
        if self.names is None:
            plain = all(_is_number(cell) for cell in cells)
            self.names = [""] * len(cells) if plain else [cell.strip().lower() for cell in cells]
            if not plain:
                return None
        return _row(cells, self.names) if cells else None


def _row(cells: list[str], names: list[str]) -> Batch:
    if len(cells) != len(names):
        return Batch(rejected={"wrong number of columns": 1})
    special = dict(zip(names, cells, strict=True))
    scores = [cell for name, cell in zip(names, cells, strict=True) if name not in ("label", "id", "time")]
    if not all(_is_number(cell) for cell in scores):
        return Batch(rejected={"not numbers": 1})
    at = special.get("time")
    times = None if at is None else [seconds(float(at) if _is_number(at) else at)]
    labels = [special["label"] or None] if "label" in special else None
    ids = [special["id"] or None] if "id" in special else None
    kind = (len(scores), times is None, labels is None, ids is None)
    return Batch([[float(cell) for cell in scores]], times, labels, ids, kind=kind)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
