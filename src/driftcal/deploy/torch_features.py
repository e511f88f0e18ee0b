"""Calibrators that look at a model's features as torch modules: logits and features in, probabilities out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.calibrators.density import FLOOR, DensityAwareCalibration, NeighbourCalibrator
from driftcal.calibrators.density_network import DensityAwareNetwork, network_layers
from driftcal.calibrators.domains import MultiDomainTemperatureScaling
from driftcal.calibrators.features import FeatureCalibrator
from driftcal.calibrators.network import LARGEST
from driftcal.deploy.torch_scores import Buffers, scripted
from driftcal.errors import InputError, need

torch: Any = need("torch", "torch")
if TYPE_CHECKING:
    Tensor = Any
    Module: Any = object
else:
    from torch import Tensor
    from torch.nn import Module


class _Distances(Buffers):
    """The distance to the k-th nearest row of the reference, layer by layer."""

    def __init__(self, calibrator: NeighbourCalibrator) -> None:
        super().__init__()
        self.widths, self.k = list(calibrator.widths), int(calibrator.k)
        self.keep(reference=calibrator.reference_.astype(np.float64))

    def forward(self, features: Tensor) -> Tensor:
        found = []
        layers, training = torch.split(features, self.widths, -1), torch.split(self.reference, self.widths, -1)
        for k in range(len(self.widths)):
            kth = torch.topk(torch.matmul(layers[k], training[k].t()), self.k, -1)[1][:, -1]
            found.append(torch.linalg.vector_norm(layers[k] - training[k][kth], dim=-1))
        return torch.stack(found, -1)


class _ByDistance(Buffers):
    """T = w₀ + Σ w·(distance to the k-th nearest row of the reference), layer by layer."""

    def __init__(self, calibrator: DensityAwareCalibration) -> None:
        super().__init__()
        self.distances = _Distances(calibrator)
        # of each layer the weight of a distance of 1
        slopes = calibrator.temperature_ * calibrator.layer_weights_[1:] / calibrator.mean_distances_
        constant = calibrator.temperature_ * (FLOOR + calibrator.layer_weights_[0])
        self.keep(slopes=slopes, constant=constant)

    def forward(self, below: Tensor, features: Tensor) -> Tensor:
        return self.constant + torch.matmul(self.distances(features), self.slopes)


class _ByNetwork(Buffers):
    """T = T₀·exp(g), g a network of the gaps between the largest logits and of the distances."""

    def __init__(self, calibrator: DensityAwareNetwork) -> None:
        super().__init__()
        self.distances = _Distances(calibrator)
        layers = len(calibrator.widths)
        self.top = len(calibrator.input_low_) - layers + 1
        first, second, last = network_layers(calibrator.network_, self.top - 1 + layers, int(calibrator.hidden))
        self.keep(
            first=first, second=second, last=last, start=np.log(calibrator.temperature_), scale=calibrator.gap_scale_,
            low=calibrator.input_low_, high=calibrator.input_high_, mean=calibrator.input_mean_,
            spread=calibrator.input_spread_, most=LARGEST,
        )  # fmt: skip

    def forward(self, below: Tensor, features: Tensor) -> Tensor:
        gaps = torch.log1p(-torch.topk(below, self.top, -1)[0][:, 1:] / self.scale)
        seen = torch.cat([gaps, self.distances(features)], -1)
        x = (torch.minimum(torch.maximum(seen, self.low), self.high) - self.mean) / self.spread
        x = torch.tanh(torch.matmul(x, self.first[:, :-1].t()) + self.first[:, -1])
        x = torch.tanh(torch.matmul(x, self.second[:, :-1].t()) + self.second[:, -1])
        g = torch.matmul(x, self.last[:-1]) + self.last[-1]
        return torch.exp(self.start + torch.minimum(torch.maximum(g, -self.most), self.most))


class _ByRegression(Buffers):
    """log T = w·features + b, kept within what the domains showed."""

    def __init__(self, calibrator: MultiDomainTemperatureScaling) -> None:
        super().__init__()
        self.widths = list(calibrator.widths)
        low, high = calibrator.range_
        self.keep(slopes=calibrator.coefficients_, constant=calibrator.intercept_, low=low, high=high)

    def forward(self, below: Tensor, features: Tensor) -> Tensor:
        logarithm = torch.matmul(features, self.slopes) + self.constant
        return torch.exp(torch.minimum(torch.maximum(logarithm, self.low), self.high))


class TorchFeatureCalibrator(Module):  # type: ignore[misc]
    """A calibrator as a torch module: probabilities of (n, classes) logits and (n, F) features, in float64.

    Features of several layers lie side by side, in the order of the fit, pooled to one vector per row.
    """

    def __init__(self, calibrator: FeatureCalibrator) -> None:
        super().__init__()
        self.n_classes, self.widths = calibrator.n_features_in_, list(calibrator.widths)
        match calibrator:
            case DensityAwareCalibration():
                self.temperature = _ByDistance(calibrator)
            case DensityAwareNetwork():
                self.temperature = _ByNetwork(calibrator)
            case MultiDomainTemperatureScaling():
                self.temperature = _ByRegression(calibrator)
            case _:
                raise InputError(f"{type(calibrator).__name__} has no export as torch module. Use it in Python.")

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
        below = z - z.amax(-1, keepdim=True)
        temperature = self.temperature(below, self.unit(features)).unsqueeze(-1)
        return torch.log_softmax(below / temperature, -1)

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
