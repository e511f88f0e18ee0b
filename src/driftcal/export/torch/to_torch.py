"""Calibrators as torch modules: logits of any float type in, float64 probabilities out."""

from __future__ import annotations

from typing import Any

from driftcal.calibrators import Calibrator
from driftcal.calibrators.export_maps.export_map import (
    BetaCurves,
    Blended,
    ExportMap,
    Mixed,
    Scaled,
    ScaledPerClass,
    Scores,
    Sigmoids,
    TopCurve,
)
from driftcal.calibrators.export_maps.sample_temperatures import ScaledByEntropy, ScaledByNetwork
from driftcal.calibrators.normalise import LEAST_VALUE, NO_MASS
from driftcal.decisions import Threshold
from driftcal.errors import InputError
from driftcal.export.checked_map import export_map_of
from driftcal.export.torch.buffers import Module, Tensor, nan_without_softmax, scripted, torch
from driftcal.export.torch.feature_module import TorchFeatureCalibrator
from driftcal.export.torch.isotonic_and_bins import TableModule
from driftcal.export.torch.one_vs_rest import BetaCurvesModule, SigmoidsModule
from driftcal.export.torch.samplewise import EntropyModule, NetworkModule
from driftcal.export.torch.scaling import BlendModule, MatrixModule, SoftmaxModule, VectorScalingModule
from driftcal.export.torch.top_class_spline import TopCurveModule


def to_torch(calibrator: Calibrator, *, threshold: Threshold | None = None) -> TorchCalibrator | TorchFeatureCalibrator:
    """`calibrator` as a torch module: append it to a network, export it, script it, move it to any device.

    The module of a calibrator that reads layer features takes them as its second argument. With a `threshold`, the
    module of any other calibrator has a method `accept`.

    >>> from driftcal import TemperatureScaling
    >>> ts = TemperatureScaling().fit([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 1])
    >>> bool((to_torch(ts)(torch.zeros(3, 2)) == 0.5).all())
    True
    """
    export_map = export_map_of(calibrator)
    if not export_map.layer_widths:
        return TorchCalibrator(export_map, None if threshold is None else threshold.confidence)
    if threshold is not None:
        raise InputError(
            f"threshold must be left out for {type(calibrator).__name__}, which reads layer features. Compare the confidence yourself."
        )
    return TorchFeatureCalibrator(export_map)


class TorchCalibrator(Module):  # type: ignore[misc]
    """A calibrator as a torch module: probabilities of (…, classes) logits, in float64.

    Samples without a finite largest logit get NaN. All numbers are buffers. All maps have gradients but bins, which are
    constant between their edges.
    """

    __constants__ = ("is_log_exact",)  # a constant, because TorchScript would look for a missing `log` otherwise

    def __init__(self, export_map: ExportMap, threshold: float | None = None) -> None:
        super().__init__()
        self.threshold = float("nan") if threshold is None else threshold
        self.no_mass, self.least = NO_MASS, LEAST_VALUE
        self.n_classes, self.keeps_accuracy = export_map.n_classes, export_map.keeps_accuracy
        self.last_step = export_map.last_step
        self.is_log_exact = export_map.table is None and export_map.last_step == "nothing"
        self.scores = _scores_module(export_map.scores)
        self.table = torch.nn.Identity() if export_map.table is None else TableModule(export_map.table)

    def extra_repr(self) -> str:
        """The text that torch prints for the module."""
        return f"classes={self.n_classes}"

    def forward(self, logits: Tensor) -> Tensor:
        """Calibrated probabilities."""
        if logits.shape[-1] != self.n_classes:
            raise ValueError(f"logits must have {self.n_classes} columns; they have {logits.shape[-1]}")
        z = logits.to(torch.float64)
        return nan_without_softmax(self.apply_last_step(self.table(self.scores(z)), z), z)

    @scripted
    def apply_last_step(self, p: Tensor, z: Tensor) -> Tensor:
        """The last step of the map: nothing, masked classes get 0, or that and normalisation."""
        if self.last_step == "nothing":
            return p
        unmasked = z > float("-inf")
        p = torch.where(unmasked, p, torch.zeros_like(p))
        if self.last_step == "mask":
            return p
        total = p.sum(-1, keepdim=True)
        p = torch.where((total < self.no_mass) & unmasked, torch.clamp(p, min=self.least), p)
        return p / p.sum(-1, keepdim=True)

    @scripted
    def log_proba(self, logits: Tensor) -> Tensor:
        """Calibrated log-probabilities."""
        if self.is_log_exact:
            z = logits.to(torch.float64)
            return nan_without_softmax(self.scores.log(z), z)
        return torch.log(self.forward(logits))

    @scripted
    def accept(self, logits: Tensor) -> Tensor:
        """Whether the confidence reaches the threshold."""
        if self.threshold != self.threshold:
            raise ValueError("this module has no threshold; pass one to to_torch")
        return self.forward(logits).amax(-1) >= self.threshold

    @scripted
    def predict(self, logits: Tensor) -> Tensor:
        """The column of the most probable class; that of the largest logit if the calibrator keeps the accuracy."""
        if self.keeps_accuracy:
            return logits.argmax(-1)
        return self.forward(logits).argmax(-1)


def _scores_module(scores: Scores) -> Any:
    """The torch module for scores that need logits only."""
    match scores:
        case Scaled():
            return SoftmaxModule(scores.scale)
        case Blended():
            return BlendModule(scores)
        case ScaledPerClass():
            return VectorScalingModule(scores)
        case Mixed():
            return MatrixModule(scores)
        case Sigmoids():
            return SigmoidsModule(scores)
        case BetaCurves():
            return BetaCurvesModule(scores)
        case TopCurve():
            return TopCurveModule(scores)
        case ScaledByEntropy():
            return EntropyModule(scores)
        case ScaledByNetwork():
            return NetworkModule(scores)
    raise TypeError(f"{type(scores).__name__} needs layer features")
