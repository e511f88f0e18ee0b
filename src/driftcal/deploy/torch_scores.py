"""The first step of a torch calibrator, from float64 logits to scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from driftcal.calibrators.entropy import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.calibrators.parameterized import LARGEST
from driftcal.deploy.recipe import Blended, Scaled, ScaledByEntropy, ScaledByNetwork, Scores, Sigmoids
from driftcal.errors import need
from driftcal.numerics import MASKED

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
    Module: Any = object
else:
    from torch import Tensor
    from torch.nn import Module


F = TypeVar("F", bound=Callable[..., Any])


def scripted(method: F) -> F:
    """Let TorchScript keep a method that `forward` does not call."""
    return cast(F, torch.jit.export(method))


class Buffers(Module):  # type: ignore[misc]
    """Numbers that move with ``.to(device)`` but stay float64, also when a whole net is made half precision."""

    def keep(self, **values: Any) -> None:
        """Register arrays and numbers as buffers; floats as float64, places in a table as int64."""
        for name, value in values.items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        kept = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, value in kept.items():
            self._buffers[name] = value.to(self._buffers[name].device)
        return self


class _Softmax(Buffers):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.keep(scale=scale)

    def forward(self, z: Tensor) -> Tensor:
        return torch.softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        return torch.log_softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)


class _ByRow(Buffers):
    """A softmax with a scale for each row."""

    def sharpness(self, z: Tensor) -> Tensor:
        raise NotImplementedError

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


class _ByEntropy(_ByRow):
    def __init__(self, scores: ScaledByEntropy) -> None:
        super().__init__()
        self.keep(slope=scores.slope, intercept=scores.intercept, masked=MASKED)
        self.keep(least_entropy=math.exp(LEAST_LOG_ENTROPY), least=LEAST_ARGUMENT)

    def sharpness(self, z: Tensor) -> Tensor:
        best = z.argmax(-1, keepdim=True)
        others = self.below(z).scatter(-1, best, self.masked.expand(best.shape))
        powers = torch.exp(others)
        rest = powers.sum(-1, keepdim=True)
        entropy = torch.log1p(rest) - (powers * others).sum(-1, keepdim=True) / (1.0 + rest)
        log_entropy = torch.log(torch.maximum(entropy, self.least_entropy))
        a = torch.maximum(self.slope * log_entropy + self.intercept, self.least)
        return 1.0 / (torch.clamp(a, min=0.0) + torch.log1p(torch.exp(-torch.abs(a))))


class _ByNetwork(_ByRow):
    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.keep(scale=scores.scale, unit=scores.unit, low=scores.low, high=scores.high, masked=MASKED)
        self.keep(mean=scores.mean, spread=scores.spread, largest=LARGEST)
        (w0, c0), (w1, c1), (w2, c2) = scores.layers
        self.keep(w0=w0, c0=c0, w1=w1, c1=c1, w2=w2, c2=c2)
        self.top = len(scores.low) + 1

    def sharpness(self, z: Tensor) -> Tensor:
        largest = torch.topk(z, self.top, -1)[0]
        x = torch.log1p((largest[..., :1] - largest[..., 1:]) / self.unit)
        x = (torch.minimum(torch.maximum(x, self.low), self.high) - self.mean) / self.spread
        x = torch.tanh(torch.matmul(x, self.w0) + self.c0)
        x = torch.tanh(torch.matmul(x, self.w1) + self.c1)
        g = torch.matmul(x, self.w2) + self.c2
        return self.scale * torch.exp(-torch.minimum(torch.maximum(g, -self.largest), self.largest))


class _Blend(Buffers):
    def __init__(self, blend: Blended) -> None:
        super().__init__()
        scaled, plain, doubt = blend.weights
        self.keep(scale=blend.scale, scaled=scaled, plain=plain, doubt=doubt)

    def forward(self, z: Tensor) -> Tensor:
        z = z - z.amax(-1, keepdim=True)
        uniform = self.doubt / torch.isfinite(z).to(z.dtype).sum(-1, keepdim=True)
        return self.scaled * torch.softmax(self.scale * z, -1) + self.plain * torch.softmax(z, -1) + uniform


class _Sigmoids(Buffers):
    def __init__(self, sigmoids: Sigmoids) -> None:
        super().__init__()
        self.keep(slopes=sigmoids.slopes, intercepts=sigmoids.intercepts, masked=MASKED)

    def forward(self, z: Tensor) -> Tensor:
        best = z.argmax(-1, keepdim=True)
        top = z.gather(-1, best)
        others = z.scatter(-1, best, torch.full_like(top, float("-inf")))
        # finite also where all others are masked: their sum is then 0 and the top's log-odds are capped
        second = torch.maximum(others.amax(-1, keepdim=True), self.masked)
        powers = torch.exp(others - second)
        total = powers.sum(-1, keepdim=True)
        odds_of_top = torch.minimum((top - second) - torch.log(total), -self.masked)
        share = torch.exp(second - top)
        rest = torch.clamp(share * total + 1.0 - share * powers, min=1.0)
        odds = torch.maximum(z - top, self.masked) - torch.log(rest)
        m = self.slopes * odds.scatter(-1, best, odds_of_top) + self.intercepts
        e = torch.exp(torch.where(m >= 0, -m, m))  # torch's own sigmoid is 0 below -709, before e^m is
        return torch.where(m >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def scores_module(scores: Scores) -> Any:
    """The torch module for one kind of scores."""
    match scores:
        case Scaled():
            return _Softmax(scores.scale)
        case ScaledByEntropy():
            return _ByEntropy(scores)
        case ScaledByNetwork():
            return _ByNetwork(scores)
        case Blended():
            return _Blend(scores)
        case Sigmoids():
            return _Sigmoids(scores)
