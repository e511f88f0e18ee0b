"""The kernel of the affine shifts: one lookup table for all images of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftcal.shifts.corruptions.filters import compiled
from driftcal.types import Images


def interpolate(images: Images, table: tuple[Any, ...], out: Images) -> None:
    """Fill `out` with bilinear values; `table` holds the upper left neighbour and four weights of each output pixel."""
    n, _, width, channels = images.shape
    kernel = _interpolate_rgb if channels == 3 else _interpolate_grey
    kernel(images.reshape(n, -1), width * channels, *table, out.reshape(n, -1))


@compiled
def _interpolate_grey(images, line, start, weights, out):  # type: ignore[no-untyped-def]
    for i in range(images.shape[0]):
        image, target = images[i], out[i]
        for p in range(start.shape[0]):
            a = np.int64(start[p])
            w = weights[p]
            value = w[0] * image[a] + w[1] * image[a + 1] + w[2] * image[a + line] + w[3] * image[a + line + 1]
            target[p] = min(max(value, np.float32(0)), np.float32(1))


@compiled
def _interpolate_rgb(images, line, start, weights, out):  # type: ignore[no-untyped-def]
    for i in range(images.shape[0]):
        image, target = images[i], out[i]
        for p in range(start.shape[0]):
            a = np.int64(start[p])
            b = a + line
            w = weights[p]
            w0, w1, w2, w3 = w[0], w[1], w[2], w[3]
            red = w0 * image[a] + w1 * image[a + 3] + w2 * image[b] + w3 * image[b + 3]
            green = w0 * image[a + 1] + w1 * image[a + 4] + w2 * image[b + 1] + w3 * image[b + 4]
            blue = w0 * image[a + 2] + w1 * image[a + 5] + w2 * image[b + 2] + w3 * image[b + 5]
            target[3 * p] = min(max(red, np.float32(0)), np.float32(1))
            target[3 * p + 1] = min(max(green, np.float32(0)), np.float32(1))
            target[3 * p + 2] = min(max(blue, np.float32(0)), np.float32(1))
