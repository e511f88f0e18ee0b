"""Calibrators with a temperature per sample as torch modules: HTS and PTS, and 1/T of DAC, DAC-PTS and MD-TS."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from driftcal.calibrators.export_maps.sample_temperatures import (
    Neighbours,
    ScaledByDistance,
    ScaledByEntropy,
    ScaledByNetwork,
    ScaledByRegression,
)
from driftcal.calibrators.samplewise.hts import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.calibrators.samplewise.neighbours import half_squares
from driftcal.calibrators.samplewise.network import MAX_LOG_FACTOR
from driftcal.core.numerics import MASKED
from driftcal.export.torch.buffers import Buffers, Tensor, scripted, torch


class _SampleScaling(Buffers):
    """A softmax with a temperature for each sample."""

    @abstractmethod
    def inverse_temperature(self, z: Tensor) -> Tensor:
        """1/T of each sample, (…, 1)."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.softmax(self.inverse_temperature(z) * self.relative(z), -1)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        log_probs = torch.log_softmax(self.inverse_temperature(z) * self.relative(z), -1)
        return torch.where(z > float("-inf"), log_probs, float("-inf"))

    @scripted
    def relative(self, z: Tensor) -> Tensor:
        """Logits minus the largest; finite for masked classes too, because −inf would make their gradient NaN."""
        return torch.maximum(z - z.amax(-1, keepdim=True), self.masked)


class EntropyModule(_SampleScaling):
    """softmax(z / T), T = softplus(slope·log H + intercept)"""

    def __init__(self, scores: ScaledByEntropy) -> None:
        super().__init__()
        self.add_buffers(slope=scores.slope, intercept=scores.intercept, masked=MASKED)
        self.add_buffers(least_entropy=math.exp(LEAST_LOG_ENTROPY), least=LEAST_ARGUMENT)

    def inverse_temperature(self, z: Tensor) -> Tensor:
        """1/T of each sample, (…, 1)."""
        best = z.argmax(-1, keepdim=True)
        others = self.relative(z).scatter(-1, best, self.masked.expand(best.shape))
        powers = torch.exp(others)
        rest = powers.sum(-1, keepdim=True)
        entropy = torch.log1p(rest) - (powers * others).sum(-1, keepdim=True) / (1.0 + rest)
        log_entropy = torch.log(torch.maximum(entropy, self.least_entropy))
        a = torch.maximum(self.slope * log_entropy + self.intercept, self.least)
        return 1.0 / (torch.clamp(a, min=0.0) + torch.log1p(torch.exp(-torch.abs(a))))


class NetworkModule(_SampleScaling):
    """softmax(scale·exp(−g)·z) with the network g on margins."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.add_buffers(masked=MASKED)
        self.margins, self.network = _Margins(scores), _Network(scores)

    def inverse_temperature(self, z: Tensor) -> Tensor:
        """1/T of each sample, (…, 1)."""
        return self.network(self.margins(z))


class _Network(Buffers):
    """1/T of each sample, scale·exp(−g), from all inputs of the network g."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.add_buffers(scale=scores.scale, low=scores.low, high=scores.high, mean=scores.mean, std=scores.std)
        (w0, c0), (w1, c1), (w2, c2) = scores.layers
        self.add_buffers(w0=w0, c0=c0, w1=w1, c1=c1, w2=w2, c2=c2, largest=MAX_LOG_FACTOR)

    def forward(self, x: Tensor) -> Tensor:
        x = (torch.minimum(torch.maximum(x, self.low), self.high) - self.mean) / self.std
        x = torch.tanh(torch.matmul(x, self.w0) + self.c0)
        x = torch.tanh(torch.matmul(x, self.w1) + self.c1)
        g = torch.matmul(x, self.w2) + self.c2
        return self.scale * torch.exp(-torch.minimum(torch.maximum(g, -self.largest), self.largest))


class _Margins(Buffers):
    """log(1 + margin/unit) of the largest logits; a margin is the difference to the first."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.add_buffers(unit=scores.margin_unit)
        self.top = scores.n_margins + 1

    def forward(self, z: Tensor) -> Tensor:
        largest = torch.topk(z, self.top, -1)[0]
        return torch.log1p((largest[..., :1] - largest[..., 1:]) / self.unit)


class _Distances(Buffers):
    """The distance to the k-th nearest training sample, layer by layer."""

    def __init__(self, neighbours: Neighbours) -> None:
        super().__init__()
        self.widths, self.k = [reference.shape[1] for reference in neighbours.references], neighbours.k
        self.add_buffers(
            reference=np.concatenate(neighbours.references, axis=1).astype(np.float64),
            halves=np.stack([half_squares(reference) for reference in neighbours.references]),
        )

    def forward(self, features: Tensor) -> Tensor:
        distances = []
        layers, training = torch.split(features, self.widths, -1), torch.split(self.reference, self.widths, -1)
        for k in range(len(self.widths)):
            nearness = torch.matmul(layers[k], training[k].t()) - self.halves[k]
            kth = torch.topk(nearness, self.k, -1)[1][:, -1]
            distances.append(torch.linalg.vector_norm(layers[k] - training[k][kth], dim=-1))
        return torch.stack(distances, -1)


class DistanceTemperature(Buffers):
    """1/T from the distances to training samples."""

    def __init__(self, scores: ScaledByDistance) -> None:
        super().__init__()
        self.distances = _Distances(scores.neighbours)
        self.add_buffers(slopes=scores.slopes[:, None], constant=scores.constant)

    def forward(self, z: Tensor, features: Tensor) -> Tensor:
        """1/T of each sample, (…, 1)."""
        return 1.0 / (self.constant + torch.matmul(self.distances(features), self.slopes))


class NetworkTemperature(Buffers):
    """1/T from a network on margins and on distances to training samples."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.distances = _Distances(scores.neighbours)
        self.margins, self.network = _Margins(scores), _Network(scores)

    def forward(self, z: Tensor, features: Tensor) -> Tensor:
        """1/T of each sample, (…, 1)."""
        return self.network(torch.cat([self.margins(z), self.distances(features)], -1))


class RegressionTemperature(Buffers):
    """1/T from a regression on features, clipped to the range of the fit."""

    def __init__(self, scores: ScaledByRegression) -> None:
        super().__init__()
        self.add_buffers(slopes=scores.slopes[:, None], constant=scores.constant, low=scores.low, high=scores.high)

    def forward(self, z: Tensor, features: Tensor) -> Tensor:
        """1/T of each sample, (…, 1)."""
        log_t = torch.matmul(features, self.slopes) + self.constant
        return torch.exp(-torch.minimum(torch.maximum(log_t, self.low), self.high))
