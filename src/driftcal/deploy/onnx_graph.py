"""Calibrators as ONNX graphs of standard operators: the calibration itself, in float64.

All operators have kept their form since opset 13, so the nodes also fit at the end of an older model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.deploy.recipe import Buckets, Recipe, Search, Table
from driftcal.errors import need
from driftcal.numerics import MASKED
from driftcal.types import Array

#: What a calibrated model answers beside its own outputs.
OUTPUTS = ("probabilities", "label", "confidence")


#: Values to be normalised are not let below this. It adds nothing to a row that has mass, and a row without any needs no
#: special case: five operators less.
FLOOR = 1e-300


class Nodes:
    """Nodes and constants of a graph that grows; every name starts with `prefix`."""

    def __init__(self, prefix: str) -> None:
        self._onnx: Any = need("onnx", "onnx")
        self._prefix = prefix
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def __call__(self, operator: str, *inputs: str | Array, name: str | None = None, **attributes: Any) -> str:
        """Add a node; arrays among its inputs become constants. Returns the name of its output."""
        output = name or f"{self._prefix}{operator}_{len(self.nodes)}"
        names = [self._constant(value) if isinstance(value, np.ndarray) else value for value in inputs]
        node = self._onnx.helper.make_node(operator, names, [output], name=f"{output}_node", **attributes)
        self.nodes.append(node)
        return output

    def _constant(self, value: Array) -> str:
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            name = f"{self._prefix}constant_{len(self._constants)}"
            self._constants[key] = name
            self.initializers.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return self._constants[key]


def add_calibration(nodes: Nodes, recipe: Recipe, logits: str, outputs: tuple[str, str, str] = OUTPUTS) -> None:
    """Add the nodes from float64 (n, classes) `logits` to probabilities, label and confidence, named by `outputs`."""
    scores = _scores(nodes, recipe, logits, outputs[0] if recipe.finish == "nothing" else None)
    if recipe.table is not None:
        floor = FLOOR if recipe.finish == "normalise" else 0.0
        scores = _look_up(nodes, recipe.table, scores, recipe.strict, floor)
    probabilities = _finish(nodes, recipe, logits, scores, outputs[0])
    best = nodes("ArgMax", logits if recipe.keeps_accuracy else probabilities, axis=1, keepdims=1)
    nodes("Squeeze", best, _AXIS, name=outputs[1])
    nodes("Squeeze", nodes("GatherElements", probabilities, best, axis=1), _AXIS, name=outputs[2])


_AXIS = np.array([1])
_INT32, _DOUBLE = 6, 11  # TensorProto.INT32, DOUBLE


def _number(value: float) -> Array:
    return np.array(value, np.float64)


def _sum(nodes: Nodes, values: str) -> str:
    return nodes("ReduceSum", values, _AXIS, keepdims=1)


def _scores(nodes: Nodes, recipe: Recipe, z: str, name: str | None) -> str:
    """The scores; `name` is theirs where they are the probabilities already."""
    if recipe.platt is not None:
        return _sigmoid(nodes, _log_odds(nodes, z), *recipe.platt)
    scaled = nodes("Mul", z, _number(recipe.scale)) if recipe.scale != 1 else z
    scaled = nodes("Softmax", scaled, axis=1, name=name)
    if recipe.blend is None:
        return scaled
    first, second, doubt = recipe.blend
    own = nodes("Mul", nodes("Softmax", z, axis=1), _number(second))
    blended = nodes("Add", nodes("Mul", scaled, _number(first)), own)
    return nodes("Add", blended, nodes("Div", _number(doubt), _sum(nodes, nodes("Cast", _open(nodes, z), to=_DOUBLE))))


def _open(nodes: Nodes, z: str) -> str:
    """Which classes are not masked."""
    return nodes("Greater", z, _number(-np.inf))


def _log_odds(nodes: Nodes, z: str) -> str:
    """z_c − log Σ_{k≠c} exp(z_k), at most −MASKED, without cancellation; anything for masked classes."""
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    others = nodes("ScatterElements", z, best, nodes("Add", top, _number(-np.inf)), axis=1)
    runner_up = nodes("GatherElements", others, nodes("ArgMax", others, axis=1, keepdims=1), axis=1)
    # finite also where all others are masked: their sum is then 0 and the top's log-odds are capped
    second = nodes("Max", runner_up, _number(MASKED))
    powers = nodes("Exp", nodes("Sub", others, second))
    total = _sum(nodes, powers)
    gap = nodes("Sub", second, top)
    odds_of_top = nodes("Min", nodes("Neg", nodes("Add", gap, nodes("Log", total))), _number(-MASKED))
    share = nodes("Exp", gap)
    most = nodes("Add", nodes("Mul", share, total), _number(1))
    rest = nodes("Sub", most, nodes("Mul", powers, share))
    below = nodes("Sub", nodes("Sub", z, top), nodes("Log", rest))
    return nodes("ScatterElements", below, best, odds_of_top, axis=1)


def _sigmoid(nodes: Nodes, x: str, slopes: Array, intercepts: Array) -> str:
    """e^m / (1 + e^m): the lower tail keeps its digits down to FLOOR, unlike in the operator Sigmoid."""
    m = nodes("Add", nodes("Mul", x, slopes), intercepts)
    e = nodes("Exp", nodes("Clip", m, _number(np.log(FLOOR)), _number(-np.log(FLOOR))))
    return nodes("Div", e, nodes("Add", e, _number(1)))


def _look_up(nodes: Nodes, table: Table, p: str, strict: float, floor: float) -> str:
    """Values of the table: the search in as many steps as its length has binary digits, no loop."""
    at = _locate(nodes, table.search, p)
    values = nodes("Gather", np.maximum(table.value, floor), at)
    if table.line is None:
        return values
    left, width, rise = (nodes("Gather", part, at) for part in table.line)
    share = nodes("Div", nodes("Sub", p, left), width)
    values = nodes("Add", values, nodes("Mul", share, rise))
    return nodes("Add", values, nodes("Mul", p, _number(strict))) if strict else values


def _locate(nodes: Nodes, search: Search, p: str) -> str:
    numbers, above, below = search.sorted, search.above, search.below
    buckets = Buckets.of(search)
    if buckets is None:
        start = search.start.astype(np.int32)
        # where the first probe lies is known: no gathering
        less = nodes("Less", numbers[search.start], p)
        at = nodes("Where", less, *(start + step for step in (_narrow(above[0]), _narrow(below[0]))))
        above, below = above[1:], below[1:]
    else:
        root = nodes("Sqrt", nodes("Sqrt", p))
        number = nodes("Cast", nodes("Mul", root, _number(buckets.scale)), to=_INT32)
        at = nodes("Gather", buckets.start.astype(np.int32), number)
        numbers, above, below = buckets.sorted, buckets.above, buckets.below
    for up, down in zip(above, below, strict=True):
        less = nodes("Less", nodes("Gather", numbers, at), p)
        at = nodes("Add", at, nodes("Where", less, _narrow(up), _narrow(down)))
    return at


def _narrow(step: Array) -> Array:
    """A step as one number where it is the same for all classes."""
    return step[:1].astype(np.int32) if (step == step[0]).all() else step.astype(np.int32)


def _finish(nodes: Nodes, recipe: Recipe, z: str, values: str, name: str) -> str:
    """Masked classes get 0 and rows sum to 1; a row of FLOORs, which has no mass, becomes uniform by itself."""
    if recipe.finish == "nothing":
        return values
    is_open = _open(nodes, z)
    if recipe.finish == "mask":
        return nodes("Where", is_open, values, _number(0), name=name)
    values = nodes("Where", is_open, values, _number(0))
    return nodes("Div", values, _sum(nodes, values), name=name)
