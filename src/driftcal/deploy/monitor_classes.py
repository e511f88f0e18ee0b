"""Labels as people write them, and the columns they mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from driftcal.types import Labels


class Columns:
    """Which column a label means, by the names of the classes.

    A name comes first, also one that is a number: 1, 1.0 and "1.0" mean the class "1". A whole number that is no name counts
    columns from 0, but only where no class is called by a number: among the classes "1", "2" and "3" a 0 is a mistake.

    >>> Columns(["cat", "dog"]).of(["dog", "cow", 0]).tolist()
    [1, -1, 0]
    >>> Columns(["1", "2", "3"]).of([1, "2.0", 0]).tolist()
    [0, 1, -1]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.by_name = {name: column for column, name in reversed(list(enumerate(names)))}
        numbers = [_number(name) for name in names]
        if all(number is None for number in numbers):
            numbers = [float(column) for column in range(len(names))]
        self.by_number = {number: column for column, number in reversed(list(enumerate(numbers))) if number is not None}

    def of(self, labels: Iterable[Any]) -> Labels:
        """Labels as column numbers, -1 where no class is meant."""
        return np.array([self._of(label) for label in labels], np.int64).reshape(-1)

    def _of(self, label: Any) -> int:
        column = self.by_name.get(str(label))
        if column is not None:
            return column
        number = _number(label)
        return -1 if number is None else self.by_number.get(number, -1)


def is_missing(label: Any) -> bool:
    """Whether a label has not come: None, or what tables hold in its place (NaN, pandas' NA).

    >>> [is_missing(label) for label in (None, float("nan"), 0, "", [1])]
    [True, True, False, False, False]
    """
    if label is None or type(label).__name__ in ("NAType", "NaTType"):  # pandas need not be there
        return True
    return isinstance(label, float | np.floating) and math.isnan(label)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
