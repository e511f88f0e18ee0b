"""Platt scaling and beta calibration as torch modules: a sigmoid per class against the rest."""

from __future__ import annotations

from abc import abstractmethod

from driftcal.calibrators.export_maps.export_map import BetaCurves, Sigmoids
from driftcal.core.numerics import MASKED
from driftcal.export.torch.buffers import Tensor, torch
from driftcal.export.torch.top_and_others import TopAndOthers


class _OneVsRest(TopAndOthers):
    """Sigmoids of a function of the log-odds of each class."""

    @abstractmethod
    def argument(self, odds: Tensor) -> Tensor:
        """What the sigmoids are taken of."""

    def forward(self, z: Tensor) -> Tensor:
        best, top, second, powers, total = self.split(z)
        odds_of_top = torch.minimum((top - second) - torch.log(total), -self.masked)
        share = torch.exp(second - top)
        rest = torch.clamp(share * total + 1.0 - share * powers, min=1.0)
        odds = torch.maximum(z - top, self.masked) - torch.log(rest)
        m = self.argument(odds.scatter(-1, best, odds_of_top))
        e = torch.exp(torch.where(m >= 0, -m, m))  # torch.sigmoid is 0 below -709, before e^m is
        return torch.where(m >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


class SigmoidsModule(_OneVsRest):
    """σ(slope·log-odds + intercept), class by class."""

    def __init__(self, scores: Sigmoids) -> None:
        super().__init__()
        self.keep(slopes=scores.slopes, intercepts=scores.intercepts, masked=MASKED)

    def argument(self, odds: Tensor) -> Tensor:
        """slope·log-odds + intercept"""
        return self.slopes * odds + self.intercepts


class BetaCurvesModule(_OneVsRest):
    """σ(a·log p − b·log(1 − p) + c), class by class."""

    def __init__(self, scores: BetaCurves) -> None:
        super().__init__()
        self.keep(a=scores.a, b=scores.b, c=scores.c, masked=MASKED)

    def argument(self, odds: Tensor) -> Tensor:
        """a·log p − b·log(1 − p) + c, from the log-odds"""
        small = torch.log1p(torch.exp(-torch.abs(odds)))
        return self.a * (torch.clamp(odds, max=0.0) - small) + self.b * (torch.clamp(odds, min=0.0) + small) + self.c
