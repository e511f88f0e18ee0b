"""Calibrators that give each row a temperature of its own, as plain numbers: by entropy, by gaps, by a model's features."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import Calibrator, EntropyTemperatureScaling, ParameterizedTemperatureScaling
from driftcal.calibrators.samplewise.dac import FLOOR, DensityAwareCalibration, NeighbourCalibrator
from driftcal.calibrators.samplewise.dac_pts import DensityAwareNetwork, network_layers
from driftcal.calibrators.samplewise.md_ts import MultiDomainTemperatureScaling
from driftcal.errors import InputError
from driftcal.types import Array, Float64


@dataclass(frozen=True)
class Neighbours:
    """Distances to the k-th nearest training row in each layer, whose float32 rows have length 1 (or 0)."""

    references: tuple[Array, ...]
    k: int


@dataclass(frozen=True)
class ScaledByEntropy:
    """softmax(z / T), T = softplus(slope·log H + intercept) with the entropy H of softmax(z) over so many classes."""

    slope: float
    intercept: float
    n_classes: int


@dataclass(frozen=True)
class ScaledByNetwork:
    """softmax(scale·exp(−g)·z), g a network with tanh units on how far the next largest logits lie below the largest.

    Its inputs are log(1 + gap/unit) and then the distances to neighbours, if there are any, all clipped to low…high,
    less mean, by spread; a layer is its weights, (inputs, units), and its constants. The last one has no tanh.
    """

    scale: float
    unit: float
    low: Float64
    high: Float64
    mean: Float64
    spread: Float64
    layers: tuple[tuple[Float64, Float64], ...]
    neighbours: Neighbours = Neighbours((), 1)

    @property
    def gaps(self) -> int:
        """How many gaps the network sees."""
        return len(self.low) - len(self.neighbours.references)


@dataclass(frozen=True)
class ScaledByDistance:
    """softmax(z / T), T = constant + Σ slope·(distance to neighbours), layer by layer."""

    neighbours: Neighbours
    slopes: Float64
    constant: float


@dataclass(frozen=True)
class ScaledByRegression:
    """softmax(z / T), log T = slopes·features + constant, kept from low to high; layers side by side."""

    slopes: Float64
    constant: float
    low: float
    high: float


ByRow = ScaledByEntropy | ScaledByNetwork | ScaledByDistance | ScaledByRegression


def row_scores(calibrator: Calibrator) -> ByRow:
    """What a calibrator does to a row."""
    match calibrator:
        case EntropyTemperatureScaling():
            n, slope = calibrator.n_features_in_, calibrator.slope_
            shift = slope * math.log(math.log(n))  # the fit's entropies are shares of the greatest
            return ScaledByEntropy(slope, calibrator.intercept_ - shift, n)
        case ParameterizedTemperatureScaling():
            low, high = calibrator.feature_low_, calibrator.feature_high_
            return ScaledByNetwork(
                1 / calibrator.temperature_, float(calibrator.feature_scale_), low, high, calibrator.feature_mean_,
                calibrator.feature_spread_, _layers(calibrator.network_, len(low), int(calibrator.hidden)),
            )  # fmt: skip
        case DensityAwareNetwork():
            low, high = calibrator.input_low_, calibrator.input_high_
            return ScaledByNetwork(
                1 / calibrator.temperature_, float(calibrator.gap_scale_), low, high, calibrator.input_mean_,
                calibrator.input_spread_, _layers(calibrator.network_, len(low), int(calibrator.hidden)),
                _neighbours(calibrator),
            )  # fmt: skip
        case DensityAwareCalibration():
            constant, *slopes = calibrator.temperature_ * calibrator.layer_weights_
            return ScaledByDistance(
                _neighbours(calibrator),
                np.array(slopes) / calibrator.mean_distances_,
                float(constant + FLOOR * calibrator.temperature_),
            )
        case MultiDomainTemperatureScaling():
            least, most = (float(limit) for limit in calibrator.range_)
            return ScaledByRegression(calibrator.coefficients_, float(calibrator.intercept_), least, most)
    raise InputError(f"{type(calibrator).__name__} has no export as torch module or ONNX graph. Use it in Python.")


def _neighbours(calibrator: NeighbourCalibrator) -> Neighbours:
    parts = np.split(calibrator.reference_, np.cumsum(calibrator.widths)[:-1], axis=1)
    return Neighbours(tuple(np.ascontiguousarray(part) for part in parts), int(calibrator.k))


def _layers(network: Float64, width: int, hidden: int) -> tuple[tuple[Float64, Float64], ...]:
    """The network's layers as matrices and constants."""
    first, second, last = network_layers(network, width, hidden)
    by_unit = (first, second, last[np.newaxis])
    return tuple((np.ascontiguousarray(layer[:, :-1].T), layer[:, -1].copy()) for layer in by_unit)
