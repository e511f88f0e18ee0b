"""Calibrators: maps from logits to calibrated log-probabilities, fitted on labelled logits.

Each method has a file of its own and a line in `registry.py`. The classes are public as ``driftcal.TemperatureScaling``
and so on.
"""

from driftcal.calibrators.base import Calibrator, FitReport, LogitCalibrator
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.registry import (
    CALIBRATORS,
    PAPER_CALIBRATORS,
    calibrator_class,
    make_calibrator,
    name_of,
    register_calibrator,
    register_entry_points,
)
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator

__all__ = [
    "CALIBRATORS",
    "PAPER_CALIBRATORS",
    "Calibrator",
    "FeatureCalibrator",
    "FitReport",
    "FittedArray",
    "LogitCalibrator",
    "WindowedCalibrator",
    "calibrator_class",
    "make_calibrator",
    "name_of",
    "register_calibrator",
    "register_entry_points",
]
