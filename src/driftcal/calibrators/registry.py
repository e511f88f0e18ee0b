"""Calibrators by their short names. A new one is a file and a line here; other packages call `register_calibrator`."""

from __future__ import annotations

import inspect
import re
import warnings
from importlib.metadata import entry_points
from typing import Any, TypeVar

from driftcal.calibrators.base import Calibrator
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
from driftcal.calibrators.scaling.uncalibrated import Uncalibrated
from driftcal.calibrators.scaling.vector import StructuredVectorScaling, VectorScaling
from driftcal.calibrators.windowed.level_temperature import LevelTemperatureScaling
from driftcal.calibrators.windowed.window_ts import WindowedTemperatureScaling
from driftcal.errors import InputError, UnknownName

#: Calibrators by their short names.
CALIBRATORS: dict[str, type[Calibrator]] = {
    "base": Uncalibrated,
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
    "window-ts": WindowedTemperatureScaling,
    "level-ts": LevelTemperatureScaling,
}
#: The nine calibrators of Tomani et al. 2021.
PAPER_CALIBRATORS = ("base", "ts", "ets", "ts-ir", "ir", "irm", "ps", "hb", "pbmc")
#: The group of entry points in which an installed package lists its calibrators.
ENTRY_POINTS = "driftcal.calibrators"

Kind = TypeVar("Kind", bound=type[Calibrator])


def register_calibrator(name: str, kind: Kind) -> Kind:
    """Register your own calibrator for `tune`, `load`, the export and the command line of this process.

    An installed package can list its calibrators as entry points ``driftcal.calibrators`` instead, which every command
    reads. :func:`driftcal.testing.check_calibrator` tests a calibrator.

    >>> class Halved(TemperatureScaling): ...
    >>> register_calibrator("halved", Halved).__name__, "halved" in CALIBRATORS
    ('Halved', True)
    >>> del CALIBRATORS["halved"]
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name == "auto":
        raise InputError(
            f"name must be lower-case letters, digits and hyphens; it is {name!r}. For instance 'my-method'."
        )
    if not (isinstance(kind, type) and issubclass(kind, Calibrator)) or inspect.isabstract(kind):
        missing = sorted(getattr(kind, "__abstractmethods__", ()))
        fact = f"lacks {', '.join(missing)}" if missing else "is no such class"
        raise InputError(
            f"kind must be a subclass of driftcal.LogitCalibrator with all its methods; {kind!r} {fact}. See docs/own-calibrator.md."
        )
    if not isinstance(getattr(kind, "keeps_accuracy", None), bool):
        raise InputError(
            f"{kind.__name__} must declare keeps_accuracy, True or False: whether it never changes the predicted class."
        )
    if required := [p.name for p in inspect.signature(kind).parameters.values() if p.default is p.empty]:
        raise InputError(f"every parameter of {kind.__name__} must have a default; {required[0]!r} has none.")
    if CALIBRATORS.get(name, kind) is not kind:
        raise InputError(f"the name {name!r} is taken by {CALIBRATORS[name].__name__}. Choose another one.")
    CALIBRATORS[name] = kind
    return kind


def register_entry_points() -> None:
    """Import and register the calibrators of installed packages; the command line does so when it starts."""
    for point in entry_points(group=ENTRY_POINTS):
        if point.name not in CALIBRATORS:
            try:
                register_calibrator(point.name, point.load())
            except Exception as error:  # one broken package must not stop the others
                warnings.warn(
                    f"the calibrator {point.name!r} of an installed package cannot be used: {type(error).__name__}: {error}",
                    stacklevel=2,
                )


def make_calibrator(name: str, **params: Any) -> Calibrator:
    """An unfitted calibrator by its short name.

    >>> make_calibrator("ts", t_max=5)
    TemperatureScaling(t_max=5)
    """
    kind = calibrator_class(name)
    accepted = list(inspect.signature(kind).parameters)
    unknown = sorted(set(params) - set(accepted))
    if unknown:
        raise InputError(f"calibrator {name!r} takes {', '.join(accepted)}; {unknown[0]!r} was given. Leave it out.")
    return kind(**params)


def calibrator_class(name: str) -> type[Calibrator]:
    """The class of a short name."""
    if name not in CALIBRATORS:
        register_entry_points()
    if name not in CALIBRATORS:
        raise UnknownName.of("calibrator", name, CALIBRATORS)
    return CALIBRATORS[name]


def name_of(calibrator: Calibrator) -> str:
    """The short name of a calibrator."""
    for name, kind in CALIBRATORS.items():
        if kind is type(calibrator):
            return name
    raise InputError(
        f"{type(calibrator).__name__} must be registered for this; it is not. "
        f"Call driftcal.register_calibrator('my-name', {type(calibrator).__name__}) first."
    )
