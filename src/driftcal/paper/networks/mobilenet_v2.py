"""MobileNetV2 (Sandler et al. 2018) with the strides, widths and padding of ``keras.applications.MobileNetV2``."""

from __future__ import annotations

import torch
from torch import nn

from driftcal.bench.networks.layers import Conv3, Conv3Down, Head, Pointwise

#: output channels, stride, how many times larger inside
_BLOCKS = (
    (16, 1, 1),
    (24, 2, 6), (24, 1, 6),
    (32, 2, 6), (32, 1, 6), (32, 1, 6),
    (64, 2, 6), (64, 1, 6), (64, 1, 6), (64, 1, 6),
    (96, 1, 6), (96, 1, 6), (96, 1, 6),
    (160, 2, 6), (160, 1, 6), (160, 1, 6),
    (320, 1, 6),
)  # fmt: skip


def _norm(channels: int) -> nn.BatchNorm2d:
    # Keras averages over about 1,000 batches; ten epochs are few of those, so the usual ten batches here
    return nn.BatchNorm2d(channels, eps=1e-3)


class _Inverted(nn.Module):
    """1×1 up, 3×3 per channel, 1×1 down, added to the input where the shapes agree."""

    def __init__(self, channels: int, out: int, stride: int, factor: int) -> None:
        super().__init__()
        inside = channels * factor
        layers: list[nn.Module] = []
        if factor > 1:
            layers += [Pointwise(channels, inside, 1, bias=False), _norm(inside), nn.ReLU6(inplace=True)]
        depthwise = (
            Conv3Down(inside, inside, 3, stride=2, groups=inside, bias=False)
            if stride == 2
            else Conv3(inside, inside, 3, padding=1, groups=inside, bias=False)
        )
        layers += [depthwise, _norm(inside), nn.ReLU6(inplace=True), Pointwise(inside, out, 1, bias=False), _norm(out)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    """Normalised images (n, 3, 32, 32) -> logits (n, classes)."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [Conv3Down(3, 32, 3, stride=2, bias=False), _norm(32), nn.ReLU6(inplace=True)]
        channels = 32
        for out, stride, factor in _BLOCKS:
            layers.append(_Inverted(channels, out, stride, factor))
            channels = out
        layers += [Pointwise(channels, 1280, 1, bias=False), _norm(1280), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.head = Head(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.head(self.layers(x))
        return logits
