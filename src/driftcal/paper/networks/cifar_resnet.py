"""The CIFAR-10 ResNets of He et al. 2016 (ResNet-20, ResNet-44) as torch modules, for published weights."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

#: Preprocessing of the published weights, for images in [0, 1].
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class _ResidualBlock(nn.Module):
    """Two 3×3 convolutions with a parameter-free shortcut, padded with zeros (He et al. 2016, option A)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self._stride, self._pad = stride, (out - channels) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of the block."""
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        if self._stride > 1:
            x = functional.pad(x[:, :, :: self._stride, :: self._stride], (0, 0, 0, 0, self._pad, self._pad))
        return functional.relu(inner + x)


class CifarResNet(nn.Module):
    """Three stages of `blocks` blocks with 16, 32 and 64 channels: depth 6 · blocks + 2."""

    def __init__(self, blocks: int, n_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        channels, stages = 16, []
        for number, width in enumerate((16, 32, 64), 1):
            stage = [
                _ResidualBlock(channels if i == 0 else width, width, 2 if i == 0 and number > 1 else 1)
                for i in range(blocks)
            ]
            stages.append(nn.Sequential(*stage))
            channels = width
        self.layer1, self.layer2, self.layer3 = stages
        self.linear = nn.Linear(64, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images (n, 3, H, W)."""
        x = functional.relu(self.bn1(self.conv1(x)))
        for stage in (self.layer1, self.layer2, self.layer3):
            x = stage(x)
        logits: torch.Tensor = self.linear(x.mean((2, 3)))
        return logits


def resnet20() -> CifarResNet:
    """Depth 20."""
    return CifarResNet(3)


def resnet44() -> CifarResNet:
    """Depth 44."""
    return CifarResNet(7)
