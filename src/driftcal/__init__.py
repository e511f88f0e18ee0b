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
    "CalibratedModel": "driftcal.calibrated",
    "Calibrator": "driftcal.calibrators",
    "DensityAwareCalibration": "driftcal.calibrators",
    "DensityAwareNetwork": "driftcal.calibrators",
    "DirichletCalibration": "driftcal.calibrators",
    "DriftCalibratedClassifier": "driftcal.deploy.classifier",
    "EnsembleTemperatureScaling": "driftcal.calibrators",
    "EntropyTemperatureScaling": "driftcal.calibrators",
    "evaluate": "driftcal.calibrated",
    "expected_calibration_error": "driftcal.metrics",
    "find_ladder": "driftcal.perturb.ladder",
    "FitReport": "driftcal.calibrators",
    "from_probabilities": "driftcal.checks",
    "get_shift": "driftcal.perturb",
    "get_suite": "driftcal.perturb",
    "HistogramBinning": "driftcal.calibrators",
    "Identity": "driftcal.calibrators",
    "IsotonicRegression": "driftcal.calibrators",
    "IsotonicRegressionMulticlass": "driftcal.calibrators",
    "load": "driftcal.calibrators.artefact",
    "make_calibrator": "driftcal.calibrators",
    "Model": "driftcal.models",
    "MultiDomainTemperatureScaling": "driftcal.calibrators",
    "Monitor": "driftcal.deploy.monitor",
    "open_engine": "driftcal.engines",
    "open_model": "driftcal.models",
    "open_source": "driftcal.sources",
    "ParameterizedTemperatureScaling": "driftcal.calibrators",
    "PlattBinning": "driftcal.calibrators",
    "PlattScaling": "driftcal.calibrators",
    "plot_reliability": "driftcal.metrics",
    "pooled_features": "driftcal.models",
    "Preprocessing": "driftcal.models",
    "Profile": "driftcal.profile",
    "recalibrate": "driftcal.deploy.recalibrate",
    "register_shift": "driftcal.perturb",
    "Results": "driftcal.results",
    "rivals": "driftcal.rivalry",
    "Source": "driftcal.sources",
    "SplineCalibration": "driftcal.calibrators",
    "Store": "driftcal.store",
    "StructuredVectorScaling": "driftcal.calibrators",
    "TabularNoise": "driftcal.perturb",
    "TemperatureIsotonicRegression": "driftcal.calibrators",
    "TemperatureScaling": "driftcal.calibrators",
    "tune": "driftcal.tuning",
    "VectorScaling": "driftcal.calibrators",
    "write_report": "driftcal.report",
}

# modules that are public as a whole
_MODULES = {"deploy", "metrics"}

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
