"""Calibrators as ONNX graphs of standard operators: the calibration itself, in float64.

All operators have kept their form since opset 13, so the nodes also fit at the end of an older model.
"""

from __future__ import annotations

import numpy as np

from driftcal.deploy.onnx_scores import AXIS, FLOOR, Nodes, add_scores, are_open, number, row_sum
from driftcal.deploy.recipe import Recipe, Table
from driftcal.deploy.search import Buckets, Search
from driftcal.types import Array

#: What a calibrated model answers beside its own outputs.
OUTPUTS = ("probabilities", "label", "confidence")


def add_calibration(nodes: Nodes, recipe: Recipe, logits: str, outputs: tuple[str, str, str] = OUTPUTS) -> None:
    """Add the nodes from float64 (n, classes) `logits` to probabilities, label and confidence, named by `outputs`."""
    scores = add_scores(nodes, recipe.scores, logits, outputs[0] if recipe.finish == "nothing" else None)
    if recipe.table is not None:
        floor = FLOOR if recipe.finish == "normalise" else 0.0
        scores = _look_up(nodes, recipe.table, scores, recipe.strict, floor)
    probabilities = _finish(nodes, recipe, logits, scores, outputs[0])
    best = nodes("ArgMax", logits if recipe.keeps_accuracy else probabilities, axis=1, keepdims=1)
    nodes("Squeeze", best, AXIS, name=outputs[1])
    nodes("Squeeze", nodes("GatherElements", probabilities, best, axis=1), AXIS, name=outputs[2])


_INT32 = 6  # TensorProto.INT32


def _look_up(nodes: Nodes, table: Table, p: str, strict: float, floor: float) -> str:
    """Values of the table: the search in as many steps as its length has binary digits, no loop."""
    at = _locate(nodes, table.search, p)
    values = nodes("Gather", np.maximum(table.value, floor), at)
    if table.line is None:
        return values
    left, width, rise = (nodes("Gather", part, at) for part in table.line)
    share = nodes("Div", nodes("Sub", p, left), width)
    values = nodes("Add", values, nodes("Mul", share, rise))
    return nodes("Add", values, nodes("Mul", p, number(strict))) if strict else values


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
        bucket = nodes("Cast", nodes("Mul", root, number(buckets.scale)), to=_INT32)
        at = nodes("Gather", buckets.start.astype(np.int32), bucket)
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
    is_open = are_open(nodes, z)
    if recipe.finish == "mask":
        return nodes("Where", is_open, values, number(0), name=name)
    values = nodes("Where", is_open, values, number(0))
    return nodes("Div", values, row_sum(nodes, values), name=name)
