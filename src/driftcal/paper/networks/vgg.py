"""VGG19 (Simonyan & Zisserman 2015): the 16 convolutions of ``keras.applications.VGG19``, then one linear layer.

The paper's network has no batch normalisation. `vgg19_bn` has one after each convolution, which makes it train faster.
"""

from __future__ import annotations

import torch
from torch import nn

from driftcal.paper.networks.torch_layers import Conv3x3, Head, batch_norm

#: Channels and number of convolutions of the five blocks.
_BLOCKS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))


class VGG19(nn.Module):
    """Normalised images (n, 3, 32, 32) -> logits (n, n_classes).

    Without batch normalisation, as in the paper, training needs a warm-up and clipped gradients.
    """

    def __init__(self, n_classes: int = 10, *, normalised: bool = False) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, depth in _BLOCKS:
            for _ in range(depth):
                layers.append(Conv3x3(channels, width, 3, padding=1, bias=not normalised))
                if normalised:
                    layers.append(batch_norm(width))
                layers.append(nn.ReLU(inplace=True))
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.layers = nn.Sequential(*layers)
        self.head = Head(channels, n_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of normalised images."""
        logits: torch.Tensor = self.head(self.layers(x))
        return logits


def vgg19_bn(n_classes: int = 10) -> VGG19:
    """VGG19 with batch normalisation after each convolution."""
    return VGG19(n_classes, normalised=True)
