"""Nodes from a model's layers to what calibrators look at: pooled rows of length 1 and their distances to training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.calibrators.density import half_squares
from driftcal.deploy.onnx_nodes import Nodes, number
from driftcal.deploy.recipe_rows import Neighbours
from driftcal.models.features import pooled_axes
from driftcal.types import Array

_FLOAT, _DOUBLE = 1, 11  # TensorProto.FLOAT, DOUBLE
#: Below the length of any row of float32 numbers but zeros, which stay zeros.
_SHORTEST = 1e-100


def add_pooled(nodes: Nodes, layer: str, values: Array, channels_first: bool) -> str:
    """float64 (n, F) features of a layer that gave `values` once, as `driftcal.pooled_features` makes them."""
    axes = pooled_axes(values.ndim, channels_first) if values.ndim > 1 else ()
    if values.dtype == np.float16:
        # runtimes that compute half precision in float32 skip the rounding to float16 before a cast, but not before this
        layer, axes = nodes("Unsqueeze", layer, np.array([values.ndim])), (*axes, values.ndim)
    elif values.dtype != np.float32:
        layer = nodes("Cast", layer, to=_FLOAT)
    rows = nodes("Cast", layer, to=_DOUBLE)
    if axes:
        rows = nodes.reduce("ReduceMean", rows, axes=axes, keepdims=0)
    return add_unit(nodes, nodes("Unsqueeze", rows, np.array([1])) if values.ndim == 1 else rows)


def add_split(nodes: Nodes, features: str, widths: Sequence[int]) -> list[str]:
    """Layers that lie side by side, one by one."""
    ends = np.cumsum(widths)
    return [
        nodes("Slice", features, np.array([end - width]), np.array([end]), np.array([1]))
        for end, width in zip(ends, widths, strict=True)
    ]


def add_unit(nodes: Nodes, rows: str) -> str:
    """Rows of length 1, no more exact than float32, in which features are kept; a row of zeros stays."""
    length = nodes("Max", nodes.reduce("ReduceL2", rows), number(_SHORTEST))
    return nodes("Cast", nodes("Cast", nodes("Div", rows, length), to=_FLOAT), to=_DOUBLE)


def add_distances(nodes: Nodes, neighbours: Neighbours, features: Sequence[str]) -> str:
    """The distance to the k-th nearest training row in each layer, (n, layers)."""
    found = []
    for rows, reference in zip(features, neighbours.references, strict=True):
        training = nodes("Cast", reference, to=_DOUBLE)  # a runtime does that once, and the file is half as large
        nearness = nodes("Gemm", rows, training, -half_squares(reference), transB=1)
        # of rows equally near to the last bit any will do
        nearest = nodes.second("TopK", nearness, np.array([neighbours.k]), axis=1)
        kth = nodes("Gather", nearest, np.array(neighbours.k - 1), axis=1)
        found.append(nodes.reduce("ReduceL2", nodes("Sub", rows, nodes("Gather", training, kth, axis=0))))
    return nodes("Concat", *found, axis=1)
