"""Maps with a temperature per sample: from its entropy, its margins, or layer features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from driftcal.types import Array, Float64


@dataclass(frozen=True)
class Neighbours:
    """Training samples for the distance to the k-th nearest: float32 features of length 1 (or 0) for each layer."""

    references: tuple[Array, ...]
    k: int


@dataclass(frozen=True)
class ScaledByEntropy:
    """softmax(z / T), T = softplus(slope·log H + intercept) with the entropy H of softmax(z)."""

    slope: float
    intercept: float
    n_classes: int


@dataclass(frozen=True)
class ScaledByNetwork:
    """softmax(scale·exp(−g)·z), where g is a network with tanh units on the margins between the largest logits.

    Its inputs are log(1 + margin/margin_unit), then the distances to neighbours, if there are any. They are clipped to
    low…high and standardised by mean and std. A layer has weights (inputs, units) and constants. The last one has no
    tanh.
    """

    scale: float
    margin_unit: float
    low: Float64
    high: Float64
    mean: Float64
    std: Float64
    layers: tuple[tuple[Float64, Float64], ...]
    neighbours: Neighbours = Neighbours((), 1)

    @property
    def n_margins(self) -> int:
        """How many inputs of the network are margins."""
        return len(self.low) - len(self.neighbours.references)


@dataclass(frozen=True)
class ScaledByDistance:
    """softmax(z / T), T = constant + Σ slope·(distance to neighbours), layer by layer."""

    neighbours: Neighbours
    slopes: Float64
    constant: float


@dataclass(frozen=True)
class ScaledByRegression:
    """softmax(z / T), log T = slopes·features + constant, clipped to low…high; the layers are concatenated."""

    slopes: Float64
    constant: float
    low: float
    high: float


SampleTemperatures: TypeAlias = ScaledByEntropy | ScaledByNetwork | ScaledByDistance | ScaledByRegression
