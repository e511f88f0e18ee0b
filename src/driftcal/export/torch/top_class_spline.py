"""The spline of the top class as a torch module."""

from __future__ import annotations

from driftcal.calibrators.export_maps.export_map import TopCurve
from driftcal.calibrators.nonparametric.spline import MIN_LEAD
from driftcal.core.numerics import MASKED
from driftcal.export.torch.buffers import Tensor, scripted, torch
from driftcal.export.torch.isotonic_and_bins import TableModule
from driftcal.export.torch.top_and_others import TopAndOthers


class TopCurveModule(TopAndOthers):
    """The curve's value for the top class, and for the others their shares of the rest."""

    def __init__(self, scores: TopCurve) -> None:
        super().__init__()
        self.curve = TableModule(scores.curve)
        self.keep(masked=MASKED, ahead=1 + MIN_LEAD)

    def forward(self, z: Tensor) -> Tensor:
        """The probabilities."""
        best, top, second, powers, total = self.split(z)
        alone = total < 0.5  # the second counts 1, if there is one
        total = torch.clamp(total, min=1.0)
        odds = torch.minimum((top - second) - torch.log(total), -self.masked)
        confidence = torch.maximum(self.curve(odds), self.ahead / (self.ahead + total))
        confidence = torch.where(alone, torch.ones_like(confidence), confidence)
        shared = torch.minimum(powers / total * (1.0 - confidence), confidence)
        return shared.scatter(-1, best, confidence)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        """Their logarithms."""
        return torch.log(self.forward(z))
