"""How a monitor looks at traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftcal.deploy.monitor_rows import INPUTS
from driftcal.errors import InputError, UnknownName
from driftcal.profile import ESTIMATORS


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

    def __post_init__(self) -> None:
        if self.inputs not in INPUTS:
            raise UnknownName.of("kind of inputs", self.inputs, INPUTS)
        if self.estimator is not None and self.estimator not in ESTIMATORS:
            raise UnknownName.of("estimator", self.estimator, ESTIMATORS)
        wishes = {
            "every": self.every > 0 and math.isfinite(self.every),
            "false_alarm": 0 < self.false_alarm < 0.5,
            "alpha": 0 < self.alpha < 1,
            "tolerance": 0 <= self.tolerance < 0.5,
            "low": 0 <= self.low <= 1,
            "keep": self.keep >= 1,
            "remember": self.remember >= 0,
        }
        for name, holds in wishes.items():
            if not holds:
                raise InputError(
                    f"{name} must be a rate between 0 and 1, or a positive size; it is {getattr(self, name)}. "
                    "See help(driftcal.Monitor)."
                )
