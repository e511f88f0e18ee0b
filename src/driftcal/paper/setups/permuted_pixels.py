"""Out-of-distribution images with the pixel values of real ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from driftcal.data import Source
from driftcal.io.fingerprint import fingerprint
from driftcal.types import Array, Indices


def permuted_pixels(source: Source) -> Source:
    """The images with their pixels in one random order, so that they belong to no class but have the same histograms.

    >>> from driftcal.data import digits
    >>> permuted = permuted_pixels(digits())
    >>> bool((permuted.labels == -1).all()), float(permuted.inputs()[0].sum()) == float(digits().inputs()[0].sum())
    (True, True)
    """
    height, width, _ = source.input_shape
    order = np.random.default_rng(0).permutation(height * width)

    def read(indices: Indices) -> Array:
        images = source.read(indices)
        permuted: Array = images.reshape(len(images), height * width, -1)[:, order].reshape(images.shape)
        return permuted

    return replace(
        source,
        name=f"{source.name}, pixels permuted",
        read=read,
        all_labels=np.full(len(source.all_labels), -1, np.int64),
        content=lambda: fingerprint({"permuted": order, "of": source.content()}),
        correct_outputs={},
    )
