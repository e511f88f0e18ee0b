"""What a fitted calibrator does to logits, as plain numbers: the torch module and the ONNX graph both read this.

Every calibrator is scores (mostly a softmax of something), then perhaps a table that replaces each score, then perhaps
rows that are made to sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from driftcal.calibrators import (
    CALIBRATORS,
    BetaCalibration,
    Calibrator,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    EntropyTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicRegression,
    IsotonicRegressionMulticlass,
    ParameterizedTemperatureScaling,
    PlattBinning,
    PlattScaling,
    SplineCalibration,
    StructuredVectorScaling,
    TemperatureIsotonicRegression,
    TemperatureScaling,
    VectorScaling,
)
from driftcal.calibrators.nonparametric.isotonic import STRICT
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator
from driftcal.calibrators.scaling.dirichlet import LEAST_LOG
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.errors import InputError, NotFittedError
from driftcal.export.lookup import Search
from driftcal.export.samplewise_maps import ByRow, row_scores
from driftcal.types import Array, Float64

Finish = Literal["nothing", "normalise", "mask"]

#: Another exponential function gives a score that differs by a few units in the last place, and by |logarithm| times
#: as much in a sigmoid's tail. A bin's upper edge is a tuning row's score, so it is moved up by this share of itself.
EDGE_MARGIN = 1e-13


@dataclass(frozen=True)
class Table:
    """What replaces a score: value + slope·(score − left), read where the search ends.

    Bins have only values: `line` is then None.
    """

    search: Search
    value: Float64
    line: tuple[Float64, Float64] | None = None  # left, slope


@dataclass(frozen=True)
class Scaled:
    """softmax(scale·z)"""

    scale: float = 1.0


@dataclass(frozen=True)
class Blended:
    """weights[0]·softmax(scale·z) + weights[1]·softmax(z) + weights[2]/(classes that are not masked)"""

    scale: float
    weights: tuple[float, float, float]


@dataclass(frozen=True)
class Stretched:
    """softmax(slope·log p + intercept), class by class, with p = softmax(scale·z)"""

    scale: float
    slopes: Float64
    intercepts: Float64


@dataclass(frozen=True)
class Mixed:
    """softmax(log p · matrix + intercept) with p = softmax(z), log p no less than `least`"""

    matrix: Float64
    intercepts: Float64
    least: float


@dataclass(frozen=True)
class Sigmoids:
    """σ(slope·log-odds + intercept), class by class."""

    slopes: Float64
    intercepts: Float64


@dataclass(frozen=True)
class BetaCurves:
    """σ(a·log p − b·log(1 − p) + c), class by class, with p = softmax(z)"""

    a: Float64
    b: Float64
    c: Float64


@dataclass(frozen=True)
class TopCurve:
    """The top class gets what the curve says to its log-odds, a little more than the second at least; the others share the rest."""

    curve: Table


Scores = Scaled | ByRow | Blended | Stretched | Mixed | Sigmoids | BetaCurves | TopCurve


@dataclass(frozen=True)
class ExportMap:
    """Scores, table and finish of one calibrator.

    `widths` are those of the layers whose features it looks at beside logits.
    """

    n_classes: int
    keeps_accuracy: bool
    scores: Scores = Scaled()
    table: Table | None = None
    finish: Finish = "nothing"
    note: str = ""
    widths: tuple[int, ...] = ()


#: What the user of an exported adaptive calibrator has to know.
STATIC_NOTE = (
    "This calibrator follows drift in Python only. Exported is its static map for inputs nothing is known about; it does not adapt. "
    "For a map that suits a window of logits, export calibrator.adapt(window)."
)


def export_map_of(calibrator: Calibrator) -> ExportMap:
    """The recipe of a fitted calibrator; of an adaptive one that of its static map."""
    if not isinstance(calibrator, Calibrator):
        raise InputError(
            f"only a calibrator can be exported; this is a {type(calibrator).__name__}. Pass the calibrator of a "
            "CalibratedModel, or the path of a saved one to append_to_onnx."
        )
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be exported; this one is not. Call fit(logits, y) first.")
    name = type(calibrator).__name__
    if type(calibrator) not in CALIBRATORS.values():  # a class of the user's may map as it likes
        raise InputError(
            f"driftcal exports its own calibrators; this is a {name}. Write its map as a torch module "
            "or an ONNX graph by hand."
        )
    if isinstance(calibrator, WindowedCalibrator):
        return replace(export_map_of(calibrator._static()), note=STATIC_NOTE)
    n, keeps = calibrator.n_features_in_, calibrator.keeps_accuracy
    match calibrator:
        case Identity():
            return ExportMap(n, keeps)
        case TemperatureScaling():
            return ExportMap(n, keeps, Scaled(1 / calibrator.temperature_))
        case EntropyTemperatureScaling() | ParameterizedTemperatureScaling():
            return ExportMap(n, keeps, row_scores(calibrator))
        case FeatureCalibrator():
            return ExportMap(n, keeps, row_scores(calibrator), widths=calibrator.widths)
        case EnsembleTemperatureScaling():
            scaled, plain, doubt = (float(weight) for weight in calibrator.weights_)
            return ExportMap(n, keeps, Blended(1 / calibrator.temperature_, (scaled, plain, doubt)))
        case IsotonicRegression() | IsotonicRegressionMulticlass() | TemperatureIsotonicRegression():
            strict = STRICT if isinstance(calibrator, IsotonicRegressionMulticlass) else 0.0
            curves = _curves(calibrator.curve_scores_, calibrator.curve_values_, calibrator.curve_starts_, strict)
            return ExportMap(n, keeps, Scaled(1 / getattr(calibrator, "temperature_", 1.0)), curves, "normalise")
        case VectorScaling():
            return ExportMap(n, keeps, Stretched(1.0, calibrator.slopes_, calibrator.intercepts_))
        case StructuredVectorScaling():
            return ExportMap(
                n, keeps, Stretched(1 / calibrator.temperature_, calibrator.slopes_, calibrator.intercepts_)
            )
        case DirichletCalibration() if calibrator.matrix_.ndim == 1:
            return ExportMap(n, keeps, Stretched(1.0, calibrator.matrix_, calibrator.intercepts_))
        case DirichletCalibration():
            matrix = np.ascontiguousarray(calibrator.matrix_.T)
            return ExportMap(n, keeps, Mixed(matrix, calibrator.intercepts_, LEAST_LOG))
        case BetaCalibration():
            a, b, c = (column.copy() for column in calibrator.curves_.T)
            bent = Sigmoids(a, c) if (a == b).all() else BetaCurves(a, b, c)
            return ExportMap(n, keeps, bent, finish="normalise")
        case SplineCalibration():
            points = calibrator.spline_scores_
            curve = _curves(points, calibrator.spline_values_, np.array([0, len(points)]))
            return ExportMap(n, keeps, TopCurve(curve))
        case PlattScaling():
            return ExportMap(n, keeps, Sigmoids(calibrator.slopes_, calibrator.intercepts_), finish="normalise")
        case HistogramBinning():
            table = _bins(calibrator.bin_edges_, calibrator.bin_values_)
            return ExportMap(n, keeps, table=table, finish="normalise")
        case PlattBinning():
            return ExportMap(
                n,
                keeps,
                Sigmoids(calibrator.slopes_, calibrator.intercepts_),
                _bins(calibrator.bin_edges_, calibrator.bin_values_),
                finish="normalise" if calibrator.normalise else "mask",
            )
    raise InputError(
        f"{name} has no export as torch module or ONNX graph. Use driftcal.load(path).predict_proba(logits), or "
        "tune a method that has one, such as irm or ts."
    )


def _curves(scores: Float64, values: Float64, starts: Array, strict: float = 0.0) -> Table:
    """Curves as segments: each has one more than points, the outer two are flat; everywhere `strict`·score is added."""
    place = np.arange(len(scores)) + np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    below, above = place, place + 1  # the segments that end and begin at each point
    inner = np.ones(len(scores) + len(starts) - 1, bool)
    inner[starts[:-1] + np.arange(len(starts) - 1)] = False
    inner[starts[1:] + np.arange(len(starts) - 1)] = False
    left, value, width, rise = np.zeros(len(inner)), np.empty(len(inner)), np.ones(len(inner)), np.zeros(len(inner))
    value[below] = values  # right for a curve's first segment, overwritten in all others
    value[above] = values
    left[above] = scores
    right, high = np.zeros(len(inner)), np.zeros(len(inner))
    right[below], high[below] = scores, values
    width[inner] = (right - left)[inner]
    rise[inner] = (high - value)[inner]
    left[~inner] = 0
    with np.errstate(over="ignore"):  # between scores that are next to 0
        slope = np.minimum(rise / width, np.finfo(float).max)
    return Table(Search.among(scores, starts), value + strict * left, (left, slope + strict))


def _bins(edges: Float64, values: Float64) -> Table:
    starts = np.arange(len(edges) + 1) * max(1, edges.shape[1])
    if edges.shape[1] == 0:  # a single bin: an edge that nothing reaches
        return Table(Search.among(np.full(len(values), np.inf), starts), np.repeat(values, 2))
    moved = np.minimum(edges * (1 + EDGE_MARGIN), edges + (1 - edges) / 2)  # but not over the scores of 1 above it
    return Table(Search.among(moved.reshape(-1), starts), values.reshape(-1))
