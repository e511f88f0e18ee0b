"""Calibrators that look at a model's features as torch modules: logits and features in, probabilities out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.calibrators.samplewise.dac import half_squares
from driftcal.core.numerics import MASKED
from driftcal.errors import need
from driftcal.export.maps import ExportMap
from driftcal.export.samplewise_maps import Neighbours, ScaledByDistance, ScaledByNetwork, ScaledByRegression
from driftcal.export.torch.buffers import Buffers, only_finite, scripted
from driftcal.export.torch.samplewise import Gaps, Network

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
    Module: Any = object
else:
    from torch import Tensor
    from torch.nn import Module


class _Distances(Buffers):
    """The distance to the k-th nearest row of the reference, layer by layer."""

    def __init__(self, neighbours: Neighbours) -> None:
        super().__init__()
        self.widths, self.k = [part.shape[1] for part in neighbours.references], neighbours.k
        reference = np.concatenate(neighbours.references, axis=1).astype(np.float64)
        self.keep(reference=reference, halves=np.stack([half_squares(part) for part in neighbours.references]))

    def forward(self, features: Tensor) -> Tensor:
        found = []
        layers, training = torch.split(features, self.widths, -1), torch.split(self.reference, self.widths, -1)
        for k in range(len(self.widths)):
            nearness = torch.matmul(layers[k], training[k].t()) - self.halves[k]
            kth = torch.topk(nearness, self.k, -1)[1][:, -1]
            found.append(torch.linalg.vector_norm(layers[k] - training[k][kth], dim=-1))
        return torch.stack(found, -1)


class _ByDistance(Buffers):
    """1/T by the distances."""

    def __init__(self, scores: ScaledByDistance) -> None:
        super().__init__()
        self.distances = _Distances(scores.neighbours)
        self.keep(slopes=scores.slopes[:, None], constant=scores.constant)

    def forward(self, z: Tensor, features: Tensor) -> Tensor:
        return 1.0 / (self.constant + torch.matmul(self.distances(features), self.slopes))


class _ByNetwork(Buffers):
    """1/T by a network of the gaps between the largest logits and of the distances."""

    def __init__(self, scores: ScaledByNetwork) -> None:
        super().__init__()
        self.distances = _Distances(scores.neighbours)
        self.gaps, self.network = Gaps(scores), Network(scores)

    def forward(self, z: Tensor, features: Tensor) -> Tensor:
        return self.network(torch.cat([self.gaps(z), self.distances(features)], -1))


class _ByRegression(Buffers):
    """1/T by a line of the features, kept within what the domains showed."""

    def __init__(self, scores: ScaledByRegression) -> None:
        super().__init__()
        self.keep(slopes=scores.slopes[:, None], constant=scores.constant, low=scores.low, high=scores.high)

    def forward(self, z: Tensor, features: Tensor) -> Tensor:
        logarithm = torch.matmul(features, self.slopes) + self.constant
        return torch.exp(-torch.minimum(torch.maximum(logarithm, self.low), self.high))


class TorchFeatureCalibrator(Module):  # type: ignore[misc]
    """A calibrator as a torch module: probabilities of (n, classes) logits and (n, F) features, in float64.

    Features of several layers lie side by side, in the order of the fit, pooled to one vector per row.
    """

    def __init__(self, export_map: ExportMap) -> None:
        super().__init__()
        self.n_classes, self.widths, self.masked = export_map.n_classes, list(export_map.widths), MASKED
        match export_map.scores:
            case ScaledByDistance():
                self.sharpness = _ByDistance(export_map.scores)
            case ScaledByNetwork():
                self.sharpness = _ByNetwork(export_map.scores)
            case ScaledByRegression():
                self.sharpness = _ByRegression(export_map.scores)

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
        # finite also for masked classes: 0 times that has a gradient
        below = torch.clamp(z - z.amax(-1, keepdim=True), min=self.masked)
        logs = torch.log_softmax(below * self.sharpness(z, self.unit(features)), -1)
        return only_finite(torch.where(z > float("-inf"), logs, float("-inf")), z)

    @scripted
    def unit(self, features: Tensor) -> Tensor:
        """Every layer's rows of length 1, as exact as the reference: float32."""
        rows = []
        for layer in torch.split(features.to(torch.float64), self.widths, -1):
            length = torch.linalg.vector_norm(layer, dim=-1, keepdim=True)
            rows.append(layer / torch.where(length > 0, length, 1.0))
        return torch.cat(rows, -1).to(torch.float32).to(torch.float64)

    @scripted
    def predict(self, logits: Tensor, features: Tensor) -> Tensor:
        """The column of the most likely class: the logits' own."""
        return logits.argmax(-1)
