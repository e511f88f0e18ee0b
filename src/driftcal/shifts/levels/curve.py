"""The accuracy–level curve: what has been measured, and which level to try for an accuracy.

With s the share of the way from chance up to the clean accuracy, log((1 - s) / s) is close to a straight line in
log(level): a margin under growing noise. So levels are interpolated there, with a monotone cubic, and continued straight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from driftcal.types import Float64

# The slope of that line when only one point is known; image classifiers under noise have 1.0 to 1.6.
_SLOPE = 1.4
_FLATTEST, _STEEPEST = 0.3, 5.0


@dataclass
class Curve:
    """Measured (level, accuracy) points, level 0 first."""

    chance: float
    points: dict[float, float] = field(default_factory=dict)

    def add(self, level: float, accuracy: float) -> None:
        """Remember a measurement."""
        self.points[level] = accuracy

    def odds(self, accuracy: float) -> float:
        """log((1 - s) / s) of an accuracy: low when clean, high at chance; kept finite at both ends."""
        share = (accuracy - self.chance) / max(self.points[0.0] - self.chance, 1e-9)
        share = min(max(share, 2e-3), 1 - 2e-3)
        return math.log((1 - share) / share)

    def line(self) -> tuple[Float64, Float64]:
        """(odds, log level) of the positive levels, rising; neighbours whose accuracy rises are pooled."""
        pools: list[tuple[float, float, int]] = []
        for level in sorted(level for level in self.points if level > 0):
            pools.append((self.odds(self.points[level]), math.log(level), 1))
            while len(pools) > 1 and pools[-1][0] / pools[-1][2] <= pools[-2][0] / pools[-2][2] + 1e-9:
                last, before = pools.pop(), pools.pop()
                pools.append((last[0] + before[0], last[1] + before[1], last[2] + before[2]))
        return np.array([o / k for o, _, k in pools]), np.array([x / k for _, x, k in pools])

    def level_for(self, accuracy: float) -> float:
        """The level to try for this accuracy."""
        odds, logs = self.line()
        wanted = self.odds(accuracy)
        if odds[0] < wanted < odds[-1]:
            from scipy.interpolate import PchipInterpolator

            return math.exp(float(PchipInterpolator(odds, logs)(wanted)))
        end, inner = (0, 1) if wanted <= odds[0] else (-1, -2)
        slope = _SLOPE
        if len(odds) > 1:
            slope = float((odds[end] - odds[inner]) / (logs[end] - logs[inner]))
            slope = min(max(slope, _FLATTEST), _STEEPEST)
        step = (wanted - float(odds[end])) / slope
        return math.exp(float(logs[end]) + min(max(step, -math.log(256)), math.log(256)))

    def accuracy_at(self, level: float) -> float:
        """The accuracy whose level this is, by halving: the inverse of :meth:`level_for`."""
        if level == 0:
            return self.points[0.0]
        low, high = min(self.chance, *self.points.values()), self.points[0.0]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.level_for(middle) > level else (low, middle)
        return (low + high) / 2

    def around(self, accuracy: float) -> tuple[float, float]:
        """The levels between which the curve first falls past this accuracy; the second is infinite if it never does."""
        low = 0.0
        for level in sorted(self.points):
            if self.points[level] <= accuracy and level > 0:
                return low, level
            low = level
        return low, math.inf
