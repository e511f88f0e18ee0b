"""Calibrators that read layer features as torch modules: logits and features in, probabilities out."""

from __future__ import annotations

from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.sample_temperatures import ScaledByDistance, ScaledByNetwork, ScaledByRegression
from driftcal.core.numerics import MASKED
from driftcal.export.torch.buffers import Module, Tensor, nan_without_softmax, scripted, torch
from driftcal.export.torch.samplewise import DistanceTemperature, NetworkTemperature, RegressionTemperature


class TorchFeatureCalibrator(Module):  # type: ignore[misc]
    """A calibrator as a torch module: probabilities of (n, classes) logits and (n, F) features, in float64.

    Features of several layers are side by side, in the order of the fit, pooled to one vector per sample.
    """

    def __init__(self, export_map: ExportMap) -> None:
        super().__init__()
        self.n_classes, self.widths, self.masked = export_map.n_classes, list(export_map.layer_widths), MASKED
        match export_map.scores:
            case ScaledByDistance():
                self.inverse_temperature = DistanceTemperature(export_map.scores)
            case ScaledByNetwork():
                self.inverse_temperature = NetworkTemperature(export_map.scores)
            case ScaledByRegression():
                self.inverse_temperature = RegressionTemperature(export_map.scores)

    def forward(self, logits: Tensor, features: Tensor) -> Tensor:
        """Calibrated probabilities."""
        return torch.exp(self.log_proba(logits, features))

    @scripted
    def log_proba(self, logits: Tensor, features: Tensor) -> Tensor:
        """Calibrated log-probabilities."""
        if logits.shape[-1] != self.n_classes or features.shape[-1] != sum(self.widths):
            raise ValueError(
                f"logits must have {self.n_classes} columns and features {sum(self.widths)}; "
                f"they have {logits.shape[-1]} and {features.shape[-1]}"
            )
        z = logits.to(torch.float64)
        # finite for masked classes too: −inf would make their gradient NaN
        relative = torch.clamp(z - z.amax(-1, keepdim=True), min=self.masked)
        log_probs = torch.log_softmax(relative * self.inverse_temperature(z, self.unit_features(features)), -1)
        return nan_without_softmax(torch.where(z > float("-inf"), log_probs, float("-inf")), z)

    @scripted
    def unit_features(self, features: Tensor) -> Tensor:
        """The features of each layer scaled to length 1 and rounded to float32, as those of the training samples."""
        parts = []
        for layer in torch.split(features.to(torch.float64), self.widths, -1):
            length = torch.linalg.vector_norm(layer, dim=-1, keepdim=True)
            parts.append(layer / torch.where(length > 0, length, 1.0))
        return torch.cat(parts, -1).to(torch.float32).to(torch.float64)

    @scripted
    def predict(self, logits: Tensor, features: Tensor) -> Tensor:
        """The column of the most likely class, which is that of the largest logit."""
        return logits.argmax(-1)
