"""The position of a window between the perturbation levels that a calibrator was tuned on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64


@dataclass(frozen=True)
class LevelScale:
    """The mean of a statistic at each perturbation level, the clean one first.

    A statistic need not fall from level to level, so the scale uses its running minimum. The `position` of a window is where
    its mean lies between the levels: 0 for clean samples and above, L - 1 for the last level and below.

    >>> scale = LevelScale.of([0.97, 0.87, 0.89, 0.60])
    >>> [round(scale.position(value), 2) for value in (0.99, 0.92, 0.5)]
    [0.0, 0.75, 3.0]
    >>> scale.position(0.87)  # 0.87 and 0.89 are one step of the scale: its middle
    1.5
    """

    minima: tuple[float, ...]

    @classmethod
    def of(cls, means: AnyArray) -> LevelScale:
        """The scale of the levels' mean statistics."""
        values = np.asarray(means, np.float64).reshape(-1)
        if not len(values) or not np.isfinite(values).all():
            raise InputError(
                f"means must hold one finite number per level; they are {values}. Fit on at least one level."
            )
        return cls(tuple(np.minimum.accumulate(values).tolist()))

    def position(self, value: float) -> float:
        """The position of a window with this mean statistic, in levels."""
        if not math.isfinite(value):
            raise InputError(f"a window's statistic must be finite; it is {value}. Does a sample hold NaN?")
        if value > self.minima[0]:
            return 0.0
        return float(np.interp(-value, *self.points))

    @property
    def points(self) -> tuple[Float64, Float64]:
        """Minus the statistic, rising, and the position there; the position is linear between them.

        Levels with the same minimum are one step, at the middle of their positions.
        """
        steps, first, counts = np.unique(-np.asarray(self.minima), return_index=True, return_counts=True)
        return steps, first + (counts - 1) / 2


def interpolate_levels(values: AnyArray, position: float) -> float:
    """A quantity known at each level, interpolated linearly at a position between them.

    >>> interpolate_levels([1.0, 2.0, 4.0], 1.5)
    3.0
    """
    by_level: Array = np.asarray(values, np.float64)
    return float(np.interp(position, np.arange(len(by_level)), by_level))
