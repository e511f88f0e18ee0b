"""ResNet (He et al. 2016) with the strides, widths and biases of ``keras.applications.ResNet50``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from driftcal.paper.networks.torch_layers import Conv1x1, Conv3x3, Head, batch_norm


class _Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions with a shortcut; as in Keras, the first 1×1 has the stride."""

    def __init__(self, channels: int, width: int, stride: int, *, projection: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            Conv1x1(channels, width, 1, stride=stride), batch_norm(width), nn.ReLU(inplace=True),
            Conv3x3(width, width, 3, padding=1), batch_norm(width), nn.ReLU(inplace=True),
            Conv1x1(width, 4 * width, 1), batch_norm(4 * width),
        )  # fmt: skip
        self.shortcut = (
            nn.Sequential(Conv1x1(channels, 4 * width, 1, stride=stride), batch_norm(4 * width))
            if projection
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layers(x) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """Normalised images (n, 3, 32, 32) -> logits (n, n_classes). `blocks` holds the depths of the four stages."""

    def __init__(self, blocks: Sequence[int], n_classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, stride=2, padding=3), batch_norm(64), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]  # fmt: skip
        channels = 64
        for stage, depth in enumerate(blocks):
            width = 64 << stage
            for block in range(depth):
                stride = 2 if stage and not block else 1
                layers.append(_Bottleneck(channels, width, stride, projection=not block))
                channels = 4 * width
        self.layers = nn.Sequential(*layers)
        self.head = Head(channels, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.head(self.layers(x))
        return logits


def resnet50(n_classes: int = 10) -> ResNet:
    """ResNet50: 3, 4, 6 and 3 bottlenecks."""
    return ResNet((3, 4, 6, 3), n_classes)
