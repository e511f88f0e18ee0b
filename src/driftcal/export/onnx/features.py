"""Nodes from a model's layers to what calibrators look at: pooled rows of length 1 and their distances to training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.calibrators.samplewise.dac import half_squares
from driftcal.export.onnx.nodes import Nodes
from driftcal.export.samplewise_maps import Neighbours
from driftcal.models.features import pooled_axes
from driftcal.types import Array

_FLOAT, _DOUBLE = 1, 11  # TensorProto.FLOAT, DOUBLE
#: Rows of so many float32 numbers have length 1 to 1e-8, far less than rounding takes from each.
_WIDE = 64


def add_means(nodes: Nodes, layer: str, values: Array, channels_first: bool) -> str:
    """float64 (n, F) means over the places of a layer that gave `values` once: `driftcal.pooled_features` before it divides by lengths."""
    axes = pooled_axes(values.ndim, channels_first) if values.ndim > 1 else ()
    if values.dtype == np.float16:
        # runtimes that compute half precision in float32 skip the rounding to float16 before a cast, but not before this
        layer, axes = nodes("Unsqueeze", layer, np.array([values.ndim])), (*axes, values.ndim)
    elif values.dtype != np.float32:
        layer = nodes("Cast", layer, to=_FLOAT)
    rows = nodes("Cast", layer, to=_DOUBLE)
    if axes:
        rows = nodes.reduce("ReduceMean", rows, axes=axes, keepdims=0)
    return nodes("Unsqueeze", rows, np.array([1])) if values.ndim == 1 else rows


def add_pooled(nodes: Nodes, layers: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Layers' means, to be made rows of length 1.

    Narrow layers get length 1 already here, as `driftcal.pooled_features` gives it to all: calibrators do it again, which turns a
    last bit of float32 now and then where a layer has few numbers.
    """
    return [layer if width >= _WIDE else add_unit(nodes, [layer]) for layer, width in zip(layers, widths, strict=True)]


def add_unit(nodes: Nodes, layers: Sequence[str]) -> str:
    """Layers side by side, every layer's rows of length 1, no more exact than float32, in which features are kept.

    A row of zeros stays.
    """
    rows = [nodes("LpNormalization", layer, axis=1, p=2) for layer in layers]
    joint = nodes("Concat", *rows, axis=1) if len(rows) > 1 else rows[0]
    return nodes("Cast", nodes("Cast", joint, to=_FLOAT), to=_DOUBLE)


def add_split(nodes: Nodes, features: str, widths: Sequence[int]) -> list[str]:
    """Layers that lie side by side, one by one."""
    if len(widths) == 1:
        return [features]
    first = nodes("Split", features, np.array(widths), axis=1, spare=len(widths) - 1)
    return [first, *(f"{first}_spare_{i}" for i in range(len(widths) - 1))]


def add_distances(nodes: Nodes, neighbours: Neighbours, features: str) -> str:
    """The distance to the k-th nearest training row in each layer, (n, layers)."""
    found = []
    layers = add_split(nodes, features, [part.shape[1] for part in neighbours.references])
    for rows, reference in zip(layers, neighbours.references, strict=True):
        training = nodes("Cast", reference, to=_DOUBLE)  # a runtime does that once, and the file is half as large
        nearness = nodes("Gemm", rows, training, -half_squares(reference), transB=1)
        # of rows equally near to the last bit any will do
        nearest = nodes.second("TopK", nearness, np.array([neighbours.k]), axis=1)
        kth = nodes("Gather", nearest, np.array(neighbours.k - 1), axis=1)
        found.append(nodes.reduce("ReduceL2", nodes("Sub", rows, nodes("Gather", training, kth, axis=0))))
    return nodes("Concat", *found, axis=1)
