"""Feature tables: a matrix, or a pandas data frame that keeps its columns, index and dtypes.

Shifts compute on a float64 matrix. A column of categories that are not numbers is coded there as 0, 1, … in the order
of its `categories`. A value that is none of them gets the next code. Missing values are NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from driftcal.core.inputs.frames import is_frame
from driftcal.core.labels import is_missing
from driftcal.core.validation import NUMBER_KINDS, column_indices
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64

#: column number -> its categories, each once, for the columns that do not hold numbers
Categories = Mapping[int, Array]

#: ``dtype.kind`` of columns that are not categorical: integers, unsigned integers, floats, complex, durations, dates.
_QUANTITY_KINDS = "iufcmM"


class FeatureTable(Protocol):
    """The view of a matrix or a data frame that shifts use."""

    n_samples: int
    n_features: int
    #: The names of the columns; None for a matrix.
    names: list[Any] | None

    def categorical_by_dtype(self) -> list[int]:
        """The columns that are categorical by their dtype."""

    def column_name(self, j: int) -> str:
        """The name of column j in error messages."""

    def values(self, j: int) -> Array:
        """The values of column j that are not missing."""

    def numbers(self, j: int) -> Float64:
        """Column j as numbers, NaN where it is missing."""

    def to_numbers(self, categories: Categories) -> Float64:
        """The whole table as numbers and codes; a new array."""

    def with_numbers(self, before: Float64, after: Float64, categories: Categories) -> Any:
        """A copy in which the entries that differ between `before` and `after` have the new values."""


def open_table(features: AnyArray) -> FeatureTable:
    """Features as a table."""
    return FrameTable(features) if is_frame(features) else MatrixTable(features)


def categorical_positions(table: FeatureTable, categorical: Sequence[int | str]) -> list[int]:
    """The numbers of all categorical columns: those that the user named, and those that are categorical by dtype."""
    return sorted({*column_indices(categorical, table.n_features, table.names), *table.categorical_by_dtype()})


def sorted_values(values: Array) -> Array:
    """Values in a fixed order, also where Python cannot compare them."""
    try:
        return np.sort(values)
    except TypeError:
        return values[sorted(range(len(values)), key=lambda i: (type(values[i]).__name__, repr(values[i])))]


def categories_of(values: Array) -> Array:
    """Each of the sorted `values` once, without missing values."""
    return _object_array(dict.fromkeys(value for value in values if not is_missing(value)))


def codes_of(values: Array, categories: Array) -> Float64:
    """The position of each value in `categories`, NaN for a missing one, and their number for all others.

    >>> codes_of(np.array(["b", None, "z"], object), np.array(["a", "b"], object)).tolist()
    [1.0, nan, 2.0]
    """
    codes = {category: float(code) for code, category in enumerate(categories)}
    other = float(len(categories))
    return np.array([np.nan if is_missing(value) else codes.get(value, other) for value in values], np.float64)


class MatrixTable:
    """A numpy matrix. Its dtype stays; whole numbers become float64."""

    names: list[Any] | None = None

    def __init__(self, features: AnyArray) -> None:
        self._array = np.asarray(features)
        if self._array.ndim != 2:
            raise InputError(
                f"features must be a matrix (n, features); got shape {self._array.shape}. One sample? Use features[None]."
            )
        self.n_samples, self.n_features = self._array.shape

    def categorical_by_dtype(self) -> list[int]:
        """Always []: a matrix has one dtype for all columns."""
        return []

    def column_name(self, j: int) -> str:
        """The number of the column."""
        return str(j)

    def values(self, j: int) -> Array:
        """The values of the column, without NaN and None."""
        column: Array = self._array[:, j]
        if column.dtype.kind == "f":
            column = column[~np.isnan(column)]
        elif column.dtype == object:
            column = column[[not is_missing(value) for value in column]]
        return column

    def numbers(self, j: int) -> Float64:
        """The column in float64."""
        column = self._array[:, j]
        try:
            return column.astype(np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"features must be numbers; column {j} holds {column[0]!r}. Is it a category? Name it: categorical=[{j}]."
            ) from None

    def to_numbers(self, categories: Categories) -> Float64:
        """The matrix in float64."""
        if not categories and self._array.dtype.kind in NUMBER_KINDS:
            return self._array.astype(np.float64)
        columns = [
            codes_of(self._array[:, j], categories[j]) if j in categories else self.numbers(j)
            for j in range(self.n_features)
        ]
        return np.stack(columns, axis=1)

    def with_numbers(self, before: Float64, after: Float64, categories: Categories) -> Array:
        """A matrix of the same dtype."""
        if self._array.dtype.kind in NUMBER_KINDS:
            return after.astype(self._array.dtype if self._array.dtype.kind == "f" else np.float64)
        out = self._array.copy()
        for j, (changed, values) in _changes(before, after, categories).items():
            out[changed, j] = values
        return out


class FrameTable:
    """A pandas data frame. Columns, index and dtypes stay: integers are rounded, missing values stay missing."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.n_samples, self.n_features = frame.shape
        self.names: list[Any] | None = list(frame.columns)
        self._dtypes = list(frame.dtypes)

    def categorical_by_dtype(self) -> list[int]:
        """Columns of dtype category, object, string or bool."""
        return [j for j, dtype in enumerate(self._dtypes) if dtype.kind not in _QUANTITY_KINDS]

    def column_name(self, j: int) -> str:
        """The name of the column, in quotes."""
        return repr(self._frame.columns[j])

    def values(self, j: int) -> Array:
        """The values of the column, without missing ones."""
        column = self._frame.iloc[:, j].dropna()
        is_numpy = isinstance(self._dtypes[j], np.dtype)
        return np.asarray(column.to_numpy() if is_numpy else column.to_numpy(dtype=object))

    def numbers(self, j: int) -> Float64:
        """The column in float64."""
        if self._dtypes[j].kind not in NUMBER_KINDS:
            name = self.column_name(j)
            raise InputError(
                f"features must be numbers or categories; column {name} is {self._dtypes[j]}. Convert it to numbers, or "
                f"name it: categorical=[{name}]."
            )
        return np.asarray(self._frame.iloc[:, j].astype("float64").to_numpy())

    def to_numbers(self, categories: Categories) -> Float64:
        """All columns in float64."""
        out = np.empty((self.n_samples, self.n_features))
        for j in range(self.n_features):
            if j in categories:
                out[:, j] = codes_of(self._frame.iloc[:, j].to_numpy(dtype=object), categories[j])
            else:
                out[:, j] = self.numbers(j)
        return out

    def with_numbers(self, before: Float64, after: Float64, categories: Categories) -> Any:
        """A frame with the same columns, index and dtypes."""
        out = self._frame.copy()
        for j, (changed, values) in _changes(before, after, categories).items():
            column = out.iloc[:, j]
            array = column.array.copy()
            try:
                array[changed] = _cast(values, self._dtypes[j])
            except (TypeError, ValueError, NotImplementedError) as error:
                raise InputError(
                    f"column {self.column_name(j)} of dtype {self._dtypes[j]} must take values of the frame that the "
                    f"shift was fitted on; it does not: {error}. Give it the dtype of that frame; make a sparse column dense."
                ) from error
            # without the dtype, pandas would turn objects into strings
            out.isetitem(j, type(column)(array, index=out.index, dtype=self._dtypes[j]))
        return out


