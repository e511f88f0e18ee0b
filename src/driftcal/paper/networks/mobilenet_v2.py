"""MobileNetV2 (Sandler et al. 2018) with the strides, widths and padding of ``keras.applications.MobileNetV2``."""

from __future__ import annotations

import torch
from torch import nn

from driftcal.paper.networks.torch_layers import Conv1x1, Conv3x3, ConvStride2, Head

#: Output channels, stride and expansion factor of each inverted residual block.
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
    # torch's default averages over 10 batches; Keras' 1,000 batches are too many for a training of ten epochs
    return nn.BatchNorm2d(channels, eps=1e-3)


class _InvertedResidual(nn.Module):
    """1×1 expansion, 3×3 depthwise convolution, 1×1 projection; the input is added if the shapes agree."""

    def __init__(self, channels: int, out: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        layers: list[nn.Module] = []
        if expansion > 1:
            layers += [Conv1x1(channels, inner, 1, bias=False), _norm(inner), nn.ReLU6(inplace=True)]
        depthwise = (
            ConvStride2(inner, inner, 3, stride=2, groups=inner, bias=False)
            if stride == 2
            else Conv3x3(inner, inner, 3, padding=1, groups=inner, bias=False)
        )
        layers += [depthwise, _norm(inner), nn.ReLU6(inplace=True), Conv1x1(inner, out, 1, bias=False), _norm(out)]
        self.layers = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.has_shortcut else y


class MobileNetV2(nn.Module):
    """Normalised images (n, 3, 32, 32) -> logits (n, n_classes)."""

    def __init__(self, n_classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [ConvStride2(3, 32, 3, stride=2, bias=False), _norm(32), nn.ReLU6(inplace=True)]
        channels = 32
        for out, stride, expansion in _BLOCKS:
            layers.append(_InvertedResidual(channels, out, stride, expansion))
            channels = out
        layers += [Conv1x1(channels, 1280, 1, bias=False), _norm(1280), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*layers)
        self.head = Head(1280, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.head(self.layers(x))
        return logits
