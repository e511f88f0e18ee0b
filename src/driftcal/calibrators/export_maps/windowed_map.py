"""The map of a windowed calibrator in plain numbers: sample statistics, and the temperature that their sums give.

A calibrator builds its map in `windowed_map`. The ONNX graph with the sums of a window as inputs is made from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from driftcal.drift.accuracy_regression import AccuracyRegression
from driftcal.drift.window_statistics import WindowStatistics
from driftcal.types import Float64


@dataclass(frozen=True)
class InterpolatedTemperature:
    """softmax(z / T), log T a piecewise linear function of minus the window's mean statistic, constant at both ends.

    Parameters
    ----------
    statistic
        The name of the label-free statistic.
    points
        (m,): minus the mean statistic, rising.
    log_temperatures
        (m,): log T at the points.
    """

    statistic: str
    points: Float64
    log_temperatures: Float64


@dataclass(frozen=True, eq=False)
class RegressedTemperature:
    """softmax(z / T), T by expectation consistency with the accuracy that a regression estimates from a window's features.

    Parameters
    ----------
    statistics, regression
        The fitted statistics of samples, and the regression on the features of their sums.
    clean_log_odds
        Those of the accuracy on clean samples.
    follows, half_size, half_excess, half_distance
        How far log T moves from the clean temperature to the window's:
        follows · (n − 1) / (n − 1 + half_size) / (1 + (excess / half_excess)²) / (1 + (half_distance / distance)⁴).
    """

    statistics: WindowStatistics
    regression: AccuracyRegression
    clean_log_odds: float
    follows: float
    half_size: float
    half_excess: float
    half_distance: float


WindowTemperature: TypeAlias = InterpolatedTemperature | RegressedTemperature


@dataclass(frozen=True)
class WindowedMap:
    """The temperature of a window, and that of the per-sample form for windows of fewer than `min_window` samples."""

    temperature: WindowTemperature
    per_sample_temperature: float
    min_window: int
    n_statistics: int
    n_classes: int
