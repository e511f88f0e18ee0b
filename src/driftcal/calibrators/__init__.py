"""Calibrators: labelled logits in, a map from logits to calibrated log-probabilities out.

Each class is in the file of its method and in `registry.py`; ``driftcal.TemperatureScaling`` and so on are the public names.
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
