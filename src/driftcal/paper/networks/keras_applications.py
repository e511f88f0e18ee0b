"""The paper's ImageNet networks: ``keras.applications``, each with its input size and preprocessing."""

from __future__ import annotations

import hashlib
import os
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
    """A function of ``keras.applications``: its module, the side of its images, its preprocessing, its weights file.

    `md5` is the checksum of the file that Keras publishes; "" if it publishes none.
    """

    function: str
    module: str
    size: int
    preprocessing: Mapping[str, Any] = field(hash=False)
    file: str
    md5: str = ""


_KERNELS = "{}_weights_tf_dim_ordering_tf_kernels.h5"
#: Name -> application.
APPLICATIONS = {
    "resnet50": Application(
        "ResNet50", "resnet", 224, CAFFE, _KERNELS.format("resnet50"), "2cb95161c43110f7111970584f804107"
    ),
    "resnet152": Application(
        "ResNet152", "resnet", 224, CAFFE, _KERNELS.format("resnet152"), "100835be76be38e30d865e96f2aaae62"
    ),
    "vgg19": Application("VGG19", "vgg19", 224, CAFFE, _KERNELS.format("vgg19"), "cbe5617147190e668d6c5d5026f83318"),
    "densenet169": Application(
        "DenseNet169", "densenet", 224, _TORCH, _KERNELS.format("densenet169"), "d699b8f76981ab1b30698df4c175e90b"
    ),
    "efficientnetb7": Application(
        "EfficientNetB7", "efficientnet", 600, _BYTES, "efficientnetb7.h5", "8c03f828fec3ef71311cd463b6759d99"
    ),
    "xception": Application(
        "Xception", "xception", 299, _SYMMETRIC, _KERNELS.format("xception"), "0a58e3b7378bc2990ea3b43d5981f1f6"
    ),
    "mobilenetv2": Application(
        "MobileNetV2", "mobilenet_v2", 224, _SYMMETRIC, "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224.h5"
    ),
}


def application(name: str) -> Application:
    """The application with this name."""
    if name not in APPLICATIONS:
        raise UnknownName.of("ImageNet network", name, APPLICATIONS)
    return APPLICATIONS[name]


def has_downloaded_weights(name: str) -> bool:
    """Whether the ImageNet weights of a network are in Keras' cache."""
    keras_home = Path(os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
    return (keras_home / "models" / application(name).file).is_file()


def open_application(
    name: str,
    *,
    weights: Path | Literal["imagenet", "random"] = "imagenet",
    label: str | None = None,
    batch_size: int | None = None,
) -> Model:
    """Open a network: images in [0, 1] of any size -> 1,000 logits.

    Keras downloads ImageNet weights that are not in its cache, and verifies their checksum. A path is that of a
    ``.weights.h5`` or ``.h5`` file; the checksum of a file with the name that Keras publishes is verified. ``random`` is
    for tests.
    """
    settings = application(name)
    if isinstance(weights, Path):
        _check_published(settings, weights)
    make = getattr(import_keras().applications, settings.function)
    if weights == "imagenet":
        network = _download(make, name)
    else:
        network = make(weights=None, classifier_activation=None)
        if isinstance(weights, Path):
            _load(network, name, weights)
    preprocessing = {**settings.preprocessing, "size": (settings.size, settings.size)}
    return open_model(network, preprocessing=preprocessing, name=label or settings.function, batch_size=batch_size)


def _download(make: Any, name: str) -> Any:
    try:
        return make(weights="imagenet", classifier_activation=None)
    except Exception as error:  # Keras raises a plain Exception when it cannot download
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"the ImageNet weights of {name} are not in Keras' cache and cannot be downloaded: {reason} Go online once, copy the "
            "file into ~/.keras/models, or give a .weights.h5 file."
        ) from error


def _check_published(settings: Application, weights: Path) -> None:
    """Refuse a file with a published name and other bytes, such as a download that was cut."""
    if weights.name != settings.file or not settings.md5 or not weights.is_file():
        return
    digest = hashlib.md5(usedforsecurity=False)
    with weights.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != settings.md5:
        raise ModelError(
            f"weights {str(weights)!r} must have the MD5 {settings.md5} of Keras' published file; they have "
            f"{digest.hexdigest()}. Download the file again, or give your own weights another name."
        )


def _load(network: Any, name: str, weights: Path) -> None:
    try:
        network.load_weights(weights)
    except Exception as error:  # a missing, foreign or broken file; each raises another exception
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"weights {str(weights)!r} do not fit {name}: {reason}") from error
