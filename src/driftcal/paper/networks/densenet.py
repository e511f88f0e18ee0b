"""DenseNet (Huang et al. 2017) with the strides and widths of ``keras.applications.DenseNet121``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from driftcal.paper.networks.torch_layers import Conv1x1, Conv3x3, Head, batch_norm

#: Channels that each dense layer adds.
_GROWTH = 32


class _DenseLayer(nn.Module):
    """Computes `_GROWTH` channels from its input and appends them to it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            batch_norm(channels), nn.ReLU(inplace=True), Conv1x1(channels, 4 * _GROWTH, 1, bias=False),
            batch_norm(4 * _GROWTH), nn.ReLU(inplace=True), Conv3x3(4 * _GROWTH, _GROWTH, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.layers(x)], 1)


class DenseNet(nn.Module):
    """Normalised images (n, 3, 32, 32) -> logits (n, n_classes). `blocks` holds the depths of the four dense blocks."""

    def __init__(self, blocks: Sequence[int], n_classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), batch_norm(64), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        ]  # fmt: skip
        channels = 64
        for block, depth in enumerate(blocks):
            if block:
                layers += [
                    batch_norm(channels), nn.ReLU(inplace=True), Conv1x1(channels, channels // 2, 1, bias=False),
                    nn.AvgPool2d(2),
                ]  # fmt: skip
                channels //= 2
            for _ in range(depth):
                layers.append(_DenseLayer(channels))
                channels += _GROWTH
        layers += [batch_norm(channels), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.head = Head(channels, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.head(self.layers(x))
        return logits


def densenet121(n_classes: int = 10) -> DenseNet:
    """DenseNet121: 6, 12, 24 and 16 layers."""
    return DenseNet((6, 12, 24, 16), n_classes)
