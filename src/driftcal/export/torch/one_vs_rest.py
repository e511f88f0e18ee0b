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
    def argument(self, log_odds: Tensor) -> Tensor:
        """The argument of the sigmoids."""

    def forward(self, z: Tensor) -> Tensor:
        best, top, second, powers, total = self.split(z)
        log_odds_of_top = torch.minimum((top - second) - torch.log(total), -self.masked)
        share = torch.exp(second - top)
        rest = torch.clamp(
            share * total + 1.0 - share * powers, min=1.0
        )  # sum of the other classes, relative to the top
        log_odds = torch.maximum(z - top, self.masked) - torch.log(rest)
        m = self.argument(log_odds.scatter(-1, best, log_odds_of_top))
        e = torch.exp(torch.where(m >= 0, -m, m))  # torch.sigmoid is 0 below -709, where e^m is not yet 0
        return torch.where(m >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


class SigmoidsModule(_OneVsRest):
    """σ(slope·log-odds + intercept), class by class."""

    def __init__(self, scores: Sigmoids) -> None:
        super().__init__()
        self.add_buffers(slopes=scores.slopes, intercepts=scores.intercepts, masked=MASKED)

    def argument(self, log_odds: Tensor) -> Tensor:
        """slope·log-odds + intercept"""
        return self.slopes * log_odds + self.intercepts


class BetaCurvesModule(_OneVsRest):
    """σ(a·log p − b·log(1 − p) + c), class by class."""

    def __init__(self, scores: BetaCurves) -> None:
        super().__init__()
        self.add_buffers(a=scores.a, b=scores.b, c=scores.c, masked=MASKED)

    def argument(self, log_odds: Tensor) -> Tensor:
        """a·log p − b·log(1 − p) + c, from the log-odds"""
        # log p = min(log-odds, 0) − small, and −log(1 − p) = max(log-odds, 0) + small
        small = torch.log1p(torch.exp(-torch.abs(log_odds)))
        log_p, minus_log_rest = torch.clamp(log_odds, max=0.0) - small, torch.clamp(log_odds, min=0.0) + small
        return self.a * log_p + self.b * minus_log_rest + self.c
