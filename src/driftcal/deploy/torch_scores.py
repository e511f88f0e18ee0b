"""The first step of a torch calibrator, from float64 logits to scores."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from driftcal.calibrators.entropy import LEAST_ARGUMENT, LEAST_LOG_ENTROPY
from driftcal.calibrators.network import LARGEST
from driftcal.calibrators.spline import AHEAD
from driftcal.deploy.recipe import (
    BetaCurves,
    Blended,
    Mixed,
    Scaled,
    ScaledByEntropy,
    ScaledByNetwork,
    Scores,
    Sigmoids,
    Stretched,
    Table,
    TopCurve,
)
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


class TableModule(Buffers):
    """Values of a table for scores of any shape (…, classes)."""

    def __init__(self, table: Table, strict: float = 0.0) -> None:
        super().__init__()
        search = table.search
        self.keep(sorted=search.sorted, start=search.start, above=search.above, below=search.below, value=table.value)
        self.has_line = table.line is not None
        left, width, rise = table.line or (np.zeros(1),) * 3
        self.keep(left=left, width=width, rise=rise, strict=strict)

    def forward(self, p: Tensor) -> Tensor:
        """The values."""
        at = self.start.expand(p.shape)
        for step in range(self.above.shape[0]):
            at = at + torch.where(self.sorted[at] < p, self.above[step], self.below[step])
        values = self.value[at]
        if self.has_line:
            values = values + (p - self.left[at]) / self.width[at] * self.rise[at] + self.strict * p
        return values


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
