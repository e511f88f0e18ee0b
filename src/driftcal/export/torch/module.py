"""Calibrators as torch modules: logits in, probabilities out, in float64 whatever comes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driftcal.calibrators import Calibrator
from driftcal.calibrators.base import FLOOR, NO_MASS
from driftcal.errors import need
from driftcal.export.maps import ExportMap, export_map_of
from driftcal.export.torch.buffers import TableModule, only_finite, scripted
from driftcal.export.torch.features import TorchFeatureCalibrator
from driftcal.export.torch.scores import scores_module

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
    Module: Any = object
else:
    from torch import Tensor
    from torch.nn import Module


def to_torch(calibrator: Calibrator) -> TorchCalibrator | TorchFeatureCalibrator:
    """`calibrator` as a torch module: append it to a net, export it, script it, move it to any device.

    One that looks at a model's features takes them as its second argument.

    >>> from driftcal import TemperatureScaling
    >>> ts = TemperatureScaling().fit([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 1])
    >>> bool((to_torch(ts)(torch.zeros(3, 2)) == 0.5).all())
    True
    """
    export_map = export_map_of(calibrator)
    return TorchFeatureCalibrator(export_map) if export_map.widths else TorchCalibrator(export_map)


class TorchCalibrator(Module):  # type: ignore[misc]
    """A calibrator as a torch module: probabilities of (…, classes) logits, in float64; NaN for rows without a finite largest logit.

    Its numbers are buffers. Gradients flow through all maps but bins, which are flat between their edges. `note` says what
    else its user has to know: that an adaptive calibrator does not adapt here.
    """

    __constants__ = ("is_log_exact",)  # so that TorchScript does not look for `log` where there is none

    def __init__(self, export_map: ExportMap) -> None:
        super().__init__()
        self.no_mass, self.floor = NO_MASS, FLOOR
        self.n_classes, self.keeps_accuracy, self.finish = (
            export_map.n_classes,
            export_map.keeps_accuracy,
            export_map.finish,
        )
        self.note = export_map.note
        self.is_log_exact = export_map.table is None and export_map.finish == "nothing"
        self.scores = scores_module(export_map.scores)
        self.table = torch.nn.Identity() if export_map.table is None else TableModule(export_map.table)

    def extra_repr(self) -> str:
        """What printing the module tells beside its parts."""
        return f"classes={self.n_classes}" + (f"\n{self.note}" if self.note else "")

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities."""
        if logits.shape[-1] != self.n_classes:
            raise ValueError(f"logits must have {self.n_classes} columns; they have {logits.shape[-1]}")
        z = logits.to(torch.float64)
        return only_finite(self.finished(self.table(self.scores(z)), z), z)

    @scripted
    def finished(self, p: Tensor, z: Tensor) -> Tensor:
        """Values with 0 for masked classes, and with rows that sum to 1, where the calibrator wants it."""
        if self.finish == "nothing":
            return p
        open_classes = z > float("-inf")
        p = torch.where(open_classes, p, torch.zeros_like(p))
        if self.finish == "mask":
            return p
        total = p.sum(-1, keepdim=True)
        p = torch.where((total < self.no_mass) & open_classes, torch.clamp(p, min=self.floor), p)
        return p / p.sum(-1, keepdim=True)

    @scripted
    def log_proba(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities."""
        if self.is_log_exact:
            z = logits.to(torch.float64)
            return only_finite(self.scores.log(z), z)
        return torch.log(self.forward(logits))

    @scripted
    def predict(self, logits: Tensor) -> Tensor:
        """The column of the most likely class; the logits' own where the calibrator keeps accuracy."""
        if self.keeps_accuracy:
            return logits.argmax(-1)
        return self.forward(logits).argmax(-1)
