"""ONNX nodes of the table look-up: isotonic regression, histogram binning, and the curve of the spline.

``calibrators/export_maps/lookup.py`` builds the table and the search. ``calibration.py`` masks and normalises the
values afterwards. Shapes: n samples, C classes, L edges per class. A table holds the entries of one class after the
other. If all classes share one curve, the constants have 1 in place of C.
"""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.export_maps.lookup import SLOPE_UNIT, LookupTable, Search
from driftcal.export.onnx.nodes import INT32, Nodes, number
from driftcal.types import Array

#: Up to this many edges per class, comparing a score with all of them takes two thirds of the time of a binary search.
_MAX_COMPARED = 16


def add_look_up(nodes: Nodes, table: LookupTable, scores: str, least: float = 0.0, name: str | None = None) -> str:
    """Add the look-up of `scores` in a table; returns the name of the values.

    `scores` is the name of a float64 (n, C) tensor, and so is the result. Entries of the table are raised to `least`.
    `name` is the name of the result, if the values are the probabilities.
    """
    position = _add_search(nodes, table.search, scores)  # (n, C)
    values = nodes("Gather", np.maximum(table.value, least), position)  # (n, C)
    if table.line is None:  # the value of a bin does not depend on the score; adding 0·score keeps NaN
        return nodes("Add", values, nodes("Mul", scores, number(0)), name=name)
    left, slope = (nodes("Gather", entries, position) for entries in table.line)  # (n, C) each
    distance = nodes("Mul", nodes("Sub", scores, left), number(SLOPE_UNIT))
    return nodes("Add", values, nodes("Mul", distance, slope), name=name)


def _add_search(nodes: Nodes, search: Search, scores: str) -> str:
    """Add the search for `scores`; returns the name of their int32 (n, C) positions in the table.

    With few edges, the nodes count the edges below each score. Otherwise they are the steps of `Search.locate`, written
    one after the other, without the operator Loop.
    """
    length = int(search.length[0])
    if length <= _MAX_COMPARED and (search.length == length).all():
        edges = search.sorted.reshape(-1, 1, length).T  # (L, 1, C)
        is_below = nodes("Cast", nodes("Less", edges, scores), to=INT32)  # (L, n, C)
        n_below = nodes("ReduceSum", is_below, np.array([0]), keepdims=0)  # (n, C)
        first_entry = np.arange(len(search.length), dtype=np.int32) * np.int32(length + 1)  # (C,)
        return nodes("Add", n_below, first_entry)
    position: str | Array = search.start.astype(np.int32)  # (C,) before the first step, then (n, C)
    for above, below in zip(search.above, search.below, strict=True):
        is_below = nodes("Less", nodes("Gather", search.sorted, position), scores)  # (n, C)
        position = nodes("Add", position, nodes("Where", is_below, _as_constant(above), _as_constant(below)))
    return str(position)


def _as_constant(step: Array) -> Array:
    """The step of each class, (C,), as int32; (1,) if it is the same for all classes, which makes the file smaller."""
    return step[:1].astype(np.int32) if (step == step[0]).all() else step.astype(np.int32)
