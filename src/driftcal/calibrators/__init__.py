"""Calibrators: labelled logits in, a map from logits to honest log-probabilities out.

A new one is a file and a line in `CALIBRATORS`; the command line, the law tests and the docs read it from there.
"""

from __future__ import annotations

import inspect
from typing import Any

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.beta import BetaCalibration
from driftcal.calibrators.binning import HistogramBinning, PlattBinning
from driftcal.calibrators.consistency import AverageThresholdedConfidence, DifferenceOfConfidences
from driftcal.calibrators.density import DensityAwareCalibration
from driftcal.calibrators.density_network import DensityAwareNetwork
from driftcal.calibrators.dirichlet import DirichletCalibration
from driftcal.calibrators.domains import MultiDomainTemperatureScaling
from driftcal.calibrators.ensemble import EnsembleTemperatureScaling
from driftcal.calibrators.entropy import EntropyTemperatureScaling
from driftcal.calibrators.identity import Identity
from driftcal.calibrators.isotonic import (
    IsotonicRegression,
    IsotonicRegressionMulticlass,
    TemperatureIsotonicRegression,
)
from driftcal.calibrators.ladder import LadderConsistency, LadderIsotonic, LadderTemperature
from driftcal.calibrators.learnt_ladder import LadderParameterized
from driftcal.calibrators.parameterized import ParameterizedTemperatureScaling
from driftcal.calibrators.platt import PlattScaling
from driftcal.calibrators.spline import SplineCalibration
from driftcal.calibrators.temperature import TemperatureScaling
from driftcal.calibrators.vector import StructuredVectorScaling, VectorScaling
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
    "ladder-ts": LadderTemperature,
    "ladder-ec": LadderConsistency,
    "ladder-irm": LadderIsotonic,
    "ladder-pts": LadderParameterized,
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
