"""A model's features of inputs: what layers inside it gave, pooled to one vector per input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.errors import InputError
from driftcal.models.model import Model
from driftcal.types import AnyArray, Array

#: Inputs whose maps are held at once before they are pooled.
ROWS = 256


def pooled_features(model: Model, inputs: AnyArray, layers: Sequence[str]) -> dict[str, Array]:
    """float32 (n, F) features of named layers: maps averaged over their places, every row of length 1.

    ``model.layers`` lists the names: submodules of a torch module, tensors of an ONNX graph, layers of a Keras model.
    Channels are the second axis where the model's framework has them first (torch, ONNX), else the last; tokens of a
    sequence (n, tokens, F) are averaged. A model without layers inside raises `ModelError`.
    """
    if isinstance(layers, str) or not len(layers):
        raise InputError(f"layers must be a list of names out of model.layers; it is {layers!r}.")
    rows = np.asarray(inputs)
    parts: dict[str, list[Array]] = {layer: [] for layer in layers}
    for low in range(0, max(1, len(rows)), ROWS):
        for layer, values in model.features(rows[low : low + ROWS], layers).items():
            parts[layer].append(pooled(values, model.preprocessing.channels_first))
    return {layer: np.concatenate(found) for layer, found in parts.items()}


def pooled(values: Array, channels_first: bool) -> Array:
    """float32 (n, F) features from what a layer gave for n inputs, every row of length 1.

    >>> pooled(np.array([[[[6.0, 0.0]], [[2.0, 6.0]]]]), channels_first=True)
    array([[0.6, 0.8]], dtype=float32)
    """
    flat = values.astype(np.float32).astype(np.float64)  # no more exact than a model's features are elsewhere
    rows = flat[:, None] if flat.ndim == 1 else flat.mean(axis=pooled_axes(flat.ndim, channels_first))
    length = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(rows / np.where(length > 0, length, 1.0), np.float32)


def pooled_axes(ndim: int, channels_first: bool) -> tuple[int, ...]:
    """Over which axes a layer's values are averaged.

    >>> pooled_axes(4, True), pooled_axes(4, False), pooled_axes(3, True), pooled_axes(2, True)
    ((2, 3), (1, 2), (1,), ())
    """
    if ndim == 3:
        return (1,)
    return tuple(range(2, ndim)) if channels_first else tuple(range(1, ndim - 1))
