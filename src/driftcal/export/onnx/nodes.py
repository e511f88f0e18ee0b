"""The nodes and constants of the ONNX graphs of calibrators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.errors import need
from driftcal.types import Array

#: The types of TensorProto.
FLOAT, INT32, INT64, BOOL, FLOAT16, DOUBLE = 1, 6, 7, 9, 10, 11


class Nodes:
    """Nodes and constants of a graph that is being built, for one `opset`; every name starts with `prefix`.

    All operators but those of `reduce` have the same form since opset 13, so the nodes also fit at the end of an older
    model.
    """

    def __init__(self, prefix: str, opset: int) -> None:
        self._onnx: Any = need("onnx", "onnx")
        self._prefix = prefix
        self._opset = opset
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def __call__(self, operator: str, *inputs: str | Array, name: str | None = None, **attributes: Any) -> str:
        """Add a node with one output and return the output's name; arrays among the inputs become constants."""
        return self.several(operator, 1, *inputs, name=name, **attributes)[0]

    def several(
        self, operator: str, n_outputs: int, *inputs: str | Array, name: str | None = None, **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs and return their names."""
        first = name or f"{self._prefix}{operator}_{len(self.nodes)}"
        outputs = [first, *(f"{first}_output_{i}" for i in range(1, n_outputs))]
        names = [self._constant(value) if isinstance(value, np.ndarray) else value for value in inputs]
        self.nodes.append(self._onnx.helper.make_node(operator, names, outputs, name=f"{first}_node", **attributes))
        return outputs

    def reduce(
        self, operator: str, values: str, *, axes: Sequence[int] = (1,), keepdims: int = 1, name: str | None = None
    ) -> str:
        """Add a reduction other than ReduceSum; its axes are an attribute before opset 18 and an input since then."""
        if self._opset < 18:
            return self(operator, values, axes=list(axes), keepdims=keepdims, name=name)
        return self(operator, values, np.array(axes), keepdims=keepdims, name=name)

    def _constant(self, value: Array) -> str:
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            name = f"{self._prefix}constant_{len(self._constants)}"
            self._constants[key] = name
            self.initializers.append(self._onnx.numpy_helper.from_array(np.asarray(value, order="C"), name))
        return self._constants[key]


def number(value: float) -> Array:
    """A float64 constant."""
    return np.array(value, np.float64)


def sum_over_classes(nodes: Nodes, values: str) -> str:
    """The sum of each sample of (n, C) values, as (n, 1)."""
    return nodes("ReduceSum", values, np.array([1]), keepdims=1)


def is_masked(nodes: Nodes, z: str) -> str:
    """Which classes are masked, (n, C). NaN is not masked, so that a sample with NaN stays NaN."""
    return nodes("Equal", z, number(-np.inf))


def affine(nodes: Nodes, x: str, weights: Array, constants: Array | float) -> str:
    """x·weights + constants."""
    return nodes("Gemm", x, weights, np.atleast_1d(np.asarray(constants, np.float64)))
