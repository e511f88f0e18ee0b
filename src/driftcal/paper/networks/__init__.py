"""The paper's networks, and two more for comparison. `make_network` builds CIFAR-10 networks as torch modules; `registry` opens any network by name.

The CIFAR-10 networks have the strides, widths, padding and biases of ``keras.applications`` at 32×32 pixels, then
global average pooling and one linear layer. As torch modules they train faster on a CPU than in Keras: they use
channels-last memory and faster convolutions on very small feature maps (`torch_layers`).
``benchmarks/speed/network_training.py`` measures it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from driftcal.errors import UnknownName, need

if TYPE_CHECKING:
    from torch import nn

#: Name -> module and function of the CIFAR-10 networks that driftcal can train; torch is imported on use.
CIFAR10_NETWORKS = {
    "mobilenetv2": "mobilenet_v2:MobileNetV2",
    "densenet121": "densenet:densenet121",
    "resnet50": "resnet:resnet50",
    "vgg19": "vgg:vgg19",
    "vgg19-bn": "vgg:vgg19_bn",
    "plain-cnn": "plain_cnn:plain_cnn",
}

#: Mean and standard deviation of CIFAR-10's training pixels: the preprocessing of all these networks.
CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def make_network(name: str, n_classes: int = 10, *, seed: int = 0) -> nn.Module:
    """A CIFAR-10 network with random initial weights (He et al. 2015), a pure function of `seed`.

    >>> sum(weight.numel() for weight in make_network("mobilenetv2").parameters())
    2236682
    """
    if name not in CIFAR10_NETWORKS:
        raise UnknownName.of("network", name, CIFAR10_NETWORKS)
    torch = need("torch", "torch")
    from driftcal.paper.networks.torch_layers import initialise_weights

    module, function = CIFAR10_NETWORKS[name].split(":")
    network: nn.Module = getattr(import_module(f"driftcal.paper.networks.{module}"), function)(n_classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        initialise_weights(network)
    network.to(memory_format=torch.channels_last)
    return network
