"""What ONNX graphs of calibrators are built with: nodes and constants, row sums, tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.errors import need
from driftcal.export.lookup import Buckets, Search
from driftcal.export.maps import Table
from driftcal.types import Array

_INT32 = 6  # TensorProto.INT32


class Nodes:
    """Nodes and constants of a graph that grows, in the words of `opset`; every name starts with `prefix`."""

    def __init__(self, prefix: str, opset: int) -> None:
        self._onnx: Any = need("onnx", "onnx")
        self._prefix = prefix
        self._opset = opset
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def __call__(
        self, operator: str, *inputs: str | Array, name: str | None = None, spare: int = 0, **attributes: Any
    ) -> str:
        """Add a node; arrays among its inputs become constants. Returns the name of its first output; `spare` more are not used."""
        output = name or f"{self._prefix}{operator}_{len(self.nodes)}"
        names = [self._constant(value) if isinstance(value, np.ndarray) else value for value in inputs]
        outputs = [output, *(f"{output}_spare_{i}" for i in range(spare))]
        node = self._onnx.helper.make_node(operator, names, outputs, name=f"{output}_node", **attributes)
        self.nodes.append(node)
        return output

    def second(self, operator: str, *inputs: str | Array, **attributes: Any) -> str:
        """Add a node of whose two outputs the second is wanted."""
        return f"{self(operator, *inputs, spare=1, **attributes)}_spare_0"

    def reduce(
        self, operator: str, values: str, *, axes: Sequence[int] = (1,), keepdims: int = 1, name: str | None = None
    ) -> str:
        """Add a reduction, of each row, other than ReduceSum: opset 18 turned their axes from an attribute to an input."""
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


AXIS = np.array([1])


def number(value: float) -> Array:
    """A constant."""
    return np.array(value, np.float64)


def row_sum(nodes: Nodes, values: str) -> str:
    """The sum of each row, as a column."""
    return nodes("ReduceSum", values, AXIS, keepdims=1)


def log1p(nodes: Nodes, x: str) -> str:
    """log(1 + x) for x from 0 to some thousands: what rounding takes from 1 + x is added again."""
    more = nodes("Add", x, number(1))
    lost = nodes("Sub", x, nodes("Sub", more, number(1)))
    return nodes("Add", nodes("Log", more), lost)


def look_up(nodes: Nodes, table: Table, p: str, floor: float = 0.0, *, buckets: bool = True) -> str:
    """Values of the table: the search in as many steps as its length has binary digits, no loop.

    `buckets` may shorten it, for scores from 0 to 1.
    """
    at = _locate(nodes, table.search, p, Buckets.of(table.search) if buckets else None)
    values = nodes("Gather", np.maximum(table.value, floor), at)
    if table.line is None:  # a bin's value says nothing about its score; that of a row without a softmax must stay NaN
        return nodes("Add", values, nodes("Mul", p, number(0)))
    left, slope = (nodes("Gather", part, at) for part in table.line)
    return nodes("Add", values, nodes("Mul", nodes("Sub", p, left), slope))


#: Among so few numbers, comparing with all of them takes less time than a search's many small operators.
_FEW = 16


def _locate(nodes: Nodes, search: Search, p: str, buckets: Buckets | None) -> str:
    few = int(search.length[0])
    if few <= _FEW and (search.length == few).all():
        less = nodes("Cast", nodes("Less", search.sorted.reshape(-1, 1, few).T, p), to=_INT32)  # (few, n, classes)
        count = nodes("ReduceSum", less, np.array([0]), keepdims=0)
        return nodes("Add", count, np.arange(len(search.length), dtype=np.int32) * np.int32(few + 1))
    numbers, above, below = search.sorted, search.above, search.below
    if buckets is None:
        start = search.start.astype(np.int32)
        # where the first probe lies is known: no gathering
        less = nodes("Less", numbers[search.start], p)
        at = nodes("Where", less, *(start + step for step in (_narrow(above[0]), _narrow(below[0]))))
        above, below = above[1:], below[1:]
    else:
        root = nodes("Sqrt", nodes("Sqrt", p))
        bucket = nodes("Cast", nodes("Mul", root, number(buckets.scale)), to=_INT32)
        # NaN may be any whole number, and a place outside the table would fail all rows of the batch
        bucket = nodes("Clip", bucket, *(np.array(end, np.int32) for end in (0, len(buckets.start) - 1)))
        at = nodes("Gather", buckets.start.astype(np.int32), bucket)
        numbers, above, below = buckets.sorted, buckets.above, buckets.below
    for up, down in zip(above, below, strict=True):
        less = nodes("Less", nodes("Gather", numbers, at), p)
        at = nodes("Add", at, nodes("Where", less, _narrow(up), _narrow(down)))
    return at


def _narrow(step: Array) -> Array:
    """A step as one number where it is the same for all classes."""
    return step[:1].astype(np.int32) if (step == step[0]).all() else step.astype(np.int32)