def _changes(
    before: Float64, after: Float64, categories: Categories
) -> dict[int, tuple[NDArray[np.bool_], NDArray[Any]]]:
    """For each column with a changed entry: which entries, and their new values."""
    changed = ~np.isnan(after) & (before != after)
    changes = {}
    for j in np.flatnonzero(changed.any(axis=0)).tolist():
        values = after[changed[:, j], j]
        changes[j] = changed[:, j], (categories[j][values.astype(np.int64)] if j in categories else values)
    return changes


def _cast(values: Array, dtype: Any) -> Array:
    """Numbers rounded to the dtype of a column; other values unchanged."""
    numpy_dtype = getattr(dtype, "numpy_dtype", dtype)  # of a nullable pandas dtype
    if values.dtype.kind != "f" or numpy_dtype.kind not in NUMBER_KINDS:
        return values
    if numpy_dtype.kind in "iu":
        limits = np.iinfo(numpy_dtype)
        # one above the largest whole number is exact in float64, the largest itself may not be
        values = np.clip(np.rint(values), float(limits.min), np.nextafter(float(limits.max) + 1, 0))
    return values.astype(numpy_dtype)


def _object_array(values: Any) -> Array:
    items = list(values)
    out = np.empty(len(items), object)
    out[:] = items
    return out
