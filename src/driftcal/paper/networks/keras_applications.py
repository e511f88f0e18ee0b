"""The paper's ImageNet networks: ``keras.applications``, each with its input size and preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from driftcal.errors import ModelError, UnknownName
from driftcal.models import Model, open_model
from driftcal.models.keras import import_keras

#: ``preprocess_input`` of the networks as driftcal's preprocessing of images in [0, 1].
CAFFE = {"channels": "BGR", "scale": 255.0, "mean": (103.939, 116.779, 123.68)}
_SYMMETRIC = {"scale": 2.0, "mean": (1.0, 1.0, 1.0)}
_TORCH = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_BYTES = {"scale": 255.0}  # such a network normalises its input itself


@dataclass(frozen=True)
class Application:
    """A function of ``keras.applications``: its module, the side of its images, its preprocessing."""

    function: str
    module: str
    size: int
    preprocessing: Mapping[str, Any] = field(hash=False)


#: Name -> application.
APPLICATIONS = {
    "resnet50": Application("ResNet50", "resnet", 224, CAFFE),
    "resnet152": Application("ResNet152", "resnet", 224, CAFFE),
    "vgg19": Application("VGG19", "vgg19", 224, CAFFE),
    "densenet169": Application("DenseNet169", "densenet", 224, _TORCH),
    "efficientnetb7": Application("EfficientNetB7", "efficientnet", 600, _BYTES),
    "xception": Application("Xception", "xception", 299, _SYMMETRIC),
    "mobilenetv2": Application("MobileNetV2", "mobilenet_v2", 224, _SYMMETRIC),
}


def application(name: str) -> Application:
    """The application with this name."""
    if name not in APPLICATIONS:
        raise UnknownName.of("ImageNet network", name, APPLICATIONS)
    return APPLICATIONS[name]


def open_application(
    name: str, *, weights: Path | Literal["imagenet", "random"] = "imagenet", label: str | None = None
) -> Model:
    """Open a network: images in [0, 1] of any size -> 1,000 logits.

    Keras downloads ImageNet weights that are not in its cache, and verifies their checksum. A path is that of a
    ``.weights.h5`` or ``.h5`` file. ``random`` is for tests.
    """
    settings = application(name)
    make = getattr(import_keras().applications, settings.function)
    if weights == "imagenet":
        network = _download(make, name)
    else:
        network = make(weights=None, classifier_activation=None)
        if isinstance(weights, Path):
            _load(network, name, weights)
    preprocessing = {**settings.preprocessing, "size": (settings.size, settings.size)}
    return open_model(network, preprocessing=preprocessing, name=label or settings.function)


def _download(make: Any, name: str) -> Any:
    try:
        return make(weights="imagenet", classifier_activation=None)
    except Exception as error:  # Keras raises a plain Exception when it cannot download
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"the ImageNet weights of {name} are not in Keras' cache and cannot be downloaded: {reason} Go online once, copy the "
            "file into ~/.keras/models, or give a .weights.h5 file."
        ) from error


def _load(network: Any, name: str, weights: Path) -> None:
    try:
        network.load_weights(weights)
    except Exception as error:  # a missing, foreign or broken file; each raises another exception
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"weights {str(weights)!r} do not fit {name}: {reason}") from error
