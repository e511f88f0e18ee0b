"""The accuracy-level curve: the measured points, and the level to try for an accuracy.

Let s be the accuracy, scaled to 0 at chance and 1 at the clean accuracy. Then log((1 - s) / s) is close to a straight
line in log(level). Levels are interpolated on that scale with a monotone cubic, and extrapolated with a straight line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from driftcal.types import Float64

#: The slope of that line while there is only one point: image classifiers under noise have 1.0 to 1.6.
_DEFAULT_SLOPE = 1.4
#: Limits of a slope between two points: accuracies have sampling errors.
_MIN_SLOPE, _MAX_SLOPE = 0.3, 5.0
#: An extrapolation changes the level by at most this factor.
_MAX_FACTOR = 256


class _Pool(NamedTuple):
    """Sums over neighbouring points that count as one."""

    log_odds: float
    log_level: float
    n_points: int

    def merged(self, other: _Pool) -> _Pool:
        return _Pool(self.log_odds + other.log_odds, self.log_level + other.log_level, self.n_points + other.n_points)

    @property
    def mean_log_odds(self) -> float:
        return self.log_odds / self.n_points

    @property
    def mean_log_level(self) -> float:
        return self.log_level / self.n_points


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
        pools: list[_Pool] = []
        for level in sorted(level for level in self.points if level > 0):
            pools.append(_Pool(self.log_odds(self.points[level]), math.log(level), 1))
            while len(pools) > 1 and pools[-1].mean_log_odds <= pools[-2].mean_log_odds + 1e-9:
                pools.append(pools.pop().merged(pools.pop()))
        return np.array([pool.mean_log_odds for pool in pools]), np.array([pool.mean_log_level for pool in pools])

    def level_for(self, accuracy: float) -> float:
        """The level to try for this accuracy."""
        log_odds, log_levels = self.increasing_points()
        target = self.log_odds(accuracy)
        if log_odds[0] < target < log_odds[-1]:
            from scipy.interpolate import PchipInterpolator

            return math.exp(float(PchipInterpolator(log_odds, log_levels)(target)))
        end, inner = (0, 1) if target <= log_odds[0] else (-1, -2)
        slope = _DEFAULT_SLOPE
        if len(log_odds) > 1:
            slope = float((log_odds[end] - log_odds[inner]) / (log_levels[end] - log_levels[inner]))
            slope = min(max(slope, _MIN_SLOPE), _MAX_SLOPE)
        step = (target - float(log_odds[end])) / slope
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
        """The neighbouring levels between which the curve first falls to this accuracy; else (last level, inf)."""
        low = 0.0
        for level in sorted(self.points):
            if self.points[level] <= accuracy and level > 0:
                return low, level
            low = level
        return low, math.inf
