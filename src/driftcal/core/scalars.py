"""What counts as a number in an argument or a file. Truth values do not, numpy's numbers do."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is a whole number by its type.

    >>> [is_whole(value) for value in (3, np.int64(3), 3.0, True, "3")]
    [True, True, False, False, False]
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a finite number that a float can hold.

    >>> [is_number(value) for value in (3, np.float32(0.5), float("nan"), 10**400, True, "3")]
    [True, True, False, False, False, False]
    """
    if not (is_whole(value) or isinstance(value, float | np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def spells_number(text: str) -> bool:
    """Whether a text is a number, as Python writes it.

    >>> [spells_number(text) for text in ("1e-3", "nan", "one")]
    [True, True, False]
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
