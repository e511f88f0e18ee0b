"""Reading the samples of a stream: lines of JSON from a pipe, or .npz, .npy and .csv files.

The content is not trusted and cannot stop the reader. Lines that cannot be read are counted by their reason. Memory is
bounded.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftcal.errors import DataError
from driftcal.io.npz import LABEL_NAMES, open_arrays
from driftcal.monitor.clock import as_times, seconds
from driftcal.monitor.reading.csv_lines import csv_batches
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.reading.line_reader import MAX_LINE
from driftcal.monitor.reading.stream_batch import BATCH_SAMPLES, StreamBatch


def read_batches(
    paths: Sequence[str],
    score_type: str,
    *,
    n_classes: int | None = None,
    timed: bool = False,
    max_line: int = MAX_LINE,
) -> Iterator[StreamBatch]:
    """The samples of files one after the other; "-" is standard input, with lines of JSON.

    With `timed` windows each sample needs a time. Without one, a sample of standard input gets the time at which it is
    read, and a sample of a file is rejected. Missing files are reported before the first file is read.

    Parameters
    ----------
    paths : the files.
    score_type : name of the scores, "logits" or "probabilities".
    n_classes : number of scores of a sample; None for any number.
    timed : whether windows are times.
    max_line : bytes of the longest line of a text file or of standard input.
    """
    for path in paths:
        if path != "-" and (not Path(path).exists() or Path(path).is_dir()):
            fact = "it is a folder" if Path(path).is_dir() else "there is no such file"
            raise DataError(
                f"{path} must be a file of samples; {fact}. Nothing was read: check the path, or pass - for lines of JSON "
                "on stdin."
            )
    stdin = _open_stdin() if "-" in paths else None
    return _read_batches(paths, stdin, score_type, timed, {"n_classes": n_classes, "max_line": max_line})


def _open_stdin() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise DataError(
            "standard input must be open to read lines of JSON from it; it is closed. Nothing was read: pass the path "
            "of a file, or redirect standard input."
        )
    return sys.stdin.buffer


def _read_batches(
    paths: Sequence[str], stdin: BinaryIO | None, score_type: str, timed: bool, options: dict[str, Any]
) -> Iterator[StreamBatch]:
    for path in paths:
        if path == "-" and stdin is not None:
            yield from json_batches(stdin, score_type, arrival_time=time.time if timed else None, **options)
        else:
            for batch in file_batches(path, score_type, **options):
                yield _without_samples(batch, "no time") if timed and batch.times is None else batch


def _without_samples(batch: StreamBatch, reason: str) -> StreamBatch:
    """A batch whose samples are rejected; its late labels stay."""
    n_samples = 0 if batch.scores is None else len(batch.scores)
    late_labels = [label._replace(n_before=0) for label in batch.late_labels]
    return StreamBatch(late_labels=late_labels, rejected=Counter(batch.rejected) + Counter({reason: n_samples}))


def file_batches(
    path: str | os.PathLike[str], score_type: str, *, n_classes: int | None = None, max_line: int = MAX_LINE
) -> Iterator[StreamBatch]:
    """The samples of a file, a few thousand at a time: .npz, .npy, .csv, or lines of JSON under any other name."""
    file = Path(path)
    kind = file.suffix.lower()
    if kind == ".npz":
        yield from _npz_batches(file, score_type)
    elif kind == ".npy":
        yield from _array_batches(open_arrays(file).single())
    else:
        with open(file, "rb") as stream:
            if kind == ".csv":
                yield from csv_batches(stream, n_classes=n_classes, max_line=max_line)
            else:
                yield from json_batches(stream, score_type, n_classes=n_classes, max_line=max_line)


def _npz_batches(path: Path, score_type: str) -> Iterator[StreamBatch]:
    file = open_arrays(path)
    scores = file.find([score_type], "the scores", "Rename it, or name the type of the scores with --score-type.")
    yield from _array_batches(scores, file.get("time"), file.get(*LABEL_NAMES), file.get("id"))


def _array_batches(scores: Any, times: Any = None, labels: Any = None, ids: Any = None) -> Iterator[StreamBatch]:
    for name, entries in (("time", times), ("labels", labels), ("id", ids)):
        if entries is not None and len(entries) != len(scores):
            raise DataError(
                f"{name} must hold one entry per sample; there are {len(scores)} samples and {len(entries)} entries."
            )
    for start in range(0, len(scores), BATCH_SAMPLES):
        part = slice(start, start + BATCH_SAMPLES)
        yield StreamBatch(
            np.asarray(scores[part]),
            # times may be text
            None if times is None else [seconds(moment) for moment in as_times(times[part]).tolist()],
            None if labels is None else labels[part],
            None if ids is None else ids[part],
        )
