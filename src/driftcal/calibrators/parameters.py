"""Checks of constructor parameters that several calibrators share."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.core.scalars import is_number, is_whole
from driftcal.errors import InputError

#: Larger whole numbers are no size of anything: 2³¹ − 1.
_LARGEST_WHOLE = (1 << 31) - 1


def check_positive(name: str, value: Any, default: float | str) -> None:
    """Refuse a value that is not a positive number."""
    if not is_positive(value):
        raise InputError(f"{name} must be a positive number; it is {shown(value)}. The default is {default}.")


def check_whole(name: str, value: Any, least: int, default: int) -> None:
    """Refuse a value that is not a whole number of at least `least`, or that is no possible size."""
    if not is_whole(value) or not least <= value <= _LARGEST_WHOLE:
        raise InputError(
            f"{name} must be a whole number of at least {least}; it is {shown(value)}. The default is {default}."
        )


def check_true_or_false(name: str, value: Any) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; it is {shown(value)}. The default is True.")


def is_positive(value: Any) -> bool:
    """Whether a value is a positive number that a float can hold."""
    return is_number(value) and bool(value > 0)


def shown(value: Any) -> str:
    """A value in a message: a number of many digits is described."""
    if isinstance(value, int) and abs(value) > _LARGEST_WHOLE:  # Python does not write numbers of any length
        return "far too large" if value > 0 else "far below 0"
    return repr(value)
