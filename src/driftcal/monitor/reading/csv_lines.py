"""Lines of a CSV file as batches of samples. A line that cannot be read is counted by its reason."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import BinaryIO

from driftcal.core.scalars import spells_number
from driftcal.monitor.clock import seconds
from driftcal.monitor.reading.line_reader import MAX_LINE, line_groups
from driftcal.monitor.reading.stream_batch import BatchBuilder, StreamBatch

#: Columns that are not scores.
_SPECIAL_COLUMNS = ("label", "id", "time")


def csv_batches(stream: BinaryIO, *, n_classes: int | None = None, max_line: int = MAX_LINE) -> Iterator[StreamBatch]:
    """Numbers separated by commas; a heading may name columns label, id and time."""
    reader = _CsvLineReader(n_classes)
    for group in line_groups(stream, max_line):
        for line in group:
            reader.read(line)
        yield from reader.builder.take()


class _CsvLineReader:
    """Reads lines of CSV into a builder of batches; the first line may name the columns."""

    def __init__(self, n_classes: int | None) -> None:
        self.names: list[str] | None = None
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
        if self.names is None:
            has_heading = not all(map(spells_number, cells))
            self.names = [cell.strip().lower() for cell in cells] if has_heading else [""] * len(cells)
            if has_heading:
                return None
        return self._read_cells(cells, self.names) if cells else None

    def _read_cells(self, cells: list[str], names: list[str]) -> None:
        if len(cells) != len(names):
            return self.builder.reject("wrong number of columns")
        by_name = dict(zip(names, cells, strict=True))
        scores = [cell for name, cell in zip(names, cells, strict=True) if name not in _SPECIAL_COLUMNS]
        if not all(map(spells_number, scores)):
            return self.builder.reject("not numbers")
        moment = by_name.get("time")
        times = None if moment is None else [seconds(float(moment) if spells_number(moment) else moment)]
        labels = [by_name["label"] or None] if "label" in by_name else None
        ids = [by_name["id"] or None] if "id" in by_name else None
        return self.builder.add_samples([[float(cell) for cell in scores]], times, labels, ids)
