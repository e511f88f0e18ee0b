"""ONNX nodes from a model's layers to the features of a calibrator: pooled, of length 1, layers side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.export.onnx.nodes import DOUBLE, FLOAT, Nodes
from driftcal.models.features import pooled_axes
from driftcal.types import Array


def add_means(nodes: Nodes, layer: str, values: Array, channels_first: bool) -> str:
    """float64 (n, F) means over the positions of a layer: `driftcal.pooled_features` before the division by lengths.

    `values` are an example of the layer's values.
    """
    axes = pooled_axes(values.ndim, channels_first) if values.ndim > 1 else ()
    if values.dtype == np.float16:
        # runtimes that compute float16 in float32 skip the rounding to float16 before a cast, but not before Unsqueeze
        layer, axes = nodes("Unsqueeze", layer, np.array([values.ndim])), (*axes, values.ndim)
    elif values.dtype != np.float32:
        layer = nodes("Cast", layer, to=FLOAT)
    means = nodes("Cast", layer, to=DOUBLE)
    if axes:
        means = nodes.reduce("ReduceMean", means, axes=axes, keepdims=0)
    return nodes("Unsqueeze", means, np.array([1])) if values.ndim == 1 else means


def add_unit(nodes: Nodes, layers: Sequence[str]) -> str:
    """Layers side by side, the features of each layer of length 1, rounded to float32, the type of stored features.

    Features that are all 0 stay 0.
    """
    unit = [nodes("LpNormalization", layer, axis=1, p=2) for layer in layers]
    side_by_side = nodes("Concat", *unit, axis=1) if len(unit) > 1 else unit[0]
    return nodes("Cast", nodes("Cast", side_by_side, to=FLOAT), to=DOUBLE)


def add_split(nodes: Nodes, features: str, widths: Sequence[int]) -> list[str]:
    """The layers of features that are side by side, one by one."""
    return [features] if len(widths) == 1 else nodes.several("Split", len(widths), features, np.array(widths), axis=1)
