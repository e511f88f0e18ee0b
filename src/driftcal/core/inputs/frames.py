"""Pandas data frames as inputs, without importing pandas: samples by position, a matrix of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.core.validation import NUMBER_KINDS
from driftcal.errors import InputError
from driftcal.types import Array, Indices


def is_frame(inputs: Any) -> bool:
    """Whether these are a pandas data frame."""
    return hasattr(inputs, "iloc") and hasattr(inputs, "columns")


def take(inputs: Any, indices: Indices | slice) -> Any:
    """Samples by their positions: rows of a frame with its dtypes and categories, or of an array."""
    return inputs.iloc[indices] if hasattr(inputs, "iloc") else inputs[indices]


def describe_columns(frame: Any) -> str:
    """The first columns of a frame with their dtypes, for messages."""
    columns = [f"{name} ({dtype})" for name, dtype in zip(frame.columns, frame.dtypes, strict=True)]
    return ", ".join(columns[:6]) + (" …" if len(columns) > 6 else "")


def holds_numbers(frame: Any) -> bool:
    """Whether all columns are numbers or truth values."""
    return all(dtype.kind in NUMBER_KINDS and str(dtype) != "category" for dtype in frame.dtypes)


def check_no_mixed_values(values: Array, argument: str) -> None:
    """Refuse a matrix of Python objects or text: the columns of a table with text are a data frame."""
    if values.ndim == 2 and values.dtype.kind in "OSTU":
        raise InputError(
            f"{argument} must be numbers, or a table as a pandas data frame; it is a matrix of {values.dtype} of shape {values.shape}. "
            "Pass a table with text as a pandas data frame, which keeps a dtype per column."
        )


def as_matrix(frame: Any, needed_by: str) -> Array:
    """A frame of numbers as float64, with NaN for missing values."""
    if not holds_numbers(frame):
        text = [name for name, dtype in zip(frame.columns, frame.dtypes, strict=True) if dtype.kind not in NUMBER_KINDS]
        raise InputError(
            f"the columns of the table must be numbers for {needed_by}; {', '.join(map(repr, text[:3]))} "
            f"{'is' if len(text) == 1 else 'are'} not. Put the encoding into the model (a scikit-learn Pipeline), or convert them."
        )
    return np.ascontiguousarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
