"""Temperature, ensemble temperature, vector and Dirichlet scaling as torch modules."""

from __future__ import annotations

from abc import abstractmethod

from driftcal.calibrators.export_maps.export_map import Blended, Mixed, ScaledPerClass
from driftcal.core.numerics import MASKED
from driftcal.export.torch.buffers import Buffers, Tensor, scripted, torch


class SoftmaxModule(Buffers):
    """softmax(scale·z)"""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.add_buffers(scale=scale)

    def forward(self, z: Tensor) -> Tensor:
        """The probabilities."""
        return torch.softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)

    @scripted
    def log(self, z: Tensor) -> Tensor:
        """The log-probabilities."""
        return torch.log_softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)


class BlendModule(Buffers):
    """The weighted mean of softmax(scale·z), softmax(z) and the uniform distribution over unmasked classes."""

    def __init__(self, blend: Blended) -> None:
        super().__init__()
        scaled, uncalibrated, uniform = blend.weights
        self.add_buffers(scale=blend.scale, scaled=scaled, uncalibrated=uncalibrated, uniform=uniform)

    def forward(self, z: Tensor) -> Tensor:
        """The probabilities."""
        z = z - z.amax(-1, keepdim=True)
        unmasked = torch.isfinite(z).to(z.dtype)
        uniform = self.uniform * unmasked / unmasked.sum(-1, keepdim=True)
        return self.scaled * torch.softmax(self.scale * z, -1) + self.uncalibrated * torch.softmax(z, -1) + uniform

    @scripted
    def log(self, z: Tensor) -> Tensor:
        """The log-probabilities."""
        return torch.log(self.forward(z))


class _LinearModule(Buffers):
    """The softmax of a linear map of log-probabilities, over the unmasked classes."""

    @abstractmethod
    def linear(self, z: Tensor) -> Tensor:
        """The argument of the softmax; any number for masked classes."""

    def forward(self, z: Tensor) -> Tensor:
        return torch.exp(self.log(z))

    @scripted
    def log(self, z: Tensor) -> Tensor:
        return torch.log_softmax(torch.where(z > float("-inf"), self.linear(z), float("-inf")), -1)


class VectorScalingModule(_LinearModule):
    """softmax(slope·log p + intercept), class by class, with p = softmax(scale·z)"""

    def __init__(self, scores: ScaledPerClass) -> None:
        super().__init__()
        self.add_buffers(scale=scores.scale, slopes=scores.slopes, intercepts=scores.intercepts, masked=MASKED)

    def linear(self, z: Tensor) -> Tensor:
        """slope·log p + intercept"""
        x = torch.log_softmax(self.scale * (z - z.amax(-1, keepdim=True)), -1)
        return self.slopes * torch.maximum(x, self.masked) + self.intercepts


class MatrixModule(_LinearModule):
    """softmax(log p · matrix + intercept) with p = softmax(z)"""

    def __init__(self, scores: Mixed) -> None:
        super().__init__()
        self.add_buffers(matrix=scores.matrix, intercepts=scores.intercepts, least=scores.least)

    def linear(self, z: Tensor) -> Tensor:
        """log p · matrix + intercept"""
        return torch.matmul(torch.maximum(torch.log_softmax(z, -1), self.least), self.matrix) + self.intercepts
