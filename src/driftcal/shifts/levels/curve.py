"""The accuracy-level curve: the measured points, and the level to try for an accuracy.

Let s be the accuracy, scaled to 0 at chance and 1 at the clean accuracy. Then log((1 - s) / s) is close to a straight line in
log(level). Levels are interpolated on that scale with a monotone cubic, and extrapolated with a straight line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from driftcal.types import Float64

# The slope of that line while there is one point only; image classifiers under noise have 1.0 to 1.6.
_DEFAULT_SLOPE = 1.4
_MIN_SLOPE, _MAX_SLOPE = 0.3, 5.0
#: An extrapolation changes the level by at most this factor.
_MAX_FACTOR = 256


@dataclass
class AccuracyCurve:
    """Measured accuracies by level, level 0 first."""

    chance: float
    points: dict[float, float] = field(default_factory=dict)

    def log_odds(self, accuracy: float) -> float:
        """log((1 - s) / s) of an accuracy: low when clean, high at chance; finite at both ends."""
        scaled = (accuracy - self.chance) / max(self.points[0.0] - self.chance, 1e-9)
        scaled = min(max(scaled, 2e-3), 1 - 2e-3)
        return math.log((1 - scaled) / scaled)

    def increasing_points(self) -> tuple[Float64, Float64]:
        """(log odds, log level) of the positive levels, both increasing; neighbours whose accuracy rises are pooled."""
        pools: list[tuple[float, float, int]] = []
        for level in sorted(level for level in self.points if level > 0):
            pools.append((self.log_odds(self.points[level]), math.log(level), 1))
            while len(pools) > 1 and pools[-1][0] / pools[-1][2] <= pools[-2][0] / pools[-2][2] + 1e-9:
                last, before = pools.pop(), pools.pop()
                pools.append((last[0] + before[0], last[1] + before[1], last[2] + before[2]))
        return np.array([odds / n for odds, _, n in pools]), np.array([logs / n for _, logs, n in pools])

    def level_for(self, accuracy: float) -> float:
        """The level to try for this accuracy."""
        odds, log_levels = self.increasing_points()
        target = self.log_odds(accuracy)
        if odds[0] < target < odds[-1]:
            from scipy.interpolate import PchipInterpolator

            return math.exp(float(PchipInterpolator(odds, log_levels)(target)))
        end, inner = (0, 1) if target <= odds[0] else (-1, -2)
        slope = _DEFAULT_SLOPE
        if len(odds) > 1:
            slope = float((odds[end] - odds[inner]) / (log_levels[end] - log_levels[inner]))
            slope = min(max(slope, _MIN_SLOPE), _MAX_SLOPE)
        step = (target - float(odds[end])) / slope
        return math.exp(float(log_levels[end]) + min(max(step, -math.log(_MAX_FACTOR)), math.log(_MAX_FACTOR)))

    def accuracy_at(self, level: float) -> float:
        """The accuracy at a level, by bisection: the inverse of :meth:`level_for`."""
        if level == 0:
            return self.points[0.0]
        low, high = min(self.chance, *self.points.values()), self.points[0.0]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.level_for(middle) > level else (low, middle)
        return (low + high) / 2

    def bracket(self, accuracy: float) -> tuple[float, float]:
        """The neighbouring levels between which the curve first falls to this accuracy; (last level, inf) if it never does."""
        low = 0.0
        for level in sorted(self.points):
            if self.points[level] <= accuracy and level > 0:
                return low, level
            low = level
        return low, math.inf
