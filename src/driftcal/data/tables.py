"""Tables: data frames, CSV and Parquet files. Columns keep their names, dtypes and categories."""

from __future__ import annotations

import contextlib
import csv as _csv
import hashlib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.inputs.frames import take
from driftcal.core.labels import columns_and_names
from driftcal.core.validation import NUMBER_KINDS, as_array
from driftcal.data.source import Source
from driftcal.errors import DataError, DriftcalError, InputError, LabelsError, UnknownName, need
from driftcal.io.fingerprint import fingerprint, sha256_array
from driftcal.io.parquet import read_parquet
from driftcal.io.paths import AnyPath, as_path, check_regular
from driftcal.types import AnyArray

#: Names of a column of labels that are found without `label`.
LABEL_COLUMNS = ("label", "labels", "target", "y", "class")


def from_frame(
    frame: Any,
    y: AnyArray = None,
    *,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    categorical: Sequence[int | str] = (),
    groups: AnyArray | None = None,
    name: str = "table",
) -> Source:
    """A source from a pandas data frame.

    Columns of dtype category, string or bool are categorical. Missing values stay missing.

    Parameters
    ----------
    frame
        The features, and the labels unless `y` holds them.
    y
        One label per row.
    label
        The column of `frame` that holds the labels, instead of `y`.
    class_names
        All classes in the order of the model's outputs.
    categorical
        Further columns that hold categories, such as codes: by name or number.
    groups
        One group (camera, site, …) per sample.
    name
        The name of the data in results.
    """
    if y is None:
        frame, y = _without_label(frame, label, name)
    elif label is not None:
        raise InputError(f"labels must be given once; there are both y and label={label!r}. Leave one out.")
    check_table(frame, name)
    labels, names = columns_and_names(y, class_names)
    if len(labels) != len(frame):
        raise LabelsError(
            f"y must hold one label per sample; there are {len(frame)} samples and {len(labels)} labels. "
            "Were both cut from the same data?"
        )
    source = Source(
        name,
        lambda indices: take(frame, indices),
        labels,
        names,
        content=lambda: frame_digest(frame),
        all_groups=None if groups is None else as_array(groups, "groups"),
    )
    return source.with_categorical(categorical)


def csv(
    path: AnyPath,
    *,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    separator: str = ",",
    drop: Sequence[str] = (),
) -> Source:
    """A CSV file with a header. Columns of text become categories, empty fields missing values.

    Parameters
    ----------
    path
        The file.
    label
        The column of labels; without it, one named label, target, y or class.
    class_names
        All classes in the order of the model's outputs. Labels that are text need them.
    separator
        What separates fields.
    drop
        Columns that are no features, such as an identifier.
    """
    pandas, file = need("pandas", "pandas"), as_path(path)
    if not isinstance(separator, str) or not separator:
        raise InputError(
            f"separator must be the character that separates fields; it is {separator!r}. Pass ';', for example."
        )
    check_regular(file, "data", DataError)
    try:
        _check_header(file, separator)
        with file.open("rb") as stream, warnings.catch_warnings():
            # lines with more fields than the header: without index_col the first column would be an index, and the others move
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            # with low_memory, columns have a dtype per block of lines: 1 and "1" would be two categories
            frame = pandas.read_csv(stream, sep=separator, index_col=False, low_memory=False)
        if frame.shape[1] and frame.iloc[:, -1].isna().any():  # as at the end of a line with fewer fields
            _check_widths(file, separator, frame.shape[1])
    except DriftcalError:
        raise
    except (OSError, ValueError, pandas.errors.ParserWarning) as error:  # a parser error of pandas is a ValueError
        raise DataError(f"{str(file)!r} must be a CSV file with a header; reading failed: {error}.") from error
    return _of_file(frame, file.name, label, class_names, drop)


def _lines(stream: Any, separator: str) -> Iterator[list[str]]:
    """The fields of each line that is not empty. None where only pandas can tell: expressions as separators, long fields."""
    if len(separator) == 1:
        with contextlib.suppress(_csv.Error):
            yield from filter(None, _csv.reader(stream, delimiter=separator))


def _check_header(file: Path, separator: str) -> None:
    """Refuse a name that is there twice: pandas would rename one, and a second column of labels would be a feature."""
    with file.open(newline="", encoding="utf-8-sig") as stream:
        names = next(_lines(stream, separator), [])
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise DataError(
            f"the columns of {str(file)!r} must have different names; {repeated!r} is there twice. Rename one."
        )


