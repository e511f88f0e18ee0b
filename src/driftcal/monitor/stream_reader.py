"""Reading the samples of a stream: lines of JSON from a pipe, or .npz, .npy and .csv files.

The content is not trusted and cannot stop the reader. Lines that cannot be read are counted by their reason. Memory is
bounded.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftcal.errors import DataError
from driftcal.io.npz import LABEL_NAMES, open_arrays
from driftcal.monitor.clock import as_times, seconds
from driftcal.monitor.line_reader import MAX_LINE, line_groups

#: Samples of a batch: enough that a call takes little time per sample.
_BATCH = 4096
#: Columns of a CSV file that are not scores.
_SPECIAL_COLUMNS = ("label", "id", "time")


@dataclass
class StreamBatch:
    """Samples for `Monitor.update`, labels of earlier samples for `Monitor.add_labels`, and counts of unreadable lines.

    Batches with the same `layout` can be joined, unless it is None.
    """

    scores: Any = None
    times: Any = None
    labels: Any = None
    ids: Any = None
    late_labels: list[tuple[Any, Any]] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    layout: tuple[Any, ...] | None = None


def read_batches(paths: Sequence[str], score_type: str, *, timed: bool = False) -> Iterator[StreamBatch]:
    """The samples of files one after the other; "-" is standard input, with lines of JSON.

    With `timed` windows each sample needs a time. Without one, a sample of standard input gets the time at which it is
    read, and a sample of a file is rejected. Missing files are reported before the first file is read.
    """
    for path in paths:
        if path != "-" and (not Path(path).exists() or Path(path).is_dir()):
            fact = "it is a folder" if Path(path).is_dir() else "there is no such file"
            raise DataError(
                f"{path} must be a file of samples; {fact}. Nothing was read: check the path, or pass - for lines of JSON "
                "on stdin."
            )
    return _read_batches(paths, score_type, timed)


def _read_batches(paths: Sequence[str], score_type: str, timed: bool) -> Iterator[StreamBatch]:
    for path in paths:
        is_stdin = path == "-"
        for batch in json_batches(sys.stdin.buffer, score_type) if is_stdin else file_batches(path, score_type):
            if timed and batch.scores is not None and batch.times is None:
                if is_stdin:
                    yield replace(batch, times=time.time())
                else:
                    yield StreamBatch(rejected={"no time": len(batch.scores)})
            else:
                yield batch


def file_batches(path: str | os.PathLike[str], score_type: str) -> Iterator[StreamBatch]:
    """The samples of a file, a few thousand at a time: .npz, .npy, .csv, or lines of JSON under any other name."""
    file = Path(path)
    kind = file.suffix.lower()
    if kind == ".npz":
        yield from _npz_batches(file, score_type)
    elif kind == ".npy":
        yield from _array_batches(open_arrays(file).single())
    elif kind == ".csv":
        yield from _csv_batches(file)
    else:
        with open(file, "rb") as stream:
            yield from json_batches(stream, score_type)


def json_batches(stream: BinaryIO, score_type: str, *, max_line: int = MAX_LINE) -> Iterator[StreamBatch]:
    """Lines of JSON as batches: objects with `score_type` (one sample or several), and optionally label, id and time.

    A line with label and id but without scores is a late label. A time is a number or ISO 8601 text. While the stream
    is quiet, empty batches are yielded.
    """
    for group in line_groups(stream, max_line):
        if not group:
            yield StreamBatch()
        yield from join_batches(
            StreamBatch(rejected={"line too long": 1}) if line is None else _parse_json(line, score_type)
            for line in group
            if line is None or line.strip()
        )


def join_batches(batches: Iterable[StreamBatch]) -> Iterator[StreamBatch]:
    """Join neighbouring batches of the same layout: the same samples in fewer calls."""
    joined: StreamBatch | None = None
    for batch in batches:
        if (
            joined is not None
            and batch.layout is not None
            and joined.layout == batch.layout
            and len(joined.scores) < _BATCH
        ):
            for name in ("scores", "times", "labels", "ids"):
                if getattr(joined, name) is not None:
                    getattr(joined, name).extend(getattr(batch, name))
            continue
        if joined is not None:
            yield joined
        joined = batch
    if joined is not None:
        yield joined


def _parse_json(line: bytes, score_type: str) -> StreamBatch:
    try:
        value = json.loads(line.decode("utf-8"), parse_int=_whole_number)
    except UnicodeDecodeError:
        return StreamBatch(rejected={"not UTF-8": 1})
    except (ValueError, RecursionError):  # half a line, a number of a million digits, a thousand brackets
        return StreamBatch(rejected={"not JSON": 1})
    if isinstance(value, list):
        value = {score_type: value}
    if not isinstance(value, dict):
        return StreamBatch(rejected={"not an object": 1})
    scores = value.get(score_type)
    times, labels, ids = (
        None if value.get(name) is None else _as_list(value[name]) for name in ("time", "label", "id")
    )
    if scores is None:
        if labels is not None and ids is not None and len(labels) == len(ids):
            return StreamBatch(late_labels=list(zip(ids, labels, strict=True)))
        return StreamBatch(rejected={f"no {score_type}": 1})
    if not isinstance(scores, list) or not scores:
        return StreamBatch(rejected={"not numbers": 1})
    samples = scores if isinstance(scores[0], list) else [scores]
    n_samples = len(samples)
    lengths = [(times, {1, n_samples}), (labels, {n_samples}), (ids, {n_samples})]
    if any(entries is not None and len(entries) not in allowed for entries, allowed in lengths):
        return StreamBatch(rejected={"fields of different lengths": n_samples})
    moments = None if times is None else [seconds(moment) for moment in times]
    if moments is not None and len(moments) < n_samples:
        moments *= n_samples
    n_columns = _n_columns(samples)
    layout = None if n_columns is None else (n_columns, moments is None, labels is None, ids is None)
    return StreamBatch(samples, moments, labels, ids, layout=layout)


def _whole_number(digits: str) -> int | float:
    """Short whole numbers as integers, for labels and ids; long ones as floats, which may be infinite."""
    return int(digits) if len(digits) < 19 else float(digits)


def _n_columns(samples: list[Any]) -> int | None:
    """The common length of samples of plain numbers; None if they are anything else."""
    if not all(isinstance(sample, list) and all(type(value) in (float, int) for value in sample) for sample in samples):
        return None
    lengths = {len(sample) for sample in samples}
    return lengths.pop() if len(lengths) == 1 else None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _npz_batches(path: Path, score_type: str) -> Iterator[StreamBatch]:
    file = open_arrays(path)
    scores = file.find([score_type], "the scores", "Rename it.")
    yield from _array_batches(scores, file.get("time"), file.get(*LABEL_NAMES), file.get("id"))


def _array_batches(scores: Any, times: Any = None, labels: Any = None, ids: Any = None) -> Iterator[StreamBatch]:
    for name, entries in (("time", times), ("labels", labels), ("id", ids)):
        if entries is not None and len(entries) != len(scores):
            raise DataError(
                f"{name} must hold one entry per sample; there are {len(scores)} samples and {len(entries)} entries."
            )
    for start in range(0, len(scores), _BATCH):
        part = slice(start, start + _BATCH)
        yield StreamBatch(
            np.asarray(scores[part]),
            # times may be text
            None if times is None else [seconds(moment) for moment in as_times(times[part]).tolist()],
            None if labels is None else labels[part],
            None if ids is None else ids[part],
        )


def _csv_batches(path: Path) -> Iterator[StreamBatch]:
    """Numbers separated by commas; a heading may name columns label, id and time."""
    with open(path, "rb") as file:
        parser = _CsvParser()
        for group in line_groups(file):
            yield from join_batches(filter(None, map(parser.parse, group)))


class _CsvParser:
    """Turns lines of a CSV file into samples; the first line may name the columns."""

    def __init__(self) -> None:
        self.names: list[str] | None = None

    def parse(self, line: bytes | None) -> StreamBatch | None:
        """One sample; None for the heading and for empty lines."""
        if line is None:
            return StreamBatch(rejected={"line too long": 1})
        try:
            cells = next(csv.reader([line.decode("utf-8-sig")]), [])
        except UnicodeDecodeError:
            return StreamBatch(rejected={"not UTF-8": 1})
        except csv.Error:
            return StreamBatch(rejected={"not CSV": 1})
        if self.names is None:
            has_heading = not all(_is_number(cell) for cell in cells)
            self.names = [cell.strip().lower() for cell in cells] if has_heading else [""] * len(cells)
            if has_heading:
                return None
        return _csv_sample(cells, self.names) if cells else None


def _csv_sample(cells: list[str], names: list[str]) -> StreamBatch:
    if len(cells) != len(names):
        return StreamBatch(rejected={"wrong number of columns": 1})
    by_name = dict(zip(names, cells, strict=True))
    scores = [cell for name, cell in zip(names, cells, strict=True) if name not in _SPECIAL_COLUMNS]
    if not all(_is_number(cell) for cell in scores):
        return StreamBatch(rejected={"not numbers": 1})
    moment = by_name.get("time")
    times = None if moment is None else [seconds(float(moment) if _is_number(moment) else moment)]
    labels = [by_name["label"] or None] if "label" in by_name else None
    ids = [by_name["id"] or None] if "id" in by_name else None
    layout = (len(scores), times is None, labels is None, ids is None)
    return StreamBatch([[float(cell) for cell in scores]], times, labels, ids, layout=layout)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
