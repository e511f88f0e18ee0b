"""Calibrators as ONNX graphs of standard operators: the calibration itself, in float64.

All operators have kept their form since opset 13, so the nodes also fit at the end of an older model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.deploy.recipe import Recipe, Table
from driftcal.errors import need
from driftcal.numerics import MASKED
from driftcal.types import Array

#: What a calibrated model answers beside its own outputs.
OUTPUTS = ("probabilities", "label", "confidence")


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
    scores = _scores(nodes, recipe, logits)
    if recipe.table is not None:
        scores = _look_up(nodes, recipe.table, scores, recipe.strict)
    probabilities = _finish(nodes, recipe, logits, scores, outputs[0])
    best = nodes("ArgMax", logits if recipe.keeps_accuracy else probabilities, axis=1, keepdims=1)
    nodes("Squeeze", best, _AXIS, name=outputs[1])
    nodes("Squeeze", nodes("GatherElements", probabilities, best, axis=1), _AXIS, name=outputs[2])


_AXIS = np.array([1])


def _number(value: float) -> Array:
    return np.array(value, np.float64)


def _sum(nodes: Nodes, values: str) -> str:
    return nodes("ReduceSum", values, _AXIS, keepdims=1)


def _scores(nodes: Nodes, recipe: Recipe, z: str) -> str:
    if recipe.platt is not None:
        return _sigmoid(nodes, _log_odds(nodes, z), *recipe.platt)
    scaled = nodes("Softmax", nodes("Mul", z, _number(recipe.scale)) if recipe.scale != 1 else z, axis=1)
    if recipe.blend is None:
        return scaled
    first, second, doubt = recipe.blend
    own = nodes("Mul", nodes("Softmax", z, axis=1), _number(second))
    blended = nodes("Add", nodes("Mul", scaled, _number(first)), own)
    return nodes("Add", blended, nodes("Div", _number(doubt), _sum(nodes, _open(nodes, z)[1])))


def _open(nodes: Nodes, z: str) -> tuple[str, str]:
    """Which classes are not masked, as truth values and as numbers."""
    is_open = nodes("Greater", z, _number(-np.inf))
    return is_open, nodes("Cast", is_open, to=_DOUBLE)


_DOUBLE = 11  # TensorProto.DOUBLE


def _log_odds(nodes: Nodes, z: str) -> str:
    """z_c − log Σ_{k≠c} exp(z_k), between MASKED and −MASKED, without cancellation."""
    best = nodes("ArgMax", z, axis=1, keepdims=1)
    top = nodes("GatherElements", z, best, axis=1)
    nothing = nodes("Add", top, _number(-np.inf))
    others = nodes("ScatterElements", z, best, nothing, axis=1)
    runner_up = nodes("GatherElements", others, nodes("ArgMax", others, axis=1, keepdims=1), axis=1)
    # finite also where all others are masked: their sum is then 0 and the top's log-odds are capped
    second = nodes("Max", runner_up, _number(MASKED))
    powers = nodes("Exp", nodes("Sub", others, second))
    total = _sum(nodes, powers)
    ahead = nodes("Sub", nodes("Sub", top, second), nodes("Log", total))
    odds_of_top = nodes("Min", ahead, _number(-MASKED))
    share = nodes("Exp", nodes("Sub", second, top))
    most = nodes("Add", nodes("Mul", share, total), _number(1))
    rest = nodes("Max", nodes("Sub", most, nodes("Mul", powers, share)), _number(1))
    below = nodes("Sub", nodes("Max", nodes("Sub", z, top), _number(MASKED)), nodes("Log", rest))
    return nodes("ScatterElements", below, best, odds_of_top, axis=1)


def _sigmoid(nodes: Nodes, x: str, slopes: Array, intercepts: Array) -> str:
    m = nodes("Add", nodes("Mul", x, slopes), intercepts)
    # e^−|m|, so that nothing overflows and the tails keep their digits
    e = nodes("Exp", nodes("Neg", nodes("Abs", m)))
    numerator = nodes("Where", nodes("Less", m, _number(0)), e, _number(1))
    return nodes("Div", numerator, nodes("Add", e, _number(1)))


def _look_up(nodes: Nodes, table: Table, p: str, strict: float) -> str:
    """Values of the table: a binary search in as many steps as its length has binary digits, no loop."""
    search = table.search
    start = search.start.astype(np.int32)
    above, below = (_narrow(steps.astype(np.int32)) for steps in (search.above, search.below))
    # where the first probe lies is known: no gathering
    less = nodes("Less", search.sorted[search.start], p)
    at = nodes("Where", less, start + above[0], start + below[0])
    for up, down in zip(above[1:], below[1:], strict=True):
        less = nodes("Less", nodes("Gather", search.sorted, at), p)
        at = nodes("Add", at, nodes("Where", less, up, down))
    values = nodes("Gather", table.value, at)
    if table.line is None:
        return values
    left, width, rise = (nodes("Gather", part, at) for part in table.line)
    share = nodes("Div", nodes("Sub", p, left), width)
    values = nodes("Add", values, nodes("Mul", share, rise))
    return nodes("Add", values, nodes("Mul", p, _number(strict))) if strict else values


def _narrow(steps: Array) -> list[Array]:
    """Each step as one number where it is the same for all classes."""
    return [step[:1] if (step == step[0]).all() else step for step in steps]


def _finish(nodes: Nodes, recipe: Recipe, z: str, values: str, name: str) -> str:
    """Masked classes get 0 and rows sum to 1; a row without mass becomes uniform over the others."""
    if recipe.finish == "nothing":
        return nodes("Identity", values, name=name)
    is_open, ones = _open(nodes, z)
    if recipe.finish == "mask":
        return nodes("Where", is_open, values, _number(0), name=name)
    values = nodes("Where", is_open, values, _number(0))
    total = _sum(nodes, values)
    if recipe.keeps_accuracy:  # such maps rise strictly: there is always mass
        return nodes("Div", values, total, name=name)
    some = nodes("Greater", total, _number(0))
    values = nodes("Where", some, values, ones)
    return nodes("Div", values, nodes("Where", some, total, _sum(nodes, ones)), name=name)
