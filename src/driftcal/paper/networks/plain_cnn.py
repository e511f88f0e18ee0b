"""A small network without shortcuts and without normalisation: another family than the paper's networks.

It is for comparison: methods that were chosen on residual networks are tested on it.
"""

from __future__ import annotations

import torch
from torch import nn

from driftcal.paper.networks.torch_layers import Head

#: Channels of the three blocks of two convolutions.
_WIDTHS = (48, 96, 192)


class PlainCNN(nn.Module):
    """Normalised images (n, 3, 32, 32) -> logits (n, n_classes): six convolutions, three poolings, one linear layer."""

    def __init__(self, n_classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in _WIDTHS:
            for _ in range(2):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.layers = nn.Sequential(*layers)
        self.head = Head(channels, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.head(self.layers(x))
        return logits