def _check_widths(file: Path, separator: str, n_columns: int) -> None:
    """Refuse lines with fewer fields than the header: behind a field that was left out, the others would move."""
    with file.open(newline="", encoding="utf-8-sig") as stream:
        for number, row in enumerate(_lines(stream, separator)):
            if len(row) < n_columns:
                raise DataError(
                    f"{str(file)!r} must have {n_columns} fields in each line; that of sample {number - 1} has {len(row)}. Leave an empty "
                    "field where a value is missing."
                )


def parquet(
    path: AnyPath, *, label: str | None = None, class_names: Sequence[str] | None = None, drop: Sequence[str] = ()
) -> Source:
    """A Parquet file. Columns of text become categories; all others keep their type. The options are those of :func:`csv`."""
    need("pandas", "parquet")
    file = as_path(path)
    table = read_parquet(file)
    try:
        frame = table.to_pandas()
    except Exception as error:  # the file's notes for pandas (index, time zones, dtypes) may say anything
        raise DataError(
            f"{str(file)!r} must be a Parquet file that pandas can read; reading failed: {type(error).__name__}: {error}. "
            "Write it again."
        ) from error
    return _of_file(frame, file.name, label, class_names, drop)


def _of_file(
    frame: Any, name: str, label: str | None, class_names: Sequence[str] | None, drop: Sequence[str]
) -> Source:
    frame, y = _without_label(frame, label, name)
    for column in drop:
        if column not in frame.columns:
            raise UnknownName.of("column", column, map(str, frame.columns))
    frame = with_categories(frame.drop(columns=list(drop)))
    return from_frame(frame, y, class_names=class_names, name=name)


def with_categories(frame: Any) -> Any:
    """The frame with columns of text as categories, so that each part of it has the categories of the whole."""
    text = [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if _is_text(dtype)]
    return frame.astype(dict.fromkeys(text, "category")) if text else frame


def _is_text(dtype: Any) -> bool:
    return str(dtype) in ("object", "str", "string")


def _without_label(frame: Any, label: str | None, name: str) -> tuple[Any, Any]:
    """The features and the labels of a frame."""
    columns = [str(column) for column in frame.columns]
    if label is None:
        named = [column for column in columns if column.lower() in LABEL_COLUMNS]
        if len(named) != 1:
            raise LabelsError(
                f"the column of labels of {name} must be named: {'several could be it' if named else 'none is obvious'} among "
                f'{", ".join(named or columns[:8])}. Pass label="...", in text {name}?label=..., or y after the features.'
            )
        label = named[0]
    if label not in columns:
        raise UnknownName.of("column", label, columns)
    y = frame.iloc[:, columns.index(label)]
    if y.isna().any():
        raise LabelsError(
            f"column {label!r} of {name} must hold a label in each row; row {int(y.isna().to_numpy().argmax())} has none. "
            "Drop such rows."
        )
    return frame.drop(columns=[frame.columns[columns.index(label)]]), y


def frame_digest(frame: Any) -> str:
    """SHA-256 over names, dtypes, categories and values of all columns; the index does not count."""
    parts = [_column_digest(frame.iloc[:, j]) for j in range(frame.shape[1])]
    return fingerprint({"table": [[str(name), part] for name, part in zip(frame.columns, parts, strict=True)]})


def _column_digest(column: Any) -> str:
    kind = str(column.dtype)
    if kind == "category":
        categories = [[type(value).__name__, str(value)] for value in column.cat.categories]
        return fingerprint({"categories": categories, "codes": column.cat.codes.to_numpy()})
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in NUMBER_KINDS:
        return fingerprint({"dtype": kind, "values": sha256_array(column.to_numpy())})
    digest = hashlib.sha256(kind.encode())
    for value, missing in zip(column.to_numpy(dtype=object), column.isna().to_numpy(), strict=True):
        item = b"\0" if missing else f"{type(value).__name__}:{value}".encode(errors="surrogatepass")
        digest.update(len(item).to_bytes(8, "little") + item)
    return digest.hexdigest()


def check_table(frame: Any, name: str) -> None:
    """Refuse a frame without samples, with repeated column names, or with infinite numbers."""
    if not frame.shape[1] or not len(frame):
        raise InputError(
            f"{name} must have at least one sample and one column; its shape is {tuple(frame.shape)}. Check the filter."
        )
    if not frame.columns.is_unique:
        repeated = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"the columns of {name} must have different names; {repeated!r} is there twice. Rename one.")
    for j, dtype in enumerate(frame.dtypes):
        if dtype.kind == "f":
            values = as_array(frame.iloc[:, j].astype("float64"), name)
            infinite = np.flatnonzero(np.isinf(values))
            if len(infinite):
                raise InputError(
                    f"the columns of {name} must be finite or missing; column {frame.columns[j]!r} is infinite in sample "
                    f"{infinite[0]}. Replace it, for example with NaN."
                )
