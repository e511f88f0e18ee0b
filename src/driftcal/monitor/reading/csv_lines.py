"""Lines of a CSV file as batches of samples. A line that cannot be read is counted by its reason."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from driftcal.core.scalars import spells_number
from driftcal.data.score_files import LEVEL_NAMES, holds_no_scores, label_column
from driftcal.monitor.clock import seconds
from driftcal.monitor.reading.line_reader import MAX_LINE, line_groups
from driftcal.monitor.reading.stream_batch import BatchBuilder, StreamBatch


def csv_batches(stream: BinaryIO, *, n_classes: int | None = None, max_line: int = MAX_LINE) -> Iterator[StreamBatch]:
    """Numbers separated by commas; a heading may name columns of labels, id and time, and others that hold no scores.

    The names are those of a file of scores (`driftcal.data.score_files`).
    """
    reader = _CsvLineReader(n_classes)
    for group in line_groups(stream, max_line):
        for line in group:
            reader.read(line)
        yield from reader.builder.take()


@dataclass(frozen=True)
class _Columns:
    """The number of columns, which of them hold the scores, and which the label, the id and the time of a sample."""

    n_columns: int
    scores: Sequence[int]
    label: int | None = None
    id: int | None = None
    time: int | None = None

    @classmethod
    def of_heading(cls, cells: list[str]) -> _Columns:
        """The columns that a heading names."""
        names = [cell.strip() for cell in cells]
        folded = [name.casefold() for name in names]
        label = label_column(names)
        scores = [
            column
            for column, name in enumerate(names)
            if name != label and folded[column] not in LEVEL_NAMES and not holds_no_scores(name, names)
        ]
        places = {name: folded.index(name) if name in folded else None for name in ("id", "time")}
        return cls(len(names), scores, None if label is None else names.index(label), places["id"], places["time"])


class _CsvLineReader:
    """Reads lines of CSV into a builder of batches; the first line may name the columns."""

    def __init__(self, n_classes: int | None) -> None:
        self.columns: _Columns | None = None
        self.builder = BatchBuilder(n_classes)

    def read(self, line: bytes | None) -> None:
        """Read one line; None stands for a line that was too long. Empty lines are skipped."""
        if line is None:
            return self.builder.reject("line too long")
        try:
            cells = next(csv.reader([line.decode("utf-8-sig")]), [])
        except UnicodeDecodeError:
            return self.builder.reject("not UTF-8")
        except csv.Error:
            return self.builder.reject("not CSV")
        if self.columns is None:
            has_heading = not all(map(spells_number, cells))
            self.columns = _Columns.of_heading(cells) if has_heading else _Columns(len(cells), range(len(cells)))
            if has_heading:
                return None
        return self._read_cells(cells, self.columns) if cells else None

    def _read_cells(self, cells: list[str], columns: _Columns) -> None:
        if len(cells) != columns.n_columns:
            return self.builder.reject("wrong number of columns")
        scores = [cells[column] for column in columns.scores]
        if not all(map(spells_number, scores)):
            return self.builder.reject("not numbers")
        moment = None if columns.time is None else cells[columns.time]
        times = None if moment is None else [seconds(float(moment) if spells_number(moment) else moment)]
        labels = None if columns.label is None else [cells[columns.label] or None]
        ids = None if columns.id is None else [cells[columns.id] or None]
        return self.builder.add_samples([[float(cell) for cell in scores]], times, labels, ids)
