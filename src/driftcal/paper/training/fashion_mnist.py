"""Trains the demo's network on Fashion-MNIST, and writes it as ONNX with 2,000 images that it was not trained on.

``python -m driftcal.paper.training.fashion_mnist FOLDER OUTPUT``: FOLDER holds the four files of the data set
(Debian's package ``dataset-fashion-mnist`` brings them), OUTPUT gets the network and the images.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.errors import DataError, need
from driftcal.io.atomic import write_atomic
from driftcal.paper.training.training_data import batch_of_step
from driftcal.paper.training.training_settings import TrainingSettings
from driftcal.types import Array

if TYPE_CHECKING:
    from torch import nn

CLASS_NAMES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
#: Files that are written.
NETWORK, IMAGES = "fashion-mnist.onnx", "fashion-mnist.npz"
#: Images that are bundled: for validation and for testing. The network is trained on none of them.
N_BUNDLED = 2000
SETTINGS = TrainingSettings(peak_learning_rate=0.08, weight_decay=1e-4)
#: Mean and standard deviation of the training pixels.
_MEAN, _STD = 0.286, 0.353


def read_idx(path: Path) -> Array:
    """The array of a ``.gz`` file in the IDX format of MNIST: a magic number, the shape, then bytes."""
    with gzip.open(path) as file:
        content = file.read()
    n_axes = content[3] if content[:3] == b"\x00\x00\x08" else 0
    shape = struct.unpack(f">{n_axes}I", content[4 : 4 + 4 * n_axes])
    if not n_axes or len(content) != 4 + 4 * n_axes + int(np.prod(shape)):
        raise DataError(
            f"{path} must hold bytes in the IDX format of MNIST; it does not. Install dataset-fashion-mnist."
        )
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape)


def make_fashion_network(seed: int = 0) -> nn.Module:
    """A small convolutional network for grey images of 28×28 pixels: 4 million multiplications for each."""
    torch = need("torch", "torch")
    nn = torch.nn
    torch.manual_seed(seed)

    def convolution(n_in: int, n_out: int, size: int, stride: int = 1) -> list[Any]:
        layer = nn.Conv2d(n_in, n_out, size, stride, padding=size // 2, bias=False)
        return [layer, nn.BatchNorm2d(n_out), nn.ReLU()]

    layers = [
        *convolution(1, 24, 5, stride=2), *convolution(24, 32, 3), nn.MaxPool2d(2),
        *convolution(32, 64, 3), *convolution(64, 64, 3), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 3 * 3, 64), nn.ReLU(), nn.Linear(64, len(CLASS_NAMES)),
    ]  # fmt: skip
    return nn.Sequential(*layers)


def train_fashion_network(images: Array, labels: Array, *, n_epochs: int = 8, seed: int = 0) -> nn.Module:
    """Train on uint8 images (n, 28, 28) without augmentation; the same seed gives the same weights on one thread."""
    torch = need("torch", "torch")
    network = make_fashion_network(seed)
    optimiser = torch.optim.SGD(
        network.parameters(), lr=0.1, momentum=SETTINGS.momentum, weight_decay=SETTINGS.weight_decay, nesterov=True
    )
    n_steps = n_epochs * (len(labels) // SETTINGS.batch_size)
    network.train()
    for step in range(n_steps):
        batch = batch_of_step(seed, step, len(labels), SETTINGS.batch_size)
        for group in optimiser.param_groups:
            group["lr"] = SETTINGS.learning_rate(step, n_steps)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            network(torch.from_numpy(_normalised(images[batch]))), torch.from_numpy(labels[batch].astype(np.int64))
        )
        loss.backward()
        optimiser.step()
        if step % 100 == 0:
            print(f"step {step} of {n_steps}, loss {float(loss.detach()):.3f}", flush=True)
    return network.eval()


def _normalised(images: Array) -> Array:
    return ((images[:, None] / np.float32(255)) - np.float32(_MEAN)) / np.float32(_STD)


def to_onnx(network: nn.Module) -> bytes:
    """The network as an ONNX graph for images (n, 1, 28, 28) in [0, 1]. Weights are stored as float16.

    Batch normalisation is multiplied into the convolutions. The first nodes normalise the pixels.
    """
    onnx = need("onnx", "onnx")
    helper, numpy_helper, float32 = onnx.helper, onnx.numpy_helper, onnx.TensorProto.FLOAT
    constants = {"mean": np.float32(_MEAN).reshape(1), "std": np.float32(_STD).reshape(1)}
    nodes = [
        helper.make_node("Sub", ["images", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["0"]),
    ]
    value = "0"
    modules = list(network)
    for k, module in enumerate(modules):
        kind, name = type(module).__name__, str(k + 1)
        attributes: dict[str, Any] = {}
        inputs = [value]
        if kind == "BatchNorm2d":
            continue
        if kind == "Conv2d":
            weights, bias = _folded(module, modules[k + 1])
            pads = [module.padding[0]] * 4
            attributes = {"kernel_shape": list(module.kernel_size), "strides": list(module.stride), "pads": pads}
        elif kind == "Linear":
            weights, bias = module.weight.detach().numpy(), module.bias.detach().numpy()
            attributes = {"transB": 1}
        elif kind == "MaxPool2d":
            attributes = {"kernel_shape": [2, 2], "strides": [2, 2]}
        if kind in ("Conv2d", "Linear"):
            for part, array in (("weight", weights), ("bias", bias)):
                constants[f"{part}_{name}_16"] = array.astype(np.float16)
                nodes.append(helper.make_node("Cast", [f"{part}_{name}_16"], [f"{part}_{name}"], to=float32))
            inputs += [f"weight_{name}", f"bias_{name}"]
        operator = {"Conv2d": "Conv", "Linear": "Gemm", "ReLU": "Relu", "MaxPool2d": "MaxPool", "Flatten": "Flatten"}[
            kind
        ]
        value = "logits" if k == len(modules) - 1 else name
        nodes.append(helper.make_node(operator, inputs, [value], **attributes))
    graph = helper.make_graph(
        nodes,
        "fashion-mnist",
        [helper.make_tensor_value_info("images", float32, ["n", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", float32, ["n", len(CLASS_NAMES)])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="driftcal"
    )
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _folded(convolution: Any, normalisation: Any) -> tuple[Array, Array]:
    """Weights and bias of a convolution with the batch normalisation behind it."""
    mean, variance = normalisation.running_mean.numpy(), normalisation.running_var.numpy()
    scale = normalisation.weight.detach().numpy() / np.sqrt(variance + normalisation.eps)
    weights = convolution.weight.detach().numpy() * scale[:, None, None, None]
    return weights, normalisation.bias.detach().numpy() - mean * scale


def main() -> None:
    """Train, test on all 10,000 test images, and write both files with their checksums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    torch, onnxruntime = need("torch", "torch"), need("onnxruntime", "onnx")
    torch.set_num_threads(1)
    data = {
        part: (
            read_idx(arguments.folder / f"{part}-images-idx3-ubyte.gz"),
            read_idx(arguments.folder / f"{part}-labels-idx1-ubyte.gz"),
        )
        for part in ("train", "t10k")
    }
    content = to_onnx(train_fashion_network(*data["train"], n_epochs=arguments.epochs))
    images, labels = data["t10k"]
    session = onnxruntime.InferenceSession(content)
    logits = session.run(None, {"images": images[:, None].astype(np.float32) / np.float32(255)})[0]
    bundled = slice(0, N_BUNDLED)
    print(f"accuracy on {len(labels)} test images {(logits.argmax(1) == labels).mean():.4f}", end=", ")
    print(f"on the {N_BUNDLED} that are bundled {(logits.argmax(1) == labels)[bundled].mean():.4f}")
    write_atomic(arguments.output / NETWORK, content)
    archive = io.BytesIO()
    np.savez_compressed(archive, x=images[bundled], y=labels[bundled], class_names=np.array(CLASS_NAMES))
    write_atomic(arguments.output / IMAGES, archive.getvalue())
    for name in (NETWORK, IMAGES):
        path = arguments.output / name
        print(hashlib.sha256(path.read_bytes()).hexdigest(), name, f"{path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
