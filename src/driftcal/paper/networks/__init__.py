"""The paper's CIFAR-10 networks as torch modules, in the shapes that ``keras.applications`` gives them at 32×32.

Plain modules rather than Keras': in torch's channels-last layout, and with short cuts where deep layers see one or four
pixels (`layers`), they train faster on a processor; ``benchmarks/speed/networks.py`` measures both. Strides, widths, padding and biases are those of Keras, so a picture of 32×32 ends in a single position;
the head is the mean over positions and one linear layer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from driftcal.errors import UnknownName, need

if TYPE_CHECKING:
    from torch import nn

#: name -> where it is made; torch is imported when one of them is
NETWORKS = {
    "mobilenetv2": "mobilenet_v2:MobileNetV2",
    "densenet121": "densenet:densenet121",
    "resnet50": "resnet:resnet50",
    "vgg19": "vgg:VGG19",
}

#: Mean and standard deviation of CIFAR-10's training pixels: what all of them want subtracted and divided by.
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def make_network(name: str, classes: int = 10, *, seed: int = 0) -> nn.Module:
    """A network with fresh weights drawn from `seed`, ready to train: He et al. 2015.

    >>> sum(weight.numel() for weight in make_network("mobilenetv2").parameters())
    2236682
    """
    if name not in NETWORKS:
        raise UnknownName.of("network", name, NETWORKS)
    torch = need("torch", "torch")
    from driftcal.bench.networks.layers import start_weights

    module, factory = NETWORKS[name].split(":")
    network: nn.Module = getattr(import_module(f"driftcal.bench.networks.{module}"), factory)(classes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start_weights(network)
    network.to(memory_format=torch.channels_last)
    return network
