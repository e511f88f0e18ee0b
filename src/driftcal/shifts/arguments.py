"""Checks of the arguments of a shift: its level, and the indices of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.core.scalars import is_number
from driftcal.errors import InputError
from driftcal.types import AnyArray, Indices


def as_indices(indices: AnyArray | None, n: int) -> Indices:
    """The position of each sample in its data set; by default 0 to n - 1."""
    if indices is None:
        return np.arange(n)
    array = np.asarray(indices)
    if array.shape != (n,) or (n and array.dtype.kind not in "iu"):
        raise InputError(
            f"indices must hold one whole number for each of the {n} inputs; got shape {array.shape} of {array.dtype}. "
            "They are the samples' positions in the data set, or leave them out."
        )
    if n and array.min() < 0:
        raise InputError(
            f"indices must not be negative; position {int(array.argmin())} holds {array.min()}. Count samples from 0."
        )
    return array.astype(np.int64)


def as_step(level: Any, levels: Sequence[int], name: str) -> int:
    """A level of a shift with a table: a position in that table."""
    if not is_number(level) or int(level) != level or not levels[0] <= level <= levels[-1]:
        raise InputError(
            f"level of {name!r} must be a whole number from {levels[0]} (untouched) to {levels[-1]}; got {level!r}. "
            "A level is a position in the shift's table, not its parameter."
        )
    return int(level)


def as_strength(level: Any, name: str) -> float:
    """A level of a continuous shift: a finite number, 0 or more."""
    if not is_number(level) or level < 0:
        raise InputError(
            f"level of {name!r} must be a finite number, 0 (untouched) or more; got {level!r}. It is a variance: "
            "square a standard deviation."
        )
    return float(level)
