"""ONNX nodes of the table look-up: isotonic regression, histogram binning, and the spline's curve."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.lookup import SLOPE_UNIT, LookupTable, Search
from driftcal.export.onnx.nodes import INT32, Nodes, number
from driftcal.types import Array

#: Up to so many edges, one comparison with each takes two thirds of the time of a search in small steps.
_MAX_COMPARED = 16


def add_look_up(nodes: Nodes, table: LookupTable, scores: str, least: float = 0.0, name: str | None = None) -> str:
    """The values of a table, at least `least`; `name` is theirs where they are the probabilities already."""
    at = _locate(nodes, table.search, scores)
    values = nodes("Gather", np.maximum(table.value, least), at)
    if table.line is None:  # 0·score: the value of a bin does not depend on the score, but NaN must stay NaN
        return nodes("Add", values, nodes("Mul", scores, number(0)), name=name)
    left, slope = (nodes("Gather", part, at) for part in table.line)
    distance = nodes("Mul", nodes("Sub", scores, left), number(SLOPE_UNIT))
    return nodes("Add", values, nodes("Mul", distance, slope), name=name)


def _locate(nodes: Nodes, search: Search, scores: str) -> str:
    """Where the table holds the value of each score: `Search.locate` without a loop, or a count of the edges below."""
    length = int(search.length[0])
    if length <= _MAX_COMPARED and (search.length == length).all():
        less = nodes("Cast", nodes("Less", search.sorted.reshape(-1, 1, length).T, scores), to=INT32)
        count = nodes("ReduceSum", less, np.array([0]), keepdims=0)
        return nodes("Add", count, np.arange(len(search.length), dtype=np.int32) * np.int32(length + 1))
    at: str | Array = search.start.astype(np.int32)
    for above, below in zip(search.above, search.below, strict=True):
        less = nodes("Less", nodes("Gather", search.sorted, at), scores)
        at = nodes("Add", at, nodes("Where", less, _shrink(above), _shrink(below)))
    return str(at)


def _shrink(step: Array) -> Array:
    """A step as one number where it is the same for all classes."""
    return step[:1].astype(np.int32) if (step == step[0]).all() else step.astype(np.int32)
