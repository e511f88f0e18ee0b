"""The paper's ImageNet networks: ``keras.applications`` with their own input size and preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from driftcal.errors import ModelError, UnknownName
from driftcal.models import Model, open_model
from driftcal.models.keras3 import import_keras

#: What the networks' own ``preprocess_input`` does, said in driftcal's steps on images in [0, 1].
_CAFFE = {"channels": "BGR", "scale": 255.0, "mean": (103.939, 116.779, 123.68)}
_SYMMETRIC = {"scale": 2.0, "mean": (1.0, 1.0, 1.0)}
_TORCH = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
_BYTES = {"scale": 255.0}  # the network rescales and normalises inside


@dataclass(frozen=True)
class Application:
    """A function of ``keras.applications``, its module there, the side of its images and what it wants done to them."""

    function: str
    module: str
    size: int
    steps: Mapping[str, Any] = field(hash=False)


#: name -> application
IMAGENET = {
    "resnet50": Application("ResNet50", "resnet", 224, _CAFFE),
    "resnet152": Application("ResNet152", "resnet", 224, _CAFFE),
    "vgg19": Application("VGG19", "vgg19", 224, _CAFFE),
    "densenet169": Application("DenseNet169", "densenet", 224, _TORCH),
    "efficientnetb7": Application("EfficientNetB7", "efficientnet", 600, _BYTES),
    "xception": Application("Xception", "xception", 299, _SYMMETRIC),
    "mobilenetv2": Application("MobileNetV2", "mobilenet_v2", 224, _SYMMETRIC),
}


def imagenet_application(name: str) -> Application:
    """The application of this name."""
    if name not in IMAGENET:
        raise UnknownName.of("ImageNet network", name, IMAGENET)
    return IMAGENET[name]


def open_imagenet(
    name: str, *, weights: Path | Literal["imagenet", "random"] = "imagenet", label: str | None = None
) -> Model:
    """Open a network: images in [0, 1] of any size -> 1,000 logits.

    Keras fetches the ImageNet weights when they are not in its cache; a path names a ``.weights.h5`` or ``.h5`` file
    of your own; ``random`` is for tests.
    """
    application = imagenet_application(name)
    keras = import_keras()
    make = getattr(keras.applications, application.function)
    if isinstance(weights, Path):
        network = make(weights=None, classifier_activation=None)
        _load(network, name, weights)
    elif weights == "random":
        network = make(weights=None, classifier_activation=None)
    else:
        network = _fetch(make, name)
    steps = {**application.steps, "size": (application.size, application.size)}
    return open_model(network, preprocessing=steps, name=label or application.function)


def _fetch(make: Any, name: str) -> Any:
    try:
        return make(weights="imagenet", classifier_activation=None)
    except Exception as error:  # Keras raises a plain Exception when it cannot download
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"the ImageNet weights of {name} are not in Keras' cache and cannot be fetched: {reason} Go online once, copy the "
            "file into ~/.keras/models, or give weights of your own as a .weights.h5 file."
        ) from error


def _load(network: Any, name: str, weights: Path) -> None:
    try:
        network.load_weights(weights)
    except Exception as error:  # a missing, foreign or broken file, each with an exception of its own
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"weights {str(weights)!r} do not fit {name}: {reason}") from error
