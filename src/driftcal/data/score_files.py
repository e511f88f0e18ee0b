"""Recorded scores in a file: .npz, .csv or .parquet, with a label for each sample."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.labels import check_numbered, text_labels
from driftcal.core.scalars import spells_number
from driftcal.errors import DataError, UnknownName, need
from driftcal.io.npz import LABEL_NAMES, LOGIT_NAMES, open_arrays
from driftcal.io.parquet import read_parquet
from driftcal.io.paths import AnyPath, as_path
from driftcal.types import Array, Float64

#: The names of arrays in a .npz file that hold probabilities.
PROBABILITY_NAMES = ("probabilities", "probs")
#: Columns of tables that hold no scores, whatever their case, unless they are named with --columns.
NO_SCORES = ("id", "index", "time", "timestamp", "date", "group")
#: Arrays and columns of the perturbation level of each sample; they hold no scores either.
LEVEL_NAMES = ("levels", "level")
#: The index of a frame without a name, as pandas writes it to Parquet, and to CSV once it was read from CSV.
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0")
_WAY_OUT = "Name the columns of the scores with --columns and that of the labels with --labels."


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """Scores (n, classes) or (n,), a label for each, the class of each column if columns are named by it, groups and levels.

    `score_type` is what the file itself says by the name of its array: None for a table, and for an array "scores".
    """

    scores: Array
    labels: Array
    class_names: tuple[str, ...] = ()
    score_type: str | None = None
    groups: Array | None = None
    levels: Array | None = None


def read_scores(
    path: AnyPath, *, labels: str | None = None, columns: Sequence[str] = (), levels: str | None = None
) -> ScoreFile:
    """Read labelled scores.

    Parameters
    ----------
    path
        A ``.npz`` file with ``logits``, ``probabilities`` or ``scores``, and ``y``. A ``.csv`` file with a header, or a
        ``.parquet`` file: a column per class and a column of labels. A column of binary scores is that of class 1.
    labels
        The column or array of the labels. None: one called "y", "label", "labels", "target" or "targets", else the last column.
    columns
        The columns of the scores, in the order of the classes. (): all but those of the labels and levels, and those of `NO_SCORES`.
    levels
        The column or array of the perturbation levels. None: one called "levels" or "level", if there is one.
    """
    file = as_path(path)
    ending = file.suffix.lower()
    if not file.is_file():
        raise DataError(f"there is no file {str(file)!r}.")
    if ending == ".csv":
        return _of_table(file, *_read_csv(file), labels, columns, levels)
    if ending in (".parquet", ".pq"):
        return _of_table(file, *_read_parquet(file), labels, columns, levels)
    if ending != ".npz":
        raise DataError(f"scores must be a .npz, .csv or .parquet file; {str(file)!r} is none. Convert it first.")
    arrays = open_arrays(file)
    score_type = "probabilities" if any(name in arrays.names for name in PROBABILITY_NAMES) else None
    if "logits" in arrays.names:
        score_type = "logits"
    names = tuple(columns) or (*LOGIT_NAMES, *PROBABILITY_NAMES)
    scores = arrays.find(names, "scores", "Name the array that holds them: logits, probabilities or scores.")
    label_array = arrays.find((labels,) if labels else LABEL_NAMES, "labels")
    level_array = arrays.find((levels,), "levels") if levels else arrays.get(*LEVEL_NAMES)
    return ScoreFile(scores, label_array, (), score_type, arrays.get("groups"), level_array)


def _of_table(
    file: Path,
    names: list[str],
    values: dict[str, Array],
    labels: str | None,
    columns: Sequence[str],
    levels: str | None,
) -> ScoreFile:
    """The scores and labels of a table with these columns."""
    for name in (*columns, *(name for name in (labels, levels) if name)):
        if name not in names:
            raise UnknownName.of(f"column of {file.name}", name, names)
    taken = (*columns, labels)
    level_name = levels or next((name for name in names if name.casefold() in LEVEL_NAMES and name not in taken), None)
    others = [name for name in names if name != level_name]
    without_index = [name for name in others if not _INDEX.fullmatch(name)] or names
    named = label_column(names)
    label_name = labels or named or without_index[-1]
    score_names = list(columns) or [name for name in others if name != label_name and not holds_no_scores(name, names)]
    if not score_names or label_name in score_names:
        way_out = "Separate the columns with commas." if len(names) == 1 else _WAY_OUT
        raise DataError(
            f"{str(file)!r} must hold a column per class and a column of labels; its columns are {', '.join(names[:5])}. {way_out}"
        )
    scores = np.stack([_numbers(file, name, values[name]) for name in score_names], axis=1)
    label_values = values[label_name]
    texts = [str(label) for label in label_values.tolist()]
    missing = next((i for i, text in enumerate(texts) if text in ("", "None", "nan")), None)
    if missing is not None:
        raise DataError(
            f"{str(file)!r} must hold a label per sample; sample {missing} of column {label_name!r} has none."
        )
    if labels is None and named is None and any(map(_is_fraction, texts)):
        raise DataError(
            f"{str(file)!r} must hold a column of labels, such as y or label; the last one, {label_name!r}, holds fractions. Name the "
            "column with --labels, or add it."
        )
    level_column = None if level_name is None else _numbers(file, level_name, values[level_name])
    if len(score_names) == 1:
        return ScoreFile(scores[:, 0], text_labels(texts), levels=level_column)
    if set(texts) <= set(score_names):
        return ScoreFile(scores, text_labels(texts), tuple(score_names), levels=level_column)
    if not columns:
        check_numbered(score_names, repr(str(file)), DataError)
    return ScoreFile(scores, text_labels(texts), levels=level_column)


def label_column(names: Sequence[str]) -> str | None:
    """The column of the labels by its name: one of `LABEL_NAMES`, if need be in another case; None if there is none.

    >>> label_column(["N", "Y", "label"]), label_column(["0", "1", "Label"]), label_column(["0", "1"])
    ('label', 'Label', None)
    """
    exact = next((name for name in LABEL_NAMES if name in names), None)
    return exact or next((name for name in names if name.casefold() in LABEL_NAMES), None)


def holds_no_scores(name: str, names: Sequence[str]) -> bool:
    """Whether a column holds no scores by its name; a frame that pandas wrote to CSV has its index in front, without a name."""
    return name.casefold() in NO_SCORES or _INDEX.fullmatch(name) is not None or (name == "" and names[0] == "")


def _numbers(file: Path, name: str, column: Array) -> Float64:
    try:
        numbers: Float64 = np.asarray(column, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{str(file)!r} must hold a number per sample in column {name!r}: {error}. {_WAY_OUT}"
        ) from error
    return numbers


def _read_csv(file: Path) -> tuple[list[str], dict[str, Array]]:
    """The columns of a .csv file with a header, as text."""
    rows: list[list[str]] = []
    with file.open(newline="", encoding="utf-8-sig") as stream:
        lines = _rows(file, stream)
        header = next(lines, None)
        if not header or len(set(header)) < len(header):
            raise DataError(f"{str(file)!r} must begin with a header of different column names; it is {header!r}.")
        if all(spells_number(name) for name in header) and header != [str(k) for k in range(len(header))]:
            raise DataError(
                f"{str(file)!r} must begin with a header; its first line holds numbers. Write a line with the names of the columns."
            )
        for number, row in enumerate(lines, 2):
            if len(row) != len(header):
                raise DataError(f"{str(file)!r} must have {len(header)} fields per line; line {number} has {len(row)}.")
            rows.append(row)
    if not rows:
        raise DataError(f"{str(file)!r} must hold at least one sample; it has a header only.")
    return header, {
        name: np.array(column, object) for name, column in zip(header, zip(*rows, strict=True), strict=True)
    }


def _rows(file: Path, stream: Any) -> Iterator[list[str]]:
    try:
        yield from (row for row in csv.reader(stream) if row)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{str(file)!r} must be a .csv file in UTF-8; {error}.") from error


def _is_fraction(text: str) -> bool:
    return spells_number(text) and not float(text).is_integer()


def _read_parquet(file: Path) -> tuple[list[str], dict[str, Array]]:
    """The columns of a .parquet file."""
    table = read_parquet(file)
    try:
        return list(table.column_names), {name: _values(table.column(name)) for name in table.column_names}
    except Exception as error:  # pyarrow has many classes of errors, for instance for unknown time zones
        raise DataError(
            f"{str(file)!r} must hold numbers and labels; {type(error).__name__}: {error}. {_WAY_OUT}"
        ) from error


def _values(column: Any) -> Array:
    """The values of a column of a table; numbers without making an object of each."""
    types = need("pyarrow.types", "parquet")
    if types.is_integer(column.type) or types.is_floating(column.type):
        numbers: Array = column.to_numpy()
        return numbers
    if types.is_dictionary(column.type):
        codes = column.unify_dictionaries().combine_chunks()
        words = np.array([*codes.dictionary.to_pylist(), None], object)
        texts: Array = words[codes.indices.fill_null(len(words) - 1).to_numpy()]  # a word that repeats is one object
        return texts
    return np.array([*column.to_pylist(), None], object)[:-1]  # never a matrix
