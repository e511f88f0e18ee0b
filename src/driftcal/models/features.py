"""Layer features: the outputs of layers inside a model, pooled to one vector per sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftcal.errors import InputError
from driftcal.models.model import Model
from driftcal.types import AnyArray, Array

#: Number of samples whose feature maps are in memory at once.
_BLOCK = 256


def pooled_features(model: Model, inputs: AnyArray, layers: Sequence[str]) -> dict[str, Array]:
    """float32 (n, F) features of named layers: maps averaged over their positions, each vector of length 1.

    ``model.layers`` lists the names: submodules of a torch module, tensors of an ONNX graph, layers of a Keras model.
    Channels are the second axis for torch and ONNX, else the last. Tokens of a sequence (n, tokens, F) are averaged. A
    model without named layers raises `ModelError`.
    """
    if isinstance(layers, str) or not len(layers):
        raise InputError(f"layers must be a list of names out of model.layers; it is {layers!r}.")
    samples = np.asarray(inputs)
    parts: dict[str, list[Array]] = {layer: [] for layer in layers}
    for start in range(0, max(1, len(samples)), _BLOCK):
        for layer, values in model.features(samples[start : start + _BLOCK], layers).items():
            parts[layer].append(pooled(values, model.preprocessing.channels_first))
    return {layer: np.concatenate(vectors) for layer, vectors in parts.items()}


def pooled(values: Array, channels_first: bool) -> Array:
    """float32 (n, F) features from a layer's outputs for n samples, each vector of length 1.

    >>> pooled(np.array([[[[6.0, 0.0]], [[2.0, 6.0]]]]), channels_first=True)
    array([[0.6, 0.8]], dtype=float32)
    """
    # rounded to float32 first, so that features do not depend on the precision of a backend
    maps = values.astype(np.float32).astype(np.float64)
    vectors = maps[:, None] if maps.ndim == 1 else maps.mean(axis=pooled_axes(maps.ndim, channels_first))
    length = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
    return np.asarray(vectors / np.where(length > 0, length, 1.0), np.float32)


def pooled_axes(ndim: int, channels_first: bool) -> tuple[int, ...]:
    """The axes over which a layer's outputs are averaged.

    >>> pooled_axes(4, True), pooled_axes(4, False), pooled_axes(3, True), pooled_axes(2, True)
    ((2, 3), (1, 2), (1,), ())
    """
    if ndim == 3:
        return (1,)
    return tuple(range(2, ndim)) if channels_first else tuple(range(1, ndim - 1))
