"""The settings of a monitor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

from driftcal.drift.estimators import ESTIMATOR_NAMES, check_estimator
from driftcal.errors import InputError, UnknownName
from driftcal.monitor.usable_samples import SCORE_TYPES


@dataclass(frozen=True)
class MonitorSettings:
    """The settings of a monitor, see :class:`driftcal.Monitor`; two monitors can be merged if theirs are equal."""

    score_type: str = "logits"
    window_size: float = 500
    estimator: str | None = None
    false_alarm_rate: float = 0.001
    alpha: float = 0.01
    tolerance: float = 0.02
    low_confidence: float = 0.5
    max_windows: int = 1000
    max_pending: int = 100_000

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> MonitorSettings:
        """The settings with these values; unknown names are refused."""
        names = [field.name for field in fields(cls)]
        for name in settings:
            if name not in names:
                raise UnknownName.of("setting of a monitor", name, names)
        return cls(**settings)

    def __post_init__(self) -> None:
        if self.score_type not in SCORE_TYPES:
            raise UnknownName.of("score_type", self.score_type, SCORE_TYPES)
        if self.estimator is not None:
            object.__setattr__(self, "estimator", check_estimator(self.estimator, ESTIMATOR_NAMES))
        for name, rule in _RULES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, rule.kind) or not rule.is_allowed(value):
                raise InputError(f"{name} must be {rule.text}; it is {value!r}. See help(driftcal.Monitor).")
            if isinstance(value, np.generic):  # a state file stores plain numbers
                object.__setattr__(self, name, value.item())


@dataclass(frozen=True)
class _Rule:
    """The type of a setting, a test of its value, and the text of the error message."""

    kind: type
    is_allowed: Callable[[Any], bool]
    text: str


_RULES = {
    "window_size": _Rule(
        Real,
        lambda value: 0 < value < math.inf,
        "a positive number: a count of samples, or seconds if samples have times (an hour is 3600)",
    ),
    "false_alarm_rate": _Rule(Real, lambda value: 0 < value < 0.5, "a share above 0 and below 0.5"),
    "alpha": _Rule(Real, lambda value: 0 < value < 1, "a probability above 0 and below 1"),
    "tolerance": _Rule(Real, lambda value: 0 <= value < 0.5, "a difference of shares, from 0 to below 0.5"),
    "low_confidence": _Rule(Real, lambda value: 0 <= value <= 1, "a confidence from 0 to 1"),
    "max_windows": _Rule(Integral, lambda value: value >= 1, "a whole number of windows, at least 1"),
    "max_pending": _Rule(Integral, lambda value: value >= 0, "a whole number of samples, 0 or more"),
}
