"""The first step of a torch calibrator, from float64 logits to scores."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from driftcal.calibrators.nonparametric.spline import AHEAD
from driftcal.core.numerics import MASKED
from driftcal.errors import need
from driftcal.export.maps import (
    BetaCurves,
    Blended,
    Mixed,
    Scaled,
    Scores,
    Sigmoids,
    Stretched,
    TopCurve,
)
from driftcal.export.samplewise_maps import ScaledByEntropy, ScaledByNetwork
from driftcal.export.torch.buffers import Buffers, TableModule, scripted
from driftcal.export.torch.samplewise import ByEntropy, ByNetwork

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
else:
    from torch import Tensor


class _Softmax(Buffers):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.keep(scale=scale)

    def forward(self, z: Tensor) -> Tensor:
        return torch.softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        return torch.log_softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)


class _Blend(Buffers):
    def __init__(self, blend: Blended) -> None:
        super().__init__()
        scaled, plain, doubt = blend.weights
        self.keep(scale=blend.scale, scaled=scaled, plain=plain, doubt=doubt)

    def forward(self, z: Tensor) -> Tensor:
        z = z - z.amax(-1, keepdim=True)
        not_masked = torch.isfinite(z).to(z.dtype)
        uniform = self.doubt * not_masked / not_masked.sum(-1, keepdim=True)
        return self.scaled * torch.softmax(self.scale * z, -1) + self.plain * torch.softmax(z, -1) + uniform

    @scripted
    def log(self, z: Tensor) -> Tensor:
        return torch.log(self.forward(z))


class _Linear(Buffers):
    """The softmax of a line or a matrix on log-probabilities."""

    @abstractmethod
    def mixed(self, z: Tensor) -> Tensor:
        """What the softmax is taken of; anything for masked classes."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.exp(self.log(z))

    @scripted
    def log(self, z: Tensor) -> Tensor:
        u = self.mixed(z)
        return torch.log_softmax(torch.where(z > float("-inf"), u, float("-inf")), -1)


class _Stretched(_Linear):
    def __init__(self, scores: Stretched) -> None:
        super().__init__()
        self.keep(scale=scores.scale, slopes=scores.slopes, intercepts=scores.intercepts, masked=MASKED)

    def mixed(self, z: Tensor) -> Tensor:
        x = torch.log_softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)
        return self.slopes * torch.maximum(x, self.masked) + self.intercepts


class _Mixed(_Linear):
    def __init__(self, scores: Mixed) -> None:
        super().__init__()
        self.keep(matrix=scores.matrix, intercepts=scores.intercepts, least=scores.least)

    def mixed(self, z: Tensor) -> Tensor:
        return torch.matmul(torch.maximum(torch.log_softmax(z, -1), self.least), self.matrix) + self.intercepts


class _Apart(Buffers):
    @scripted
    def apart(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The top's place, the largest two logits, and the others' exponentials relative to the second, with their sum."""
        best = z.argmax(-1, keepdim=True)
        top = z.gather(-1, best)
        others = z.scatter(-1, best, torch.full_like(top, float("-inf")))
        # finite also where all others are masked: their sum is then 0
        second = torch.maximum(others.amax(-1, keepdim=True), self.masked)
        powers = torch.exp(others - second)
        return best, top, second, powers, powers.sum(-1, keepdim=True)


class _OneAgainstRest(_Apart):
    """Sigmoids of something made of the log-odds of each class."""

    @abstractmethod
    def argument(self, x: Tensor) -> Tensor:
        """What the sigmoids are taken of."""

    def forward(self, z: Tensor) -> Tensor:
        best, top, second, powers, total = self.apart(z)
        odds_of_top = torch.minimum((top - second) - torch.log(total), -self.masked)
        share = torch.exp(second - top)
        rest = torch.clamp(share * total + 1.0 - share * powers, min=1.0)
        odds = torch.maximum(z - top, self.masked) - torch.log(rest)
        m = self.argument(odds.scatter(-1, best, odds_of_top))
        e = torch.exp(torch.where(m >= 0, -m, m))  # torch's own sigmoid is 0 below -709, before e^m is
        return torch.where(m >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


class _Sigmoids(_OneAgainstRest):
    def __init__(self, scores: Sigmoids) -> None:
        super().__init__()
        self.keep(slopes=scores.slopes, intercepts=scores.intercepts, masked=MASKED)

    def argument(self, x: Tensor) -> Tensor:
        return self.slopes * x + self.intercepts


class _BetaCurves(_OneAgainstRest):
    def __init__(self, scores: BetaCurves) -> None:
        super().__init__()
        self.keep(a=scores.a, b=scores.b, c=scores.c, masked=MASKED)

    def argument(self, x: Tensor) -> Tensor:
        small = torch.log1p(torch.exp(-torch.abs(x)))
        return self.a * (torch.clamp(x, max=0.0) - small) + self.b * (torch.clamp(x, min=0.0) + small) + self.c


class _TopCurve(_Apart):
    def __init__(self, scores: TopCurve) -> None:
        super().__init__()
        self.curve = TableModule(scores.curve)
        self.keep(masked=MASKED, ahead=1 + AHEAD)

    def forward(self, z: Tensor) -> Tensor:
        best, top, second, powers, total = self.apart(z)
        alone = total < 0.5  # the second counts 1, if there is one
        total = torch.clamp(total, min=1.0)
        odds = torch.minimum((top - second) - torch.log(total), -self.masked)
        sure = torch.maximum(self.curve(odds), self.ahead / (self.ahead + total))
        sure = torch.where(alone, torch.ones_like(sure), sure)
        shared = torch.minimum(powers / total * (1.0 - sure), sure)
        return shared.scatter(-1, best, sure)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        return torch.log(self.forward(z))


def scores_module(scores: Scores) -> Any:
    """The torch module for one kind of scores, of those that need logits only."""
    match scores:
        case Scaled():
            return _Softmax(scores.scale)
        case ScaledByEntropy():
            return ByEntropy(scores)
        case ScaledByNetwork():
            return ByNetwork(scores)
        case Blended():
            return _Blend(scores)
        case Stretched():
            return _Stretched(scores)
        case Mixed():
            return _Mixed(scores)
        case Sigmoids():
            return _Sigmoids(scores)
        case BetaCurves():
            return _BetaCurves(scores)
        case TopCurve():
            return _TopCurve(scores)
    raise TypeError(f"{type(scores).__name__} needs features beside logits")
