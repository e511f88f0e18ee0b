"""Calibrators as torch modules: logits in, probabilities out, in float64 whatever comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.deploy.recipe import Recipe, Table, recipe_of
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


def _scripted(method: F) -> F:
    """Let TorchScript keep a method that `forward` does not call."""
    return cast(F, torch.jit.export(method))


def to_torch(calibrator: Calibrator) -> TorchCalibrator:
    """`calibrator` as a torch module: append it to a net, export it, script it, move it to any device.

    >>> from driftcal import TemperatureScaling
    >>> ts = TemperatureScaling().fit([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 1])
    >>> bool((to_torch(ts)(torch.zeros(3, 2)) == 0.5).all())
    True
    """
    return TorchCalibrator(recipe_of(calibrator))


class _Buffers(Module):  # type: ignore[misc]
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


class _Softmax(_Buffers):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.keep(scale=scale)

    def forward(self, z: Tensor) -> Tensor:
        return torch.softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)

    @_scripted
    def log(self, z: Tensor) -> Tensor:
        return torch.log_softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)


class _Blend(_Buffers):
    def __init__(self, scale: float, blend: tuple[float, float, float]) -> None:
        super().__init__()
        self.keep(scale=scale, scaled=blend[0], plain=blend[1], doubt=blend[2])

    def forward(self, z: Tensor) -> Tensor:
        z = z - z.amax(-1, keepdim=True)
        uniform = self.doubt / torch.isfinite(z).to(z.dtype).sum(-1, keepdim=True)
        return self.scaled * torch.softmax(self.scale * z, -1) + self.plain * torch.softmax(z, -1) + uniform


class _Platt(_Buffers):
    def __init__(self, slopes: Any, intercepts: Any) -> None:
        super().__init__()
        self.keep(slopes=slopes, intercepts=intercepts, masked=MASKED)

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


class _Table(_Buffers):
    def __init__(self, table: Table, strict: float) -> None:
        super().__init__()
        search = table.search
        self.keep(sorted=search.sorted, start=search.start, above=search.above, below=search.below, value=table.value)
        self.has_line = table.line is not None
        left, width, rise = table.line or (np.zeros(1),) * 3
        self.keep(left=left, width=width, rise=rise, strict=strict)

    def forward(self, p: Tensor) -> Tensor:
        at = self.start.expand(p.shape)
        for step in range(self.above.shape[0]):
            at = at + torch.where(self.sorted[at] < p, self.above[step], self.below[step])
        values = self.value[at]
        if self.has_line:
            values = values + (p - self.left[at]) / self.width[at] * self.rise[at] + self.strict * p
        return values


class TorchCalibrator(Module):  # type: ignore[misc]
    """A calibrator as a torch module: probabilities of (…, classes) logits, in float64.

    Its numbers are buffers. Gradients flow through all maps but bins, which are flat between their edges.
    """

    __constants__ = ("is_log_exact",)  # so that TorchScript does not look for `log` where there is none

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.n_classes, self.keeps_accuracy, self.finish = recipe.n_classes, recipe.keeps_accuracy, recipe.finish
        self.is_log_exact = recipe.table is None and recipe.finish == "nothing"
        if recipe.platt is not None:
            self.scores = _Platt(*recipe.platt)
        elif recipe.blend is not None:
            self.scores = _Blend(recipe.scale, recipe.blend)
        else:
            self.scores = _Softmax(recipe.scale)
        self.table = torch.nn.Identity() if recipe.table is None else _Table(recipe.table, recipe.strict)

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities."""
        if logits.shape[-1] != self.n_classes:
            raise ValueError(f"logits must have {self.n_classes} columns; they have {logits.shape[-1]}")
        z = logits.to(torch.float64)
        p = self.table(self.scores(z))
        if self.finish == "nothing":
            return p
        open_classes = z > float("-inf")
        p = torch.where(open_classes, p, torch.zeros_like(p))
        if self.finish == "mask":
            return p
        total = p.sum(-1, keepdim=True)
        ones = open_classes.to(p.dtype)
        return torch.where(total > 0, p, ones) / torch.where(total > 0, total, ones.sum(-1, keepdim=True))

    @_scripted
    def log_proba(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities."""
        if self.is_log_exact:
            return self.scores.log(logits.to(torch.float64))
        return torch.log(self.forward(logits))

    @_scripted
    def predict(self, logits: Tensor) -> Tensor:
        """The column of the most likely class; the logits' own where the calibrator keeps accuracy."""
        if self.keeps_accuracy:
            return logits.argmax(-1)
        return self.forward(logits).argmax(-1)
