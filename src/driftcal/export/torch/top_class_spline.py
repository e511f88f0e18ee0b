"""The spline of the top class as a torch module."""

from __future__ import annotations

from driftcal.calibrators.export_maps.export_map import TopCurve
from driftcal.calibrators.nonparametric.spline import MIN_LEAD
from driftcal.core.numerics import MASKED
from driftcal.export.torch.buffers import Tensor, scripted, torch
from driftcal.export.torch.isotonic_and_bins import TableModule
from driftcal.export.torch.top_and_others import TopAndOthers


class TopCurveModule(TopAndOthers):
    """The value of the curve for the top class; the other classes share the rest in proportion to their softmax."""

    def __init__(self, scores: TopCurve) -> None:
        super().__init__()
        self.curve = TableModule(scores.curve)
        self.add_buffers(masked=MASKED, ahead=1 + MIN_LEAD)

    def forward(self, z: Tensor) -> Tensor:
        """The probabilities."""
        best, top, second, powers, total = self.split(z)
        # the exponential of the second class is 1, so the sum is below 1 only if all other classes are masked
        only_class = total < 0.5
        total = torch.clamp(total, min=1.0)
        log_odds = torch.minimum((top - second) - torch.log(total), -self.masked)
        # the second argument is the smallest confidence with which the top class stays ahead of the second
        confidence = torch.maximum(self.curve(log_odds), self.ahead / (self.ahead + total))
        confidence = torch.where(only_class, torch.ones_like(confidence), confidence)
        of_others = torch.minimum(powers / total * (1.0 - confidence), confidence)
        return of_others.scatter(-1, best, confidence)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        """The log-probabilities."""
        return torch.log(self.forward(z))
