"""Networks by name: where their weights lie, what they want done to images, and which images they have never seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftcal.bench.networks import MEAN, NETWORKS, STD, make_network
from driftcal.bench.networks.imagenet import IMAGENET, imagenet_application, open_imagenet
from driftcal.bench.recipe import split_training
from driftcal.errors import ModelError, UnknownName, need
from driftcal.models import FILES, Model, open_model
from driftcal.sources import Source

#: How networks are written in tables.
_LABELS = {
    "mlp": "small network",
    "resnet20": "ResNet-20",
    "resnet44": "ResNet-44",
    "vgg19": "VGG19",
    "resnet50": "ResNet50",
    "resnet152": "ResNet152",
    "densenet121": "DenseNet121",
    "densenet169": "DenseNet169",
    "mobilenetv2": "MobileNetV2",
    "efficientnetb7": "EfficientNetB7",
    "efficientnet-lite0": "EfficientNet-Lite0",
    "xception": "Xception",
}
#: CIFAR-10 ResNets whose published weights saw all training images.
_RESNETS = ("resnet20", "resnet44")
#: Where `driftcal paper train` leaves its weights.
TRAINED = Path("runs/networks")


@dataclass(frozen=True, eq=False)
class Network:
    """`held_out` takes the training images and gives those the network never saw; None where it saw them all.

    `learnt` gives those it learnt from, None where nobody knows. `layers` are where its last stages end, () where that is
    not known either.
    """

    name: str
    model: Model
    held_out: Callable[[Source], Source] | None = None
    size: int = 32
    learnt: Callable[[Source], Source] | None = None
    layers: tuple[str, ...] = ()


def label_of(network: str) -> str:
    """A network's name as people write it.

    >>> label_of("densenet121"), label_of("mine")
    ('DenseNet121', 'mine')
    """
    return _LABELS.get(network, network)


def default_networks(data: str, weights: Path | None) -> list[str]:
    """For CIFAR-10 those whose weights are there; for ImageNet the paper's seven, whose weights Keras fetches."""
    if data == "imagenet":
        return list(IMAGENET)
    found = [name for name in _cifar10_names() if _find(name, weights)]
    if not found:
        raise ModelError(
            f"--networks must name networks for {data}; no weights were found in {weights or TRAINED} either. Train one with "
            "driftcal paper train NETWORK, or say --networks NAME=FILE."
        )
    return found


def cifar10_network(wish: str, weights: Path | None) -> Network:
    """``resnet20``, ``vgg19``, …, or ``NAME=FILE`` with weights (.safetensors) or a whole model (.onnx, .pt2, …)."""
    name, _, file = wish.partition("=")
    if file and Path(file).suffix in FILES:
        return Network(name, open_model(file, name=name))
    if name not in _cifar10_names():
        raise UnknownName.of("CIFAR-10 network", name, _cifar10_names())
    place = Path(file) if file else _find(name, weights)
    if place is None:
        raise ModelError(
            f"there are no weights of {name} in {weights or TRAINED}. Say --weights DIR with {name}.safetensors in it, "
            f"--networks {name}=FILE.safetensors, or train it: driftcal paper train {name}."
        )
    return _saw_all(name, place) if name in _RESNETS else _trained(name, place)


def _saw_all(name: str, weights: Path) -> Network:
    need("torch", "torch")
    from driftcal.bench import resnets

    module = getattr(resnets, name)()
    model, layers = _opened(name, module, weights, {"mean": resnets.MEAN, "std": resnets.STD})
    return Network(name, model, learnt=lambda images: images, layers=layers)


def _trained(name: str, weights: Path) -> Network:
    """What `driftcal paper train` wrote: its card says with which seed images were held out."""
    card = weights.with_name("card.json")
    seed = int(json.loads(card.read_text())["seed"]) if card.is_file() else 0
    model, layers = _opened(name, make_network(name), weights, {"mean": MEAN, "std": STD})
    return Network(
        name, model, held_out=lambda images: split_training(images, seed=seed)[1],
        learnt=lambda images: split_training(images, seed=seed)[0], layers=layers,
    )  # fmt: skip


def _opened(name: str, module: Any, weights: Path, steps: dict[str, Any]) -> tuple[Model, tuple[str, ...]]:
    from driftcal.bench.through_onnx import open_module, stage_layers
    from driftcal.models.pytorch import load_weights

    shape = (3, 32, 32)
    load_weights(module, weights)
    model = open_module(module, shape, preprocessing=steps, name=label_of(name))
    return model, stage_layers(module, model, shape)


def imagenet_network(wish: str, weights: Path | None) -> Network:
    """A network of ``keras.applications`` by its name; ``NAME=FILE`` with its weights (.h5) or a whole model for 224 pixels."""
    name, _, file = wish.partition("=")
    if file and Path(file).suffix in FILES:
        return Network(name, open_model(file, name=name), size=224)
    application = imagenet_application(name)
    own = Path(file) if file else _own_weights(name, weights)
    return Network(name, open_imagenet(name, weights=own or "imagenet", label=label_of(name)), size=application.size)


def _own_weights(name: str, weights: Path | None) -> Path | None:
    if weights is None:
        return None
    return next((file for file in (weights / f"{name}.weights.h5", weights / f"{name}.h5") if file.is_file()), None)


def _cifar10_names() -> list[str]:
    return [*_RESNETS, *NETWORKS]


def _find(name: str, weights: Path | None) -> Path | None:
    home = weights or TRAINED
    places = (home / f"{name}.safetensors", home / f"cifar10_{name}.safetensors", home / name / "weights.safetensors")
    return next((place for place in places if place.is_file()), None)
