"""How a monitor looks at traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from driftcal.drift.estimators import check_estimator
from driftcal.errors import InputError, UnknownName
from driftcal.monitor.unchecked_samples import INPUTS


@dataclass(frozen=True)
class Settings:
    """How a monitor looks at traffic; two monitors merge when theirs are equal."""

    inputs: str = "logits"
    every: float = 500
    estimator: str | None = None
    false_alarm: float = 0.001
    alpha: float = 0.01
    tolerance: float = 0.02
    low: float = 0.5
    keep: int = 1000
    remember: int = 100_000

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Settings by name; a name that is none is said."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise UnknownName.of("setting of a monitor", name, known)
        return cls(**given)

    def __post_init__(self) -> None:
        if self.inputs not in INPUTS:
            raise UnknownName.of("kind of inputs", self.inputs, INPUTS)
        if self.estimator is not None:
            object.__setattr__(self, "estimator", check_estimator(self.estimator))
        for name, (kind, holds, wish) in _WISHES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, kind) or not holds(value):
                raise InputError(f"{name} must be {wish}; it is {value!r}. See help(driftcal.Monitor).")
            if isinstance(value, np.generic):  # a state file holds plain numbers
                object.__setattr__(self, name, value.item())


#: setting -> the kind of number it is, when one will do, and how to say so
_WISHES: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "every": (
        Real,
        lambda value: 0 < value < math.inf,
        "a positive number: so many rows, or seconds where rows have times (an hour is 3600)",
    ),
    "false_alarm": (Real, lambda value: 0 < value < 0.5, "a share above 0 and below 0.5"),
    "alpha": (Real, lambda value: 0 < value < 1, "a probability above 0 and below 1"),
    "tolerance": (Real, lambda value: 0 <= value < 0.5, "a difference of shares, from 0 to below 0.5"),
    "low": (Real, lambda value: 0 <= value <= 1, "a confidence from 0 to 1"),
    "keep": (Integral, lambda value: value >= 1, "a whole number of windows, at least 1"),
    "remember": (Integral, lambda value: value >= 0, "a whole number of rows, 0 or more"),
}
