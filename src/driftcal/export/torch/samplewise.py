"""Torch calibrators that give each row a temperature of its own, by its logits."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from driftcal.calibrators.kernels.network import LARGEST
from driftcal.calibrators.samplewise.hts import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.core.numerics import MASKED
from driftcal.errors import need
from driftcal.export.samplewise_maps import ScaledByEntropy, ScaledByNetwork
from driftcal.export.torch.buffers import Buffers, scripted

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
else:
    from torch import Tensor


class _ByRow(Buffers):
    """A softmax with a scale for each row."""

    @abstractmethod
    def sharpness(self, z: Tensor) -> Tensor:
        """1/T of each row, as a column."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.softmax(self.sharpness(z) * self.below(z), -1)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        logs = torch.log_softmax(self.sharpness(z) * self.below(z), -1)
        return torch.where(z > float("-inf"), logs, float("-inf"))

    @scripted
    def below(self, z: Tensor) -> Tensor:
        """How far below the top, finite also for masked classes: 0 times that has a gradient."""
        return torch.maximum(z - z.amax(-1, keepdim=True), self.masked)


class ByEntropy(_ByRow):
    """A softmax as sharp as the entropy says."""

    def __init__(self, scores: ScaledByEntropy) -> None:
        super().__init__()
        self.keep(slope=scores.slope, intercept=scores.intercept, masked=MASKED)
        self.keep(least_entropy=math.exp(LEAST_LOG_ENTROPY), least=LEAST_ARGUMENT)

    def sharpness(self, z: Tensor) -> Tensor:
        """1/T of each row, as a column."""
        best = z.argmax(-1, keepdim=True)
        others = self.below(z).scatter(-1, best, self.masked.expand(best.shape))
        powers = torch.exp(others)
        rest = powers.sum(-1, keepdim=True)
        entropy = torch.log1p(rest) - (powers * others).sum(-1, keepdim=True) / (1.0 + rest)
        log_entropy = torch.log(torch.maximum(entropy, self.least_entropy))
        a = torch.maximum(self.slope * log_entropy + self.intercept, self.least)
        return 1.0 / (torch.clamp(a, min=0.0) + torch.log1p(torch.exp(-torch.abs(a))))


class Network(Buffers):
    """scale·exp(−g), as a column, from all that the network g sees."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.keep(scale=scores.scale, low=scores.low, high=scores.high, mean=scores.mean, spread=scores.spread)
        (w0, c0), (w1, c1), (w2, c2) = scores.layers
        self.keep(w0=w0, c0=c0, w1=w1, c1=c1, w2=w2, c2=c2, largest=LARGEST)

    def forward(self, x: Tensor) -> Tensor:
        """1/T of each row."""
        x = (torch.minimum(torch.maximum(x, self.low), self.high) - self.mean) / self.spread
        x = torch.tanh(torch.matmul(x, self.w0) + self.c0)
        x = torch.tanh(torch.matmul(x, self.w1) + self.c1)
        g = torch.matmul(x, self.w2) + self.c2
        return self.scale * torch.exp(-torch.minimum(torch.maximum(g, -self.largest), self.largest))


class Gaps(Buffers):
    """log(1 + gap/unit) of the next largest logits below the largest."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.keep(unit=scores.unit)
        self.top = scores.gaps + 1

    def forward(self, z: Tensor) -> Tensor:
        """What a network sees of the logits."""
        largest = torch.topk(z, self.top, -1)[0]
        return torch.log1p((largest[..., :1] - largest[..., 1:]) / self.unit)


class ByNetwork(_ByRow):
    """A softmax as sharp as a network says."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.keep(masked=MASKED)
        self.gaps, self.network = Gaps(scores), Network(scores)

    def sharpness(self, z: Tensor) -> Tensor:
        """1/T of each row, as a column."""
        return self.network(self.gaps(z))
