"""Honest classifier confidence, in domain and while the data drifts.

The public names, loaded when first used: ``import driftcal`` itself imports no framework.
"""

from __future__ import annotations

import importlib
from typing import Any

from driftcal._version import __version__

# name -> the module that defines it
_PUBLIC: dict[str, str] = {
    "BetaCalibration": "driftcal.calibrators",
    "CalibratedModel": "driftcal.pipeline.calibrated_model",
    "Calibrator": "driftcal.calibrators",
    "DensityAwareCalibration": "driftcal.calibrators",
    "DensityAwareNetwork": "driftcal.calibrators",
    "DirichletCalibration": "driftcal.calibrators",
    "DriftCalibratedClassifier": "driftcal.pipeline.sklearn",
    "EnsembleTemperatureScaling": "driftcal.calibrators",
    "EntropyTemperatureScaling": "driftcal.calibrators",
    "evaluate": "driftcal.pipeline.calibrated_model",
    "expected_calibration_error": "driftcal.metrics",
    "find_levels": "driftcal.shifts.levels.find_levels",
    "FitReport": "driftcal.calibrators",
    "from_probabilities": "driftcal.core.validation",
    "get_shift": "driftcal.shifts",
    "get_suite": "driftcal.shifts",
    "HistogramBinning": "driftcal.calibrators",
    "Identity": "driftcal.calibrators",
    "IsotonicRegression": "driftcal.calibrators",
    "IsotonicRegressionMulticlass": "driftcal.calibrators",
    "load": "driftcal.calibrators.serialization",
    "make_calibrator": "driftcal.calibrators",
    "Model": "driftcal.models",
    "MultiDomainTemperatureScaling": "driftcal.calibrators",
    "Monitor": "driftcal.monitor.monitor",
    "open_engine": "driftcal.engines",
    "open_model": "driftcal.models",
    "open_source": "driftcal.data",
    "ParameterizedTemperatureScaling": "driftcal.calibrators",
    "PlattBinning": "driftcal.calibrators",
    "PlattScaling": "driftcal.calibrators",
    "plot_reliability": "driftcal.report.reliability_diagram",
    "pooled_features": "driftcal.models",
    "Preprocessing": "driftcal.models",
    "DriftReference": "driftcal.drift.reference",
    "recalibrate": "driftcal.pipeline.recalibrate",
    "register_shift": "driftcal.shifts",
    "Results": "driftcal.pipeline.results",
    "compare_methods": "driftcal.pipeline.compare",
    "Source": "driftcal.data",
    "SplineCalibration": "driftcal.calibrators",
    "LogitCache": "driftcal.cache",
    "StructuredVectorScaling": "driftcal.calibrators",
    "TabularNoise": "driftcal.shifts",
    "TemperatureIsotonicRegression": "driftcal.calibrators",
    "TemperatureScaling": "driftcal.calibrators",
    "tune": "driftcal.pipeline.tune",
    "VectorScaling": "driftcal.calibrators",
    "write_report": "driftcal.report",
}

# modules that are public as a whole
_MODULES = {"export", "metrics"}

__all__ = ["__version__", *sorted([*_PUBLIC, *_MODULES])]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"driftcal.{name}")
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'driftcal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
