"""A small network without shortcuts and without normalisation: another family than the paper's networks.

It is for comparison: methods that were chosen on residual networks are tested on it.
"""

from __future__ import annotations

from driftcal.paper.networks.torch_layers import ConvolutionBlocks

#: Channels and number of convolutions of the three blocks.
_BLOCKS = ((48, 2), (96, 2), (192, 2))


def plain_cnn(n_classes: int = 10) -> ConvolutionBlocks:
    """Six convolutions, three poolings, one linear layer."""
    return ConvolutionBlocks(_BLOCKS, n_classes)
