"""Calibrators: labelled logits in, a map from logits to honest log-probabilities out.

A new one is a file and a line in `CALIBRATORS`; the command line, the law tests and the docs read it from there.
"""

from __future__ import annotations

import inspect
from typing import Any

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.nonparametric.histogram import HistogramBinning, PlattBinning
from driftcal.calibrators.nonparametric.isotonic import (
    IsotonicRegression,
    IsotonicRegressionMulticlass,
    TemperatureIsotonicRegression,
)
from driftcal.calibrators.nonparametric.spline import SplineCalibration
from driftcal.calibrators.samplewise.dac import DensityAwareCalibration
from driftcal.calibrators.samplewise.dac_pts import DensityAwareNetwork
from driftcal.calibrators.samplewise.hts import EntropyTemperatureScaling
from driftcal.calibrators.samplewise.md_ts import MultiDomainTemperatureScaling
from driftcal.calibrators.samplewise.pts import ParameterizedTemperatureScaling
from driftcal.calibrators.scaling.beta import BetaCalibration
from driftcal.calibrators.scaling.dirichlet import DirichletCalibration
from driftcal.calibrators.scaling.ensemble_temperature import EnsembleTemperatureScaling
from driftcal.calibrators.scaling.platt import PlattScaling
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.calibrators.scaling.uncalibrated import Identity
from driftcal.calibrators.scaling.vector import StructuredVectorScaling, VectorScaling
from driftcal.calibrators.windowed.expectation_consistency import AverageThresholdedConfidence, DifferenceOfConfidences
from driftcal.calibrators.windowed.learned_scale import LevelParameterizedScaling
from driftcal.calibrators.windowed.level_matching import (
    LevelExpectationConsistency,
    LevelIsotonicRegression,
    LevelTemperatureScaling,
)
from driftcal.errors import InputError, UnknownName

#: Every calibrator under its short name.
CALIBRATORS: dict[str, type[Calibrator]] = {
    "base": Identity,
    "ts": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "ts-ir": TemperatureIsotonicRegression,
    "ir": IsotonicRegression,
    "irm": IsotonicRegressionMulticlass,
    "ps": PlattScaling,
    "hb": HistogramBinning,
    "pbmc": PlattBinning,
    "vs": VectorScaling,
    "svs": StructuredVectorScaling,
    "dirichlet": DirichletCalibration,
    "beta": BetaCalibration,
    "spline": SplineCalibration,
    "hts": EntropyTemperatureScaling,
    "pts": ParameterizedTemperatureScaling,
    "dac": DensityAwareCalibration,
    "dac-pts": DensityAwareNetwork,
    "md-ts": MultiDomainTemperatureScaling,
    "ladder-ts": LevelTemperatureScaling,
    "ladder-ec": LevelExpectationConsistency,
    "ladder-irm": LevelIsotonicRegression,
    "ladder-pts": LevelParameterizedScaling,
    "atc-ec": AverageThresholdedConfidence,
    "doc-ec": DifferenceOfConfidences,
}
#: The nine of Tomani et al. 2021 under their names there: what its tables, the demo and a comparison of "all" show.
PAPER_CALIBRATORS = ("base", "ts", "ets", "ts-ir", "ir", "irm", "ps", "hb", "pbmc")


def make_calibrator(name: str, **params: Any) -> Calibrator:
    """A calibrator by its short name, not yet fitted.

    >>> make_calibrator("ts", t_max=5)
    TemperatureScaling(t_max=5)
    """
    if name not in CALIBRATORS:
        raise UnknownName.of("calibrator", name, CALIBRATORS)
    kind = CALIBRATORS[name]
    known = list(inspect.signature(kind).parameters)
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InputError(f"calibrator {name!r} takes {', '.join(known)}; {unknown[0]!r} was given. Leave it out.")
    return kind(**params)


__all__ = [
    "CALIBRATORS",
    "PAPER_CALIBRATORS",
    "BetaCalibration",
    "Calibrator",
    "DensityAwareCalibration",
    "DensityAwareNetwork",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "EntropyTemperatureScaling",
    "FitReport",
    "HistogramBinning",
    "Identity",
    "IsotonicRegression",
    "IsotonicRegressionMulticlass",
    "MultiDomainTemperatureScaling",
    "ParameterizedTemperatureScaling",
    "PlattBinning",
    "PlattScaling",
    "SplineCalibration",
    "StructuredVectorScaling",
    "TemperatureIsotonicRegression",
    "TemperatureScaling",
    "VectorScaling",
    "make_calibrator",
]
