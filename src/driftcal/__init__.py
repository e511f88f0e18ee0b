"""Calibrated classifier confidence, in domain and under data shift.

The public names are loaded when they are first used: ``import driftcal`` itself imports no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from driftcal._version import __version__

if TYPE_CHECKING:
    from driftcal.cache import LogitCache as LogitCache
    from driftcal.calibrators import Calibrator as Calibrator
    from driftcal.calibrators import FeatureCalibrator as FeatureCalibrator
    from driftcal.calibrators import FitReport as FitReport
    from driftcal.calibrators import FittedArray as FittedArray
    from driftcal.calibrators import LogitCalibrator as LogitCalibrator
    from driftcal.calibrators import WindowedCalibrator as WindowedCalibrator
    from driftcal.calibrators import make_calibrator as make_calibrator
    from driftcal.calibrators import register_calibrator as register_calibrator
    from driftcal.calibrators.nonparametric.histogram import HistogramBinning as HistogramBinning
    from driftcal.calibrators.nonparametric.histogram import PlattBinning as PlattBinning
    from driftcal.calibrators.nonparametric.isotonic import IsotonicRegression as IsotonicRegression
    from driftcal.calibrators.nonparametric.isotonic import IsotonicRegressionMulticlass as IsotonicRegressionMulticlass
    from driftcal.calibrators.nonparametric.isotonic import (
        TemperatureIsotonicRegression as TemperatureIsotonicRegression,
    )
    from driftcal.calibrators.nonparametric.spline import SplineCalibration as SplineCalibration
    from driftcal.calibrators.samplewise.dac import DensityAwareCalibration as DensityAwareCalibration
    from driftcal.calibrators.samplewise.dac_pts import DensityAwareNetwork as DensityAwareNetwork
    from driftcal.calibrators.samplewise.hts import EntropyTemperatureScaling as EntropyTemperatureScaling
    from driftcal.calibrators.samplewise.md_ts import MultiDomainTemperatureScaling as MultiDomainTemperatureScaling
    from driftcal.calibrators.samplewise.pts import ParameterizedTemperatureScaling as ParameterizedTemperatureScaling
    from driftcal.calibrators.scaling.beta import BetaCalibration as BetaCalibration
    from driftcal.calibrators.scaling.dirichlet import DirichletCalibration as DirichletCalibration
    from driftcal.calibrators.scaling.ensemble_temperature import (
        EnsembleTemperatureScaling as EnsembleTemperatureScaling,
    )
    from driftcal.calibrators.scaling.platt import PlattScaling as PlattScaling
    from driftcal.calibrators.scaling.temperature import TemperatureScaling as TemperatureScaling
    from driftcal.calibrators.scaling.uncalibrated import Uncalibrated as Uncalibrated
    from driftcal.calibrators.scaling.vector import StructuredVectorScaling as StructuredVectorScaling
    from driftcal.calibrators.scaling.vector import VectorScaling as VectorScaling
    from driftcal.calibrators.serialization import load as load
    from driftcal.calibrators.windowed.level_temperature import LevelTemperatureScaling as LevelTemperatureScaling
    from driftcal.calibrators.windowed.window_ts import AccuracyEstimate as AccuracyEstimate
    from driftcal.calibrators.windowed.window_ts import WindowedTemperatureScaling as WindowedTemperatureScaling
    from driftcal.calibrators.windowed.windowed_predictor import WindowedPredictor as WindowedPredictor
    from driftcal.calibrators.windowed.windowed_predictor import WindowState as WindowState
    from driftcal.core.dataset import LabelledLogits as LabelledLogits
    from driftcal.core.validation import from_probabilities as from_probabilities
    from driftcal.data import Source as Source
    from driftcal.data import open_source as open_source
    from driftcal.decisions import Threshold as Threshold
    from driftcal.drift.reference import DriftReference as DriftReference
    from driftcal.engines import open_engine as open_engine
    from driftcal.metrics import expected_calibration_error as expected_calibration_error
    from driftcal.models import Model as Model
    from driftcal.models import Preprocessing as Preprocessing
    from driftcal.models import open_model as open_model
    from driftcal.models import pooled_features as pooled_features
    from driftcal.monitor.monitor import Monitor as Monitor
    from driftcal.pipeline.calibrated_model import CalibratedModel as CalibratedModel
    from driftcal.pipeline.collecting.layer_features import LayerFeatures as LayerFeatures
    from driftcal.pipeline.collecting.run import Run as Run
    from driftcal.pipeline.evaluating.candidate import Candidate as Candidate
    from driftcal.pipeline.evaluating.compare import compare_methods as compare_methods
    from driftcal.pipeline.evaluating.evaluate import evaluate as evaluate
    from driftcal.pipeline.evaluating.results import Results as Results
    from driftcal.pipeline.recalibrating.recalibrate import recalibrate as recalibrate
    from driftcal.pipeline.tuning.candidates import Selection as Selection
    from driftcal.pipeline.tuning.drift_calibrated_classifier import (
        DriftCalibratedClassifier as DriftCalibratedClassifier,
    )
    from driftcal.pipeline.tuning.fit_scores import fit as fit
    from driftcal.pipeline.tuning.tune import tune as tune
    from driftcal.pipeline.windowed_model import WindowedModel as WindowedModel
    from driftcal.report import write_report as write_report
    from driftcal.report.reliability_diagram import plot_reliability as plot_reliability
    from driftcal.shifts import TabularNoise as TabularNoise
    from driftcal.shifts import get_shift as get_shift
    from driftcal.shifts import get_suite as get_suite
    from driftcal.shifts import register_shift as register_shift
    from driftcal.shifts.levels.find_levels import find_levels as find_levels

    from . import errors as errors
    from . import export as export
    from . import metrics as metrics
    from . import testing as testing

# The same for the interpreter: name -> the module that defines it. tests/test_import.py compares the two lists.
_PUBLIC: dict[str, str] = {
    "AccuracyEstimate": "driftcal.calibrators.windowed.window_ts",
    "BetaCalibration": "driftcal.calibrators.scaling.beta",
    "CalibratedModel": "driftcal.pipeline.calibrated_model",
    "Calibrator": "driftcal.calibrators",
    "Candidate": "driftcal.pipeline.evaluating.candidate",
    "DensityAwareCalibration": "driftcal.calibrators.samplewise.dac",
    "DensityAwareNetwork": "driftcal.calibrators.samplewise.dac_pts",
    "DirichletCalibration": "driftcal.calibrators.scaling.dirichlet",
    "DriftCalibratedClassifier": "driftcal.pipeline.tuning.drift_calibrated_classifier",
    "DriftReference": "driftcal.drift.reference",
    "EnsembleTemperatureScaling": "driftcal.calibrators.scaling.ensemble_temperature",
    "EntropyTemperatureScaling": "driftcal.calibrators.samplewise.hts",
    "FeatureCalibrator": "driftcal.calibrators",
    "FitReport": "driftcal.calibrators",
    "FittedArray": "driftcal.calibrators",
    "HistogramBinning": "driftcal.calibrators.nonparametric.histogram",
    "IsotonicRegression": "driftcal.calibrators.nonparametric.isotonic",
    "IsotonicRegressionMulticlass": "driftcal.calibrators.nonparametric.isotonic",
    "LabelledLogits": "driftcal.core.dataset",
    "LayerFeatures": "driftcal.pipeline.collecting.layer_features",
    "LevelTemperatureScaling": "driftcal.calibrators.windowed.level_temperature",
    "LogitCache": "driftcal.cache",
    "LogitCalibrator": "driftcal.calibrators",
    "Model": "driftcal.models",
    "Monitor": "driftcal.monitor.monitor",
    "MultiDomainTemperatureScaling": "driftcal.calibrators.samplewise.md_ts",
    "ParameterizedTemperatureScaling": "driftcal.calibrators.samplewise.pts",
    "PlattBinning": "driftcal.calibrators.nonparametric.histogram",
    "PlattScaling": "driftcal.calibrators.scaling.platt",
    "Preprocessing": "driftcal.models",
    "Results": "driftcal.pipeline.evaluating.results",
    "Run": "driftcal.pipeline.collecting.run",
    "Selection": "driftcal.pipeline.tuning.candidates",
    "Source": "driftcal.data",
    "SplineCalibration": "driftcal.calibrators.nonparametric.spline",
    "StructuredVectorScaling": "driftcal.calibrators.scaling.vector",
    "TabularNoise": "driftcal.shifts",
    "TemperatureIsotonicRegression": "driftcal.calibrators.nonparametric.isotonic",
    "TemperatureScaling": "driftcal.calibrators.scaling.temperature",
    "Threshold": "driftcal.decisions",
    "Uncalibrated": "driftcal.calibrators.scaling.uncalibrated",
    "VectorScaling": "driftcal.calibrators.scaling.vector",
    "WindowState": "driftcal.calibrators.windowed.windowed_predictor",
    "WindowedCalibrator": "driftcal.calibrators",
    "WindowedModel": "driftcal.pipeline.windowed_model",
    "WindowedPredictor": "driftcal.calibrators.windowed.windowed_predictor",
    "WindowedTemperatureScaling": "driftcal.calibrators.windowed.window_ts",
    "compare_methods": "driftcal.pipeline.evaluating.compare",
    "evaluate": "driftcal.pipeline.evaluating.evaluate",
    "expected_calibration_error": "driftcal.metrics",
    "fit": "driftcal.pipeline.tuning.fit_scores",
    "find_levels": "driftcal.shifts.levels.find_levels",
    "from_probabilities": "driftcal.core.validation",
    "get_shift": "driftcal.shifts",
    "get_suite": "driftcal.shifts",
    "load": "driftcal.calibrators.serialization",
    "make_calibrator": "driftcal.calibrators",
    "open_engine": "driftcal.engines",
    "open_model": "driftcal.models",
    "open_source": "driftcal.data",
    "plot_reliability": "driftcal.report.reliability_diagram",
    "pooled_features": "driftcal.models",
    "recalibrate": "driftcal.pipeline.recalibrating.recalibrate",
    "register_calibrator": "driftcal.calibrators",
    "register_shift": "driftcal.shifts",
    "tune": "driftcal.pipeline.tuning.tune",
    "write_report": "driftcal.report",
}

# modules that are public as a whole
_MODULES = {"errors", "export", "metrics", "testing"}

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
