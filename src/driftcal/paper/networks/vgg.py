"""VGG19 (Simonyan & Zisserman 2015): the 16 convolutions of ``keras.applications.VGG19``, then one linear layer.

The paper's network has no batch normalisation. `vgg19_bn` has one after each convolution, which makes it train faster.
"""

from __future__ import annotations

from driftcal.paper.networks.torch_layers import ConvolutionBlocks

#: Channels and number of convolutions of the five blocks.
_BLOCKS = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))


def vgg19(n_classes: int = 10) -> ConvolutionBlocks:
    """VGG19 as in the paper. Without batch normalisation, training needs a warm-up and clipped gradients."""
    return ConvolutionBlocks(_BLOCKS, n_classes)


def vgg19_bn(n_classes: int = 10) -> ConvolutionBlocks:
    """VGG19 with batch normalisation after each convolution."""
    return ConvolutionBlocks(_BLOCKS, n_classes, normalised=True)
