"""Checks of constructor parameters that several calibrators share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftcal.errors import InputError


def check_positive(name: str, value: Any, default: float | str) -> None:
    """Refuse a value that is not a positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number; it is {value!r}. The default is {default}.")


def check_whole(name: str, value: Any, least: int, default: int) -> None:
    """Refuse a value that is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(
            f"{name} must be a whole number of at least {least}; it is {value!r}. The default is {default}."
        )
