"""An ONNX model with MobileNetV2's layers and random weights: latency does not depend on their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

CLASSES, FEATURES = 1_000, 1_280
#: Expansion, channels, repeats and stride of the stages (Sandler et al. 2018, table 2).
BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


class Net:
    """A graph of convolutions with batch normalisation folded in, as in an exported MobileNetV2."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights = [numpy_helper.from_array(np.float32(bound), name) for name, bound in (("zero", 0), ("six", 6))]

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        std = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        self.weights.append(numpy_helper.from_array(self.rng.normal(0, std, shape).astype(np.float32), name))
        return name

    def conv(self, x: str, into: int, out: int, size: int, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        pad = [size // 2] * 4
        kernel = self.weight(out, into // groups, size, size)
        x = self.node("Conv", x, kernel, self.weight(out), pads=pad, strides=[stride] * 2, group=groups)
        return self.node("Clip", x, "zero", "six") if relu else x


def mobilenet(path: Path) -> dict[str, int]:
    """Write MobileNetV2 for 224-pixel images, 3.5 million weights; returns the widths of its stages' ends and of the last features."""
    net, ends = Net(), {}
    x, width = net.conv("x", 3, 32, 3, 2), 32
    for expansion, channels, repeats, first in BLOCKS:
        for stride in [first] + [1] * (repeats - 1):
            inner = width * expansion
            y = net.conv(x, width, inner, 1) if expansion > 1 else x
            y = net.conv(y, inner, inner, 3, stride, groups=inner)
            y = net.conv(y, inner, channels, 1, relu=False)
            x = net.node("Add", x, y) if stride == 1 and width == channels else y
            width = channels
        ends[x] = width
    x = net.node("Flatten", net.node("GlobalAveragePool", net.conv(x, width, FEATURES, 1)))
    net.nodes.append(helper.make_node("Gemm", [x, net.weight(FEATURES, CLASSES), net.weight(CLASSES)], ["logits"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        net.nodes,
        "mobilenet_v2",
        [info("x", TensorProto.FLOAT, ["n", 3, 224, 224])],
        [info("logits", TensorProto.FLOAT, ["n", CLASSES])],
        net.weights,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return {**ends, x: FEATURES}
