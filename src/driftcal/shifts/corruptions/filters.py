"""Filters of one image that several corruptions share, as loops over rows that the compiler vectorises.

An image is a plane (height, width * channels): the next pixel of a row is `channels` entries further. In kernels,
`wide` is width * channels, and `half` is one half of a symmetric filter: the weights at distance 0, 1, 2, …
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from driftcal.core.numerics import kernel
from driftcal.types import Images

#: Borders, the values outside the image: the edge repeated, the mirror image with the edge, the mirror image without
#: it. They are typed, because each filter would be compiled once more for a plain 0.
NEAREST, REFLECT, REFLECT_101 = np.int64(0), np.int64(1), np.int64(2)
#: The number of channels of a grey plane.
GREY = np.int64(1)

#: One random key per image.
Keys = NDArray[np.uint64]

#: `kernel` without a type: kernels of images have no annotations.
compiled: Any = kernel


def rows_of(images: Images) -> NDArray[np.float32]:
    """Images as planes: (n, height, width * channels)."""
    return images.reshape(*images.shape[:2], -1)


@lru_cache(maxsize=64)
def gaussian_weights(sigma: float, truncate: float) -> NDArray[np.float32]:
    """Half of a normalised Gaussian: the weight at 0, 1, … round(truncate * sigma)."""
    radius = int(truncate * sigma + 0.5)
    half = np.exp(-0.5 * (np.arange(radius + 1) / max(sigma, 1e-9)) ** 2)
    return np.asarray(half / (2 * half.sum() - half[0]), np.float32)


class ZoomSteps(NamedTuple):
    """The enlargement of the centre of one side: the cropped part, and two neighbours in it for each output pixel."""

    first: int  # pixel of the crop
    length: int  # of the crop
    left: NDArray[np.int32]  # the left (or upper) neighbour, in the crop
    share: NDArray[np.float32]  # the weight of the right (or lower) neighbour


@lru_cache(maxsize=64)
def zoom_steps(side: int, factor: float) -> ZoomSteps:
    """How to enlarge the centre of a side by `factor`. Ends map to ends, and the surplus is cut evenly."""
    crop = math.ceil(side / factor)
    first = (side - crop) // 2
    enlarged = round(crop * factor)
    position = (np.arange(side) + (enlarged - side) // 2) * ((crop - 1) / max(enlarged - 1, 1))
    left = np.minimum(position.astype(np.int32), max(crop - 2, 0)).astype(np.int32)
    return ZoomSteps(first, crop, left, (position - left).astype(np.float32))


@compiled
def border_index(i, n, border):  # type: ignore[no-untyped-def]
    """The pixel of 0..n-1 whose value pixel i takes; i may lie outside."""
    if 0 <= i < n:
        return i
    if border == NEAREST:
        return 0 if i < 0 else n - 1
    period = 2 * n if border == REFLECT else max(2 * n - 2, 1)
    i = i % period
    return i if i < n else (period - 1 - i if border == REFLECT else period - i)


@compiled
def smooth(plane, channels, half, border, scratch, out):  # type: ignore[no-untyped-def]
    """Symmetric separable filter: first rows into `scratch`, then columns into `out`, which may be `plane`."""
    height, wide = plane.shape
    width = wide // channels
    radius = half.shape[0] - 1
    padded = np.empty(wide + 2 * radius * channels, np.float32)
    for y in range(height):
        _pad(plane[y], channels, width, radius, border, padded)
        _filter_row(padded, channels, radius, half, scratch[y])
    for y in range(height):
        row = out[y]
        for x in range(wide):
            row[x] = half[0] * scratch[y, x]
        for k in range(1, radius + 1):
            above = scratch[border_index(y - k, height, border)]
            below = scratch[border_index(y + k, height, border)]
            weight = half[k]
            for x in range(wide):
                row[x] += weight * (above[x] + below[x])


@compiled
def _pad(row, channels, width, radius, border, padded):  # type: ignore[no-untyped-def]
    """Copy a row into `padded` with `radius` border pixels on both sides."""
    for x in range(row.shape[0]):
        padded[radius * channels + x] = row[x]
    for k in range(radius):
        left = border_index(k - radius, width, border) * channels
        right = border_index(width + k, width, border) * channels
        for c in range(channels):
            padded[k * channels + c] = row[left + c]
            padded[(radius + width + k) * channels + c] = row[right + c]


@compiled
def _filter_row(padded, channels, radius, half, row):  # type: ignore[no-untyped-def]
    """Write the filtered values of a padded row into `row`."""
    wide = row.shape[0]
    centre = padded[radius * channels : radius * channels + wide]
    for x in range(wide):
        row[x] = half[0] * centre[x]
    for k in range(1, radius + 1):
        left = padded[(radius - k) * channels : (radius - k) * channels + wide]
        right = padded[(radius + k) * channels : (radius + k) * channels + wide]
        weight = half[k]
        for x in range(wide):
            row[x] += weight * (left[x] + right[x])


@compiled
def streak(plane, channels, angle, sigma, radius, out):  # type: ignore[no-untyped-def]
    """Blur to one side along `angle` (degrees) with half a Gaussian of 2 * radius + 1 weights; the edge is repeated."""
    height, wide = plane.shape
    width = wide // channels
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    weights /= weights.sum()
    down = np.ceil(steps * np.sin(np.deg2rad(angle)) - 0.5)
    along = np.ceil(steps * np.cos(np.deg2rad(angle)) - 0.5)
    out[:] = 0
    for y in range(height):
        row = out[y]
        for i in range(steps.shape[0]):
            weight = np.float32(weights[i])
            source = plane[border_index(y + int(down[i]), height, NEAREST)]
            move = int(along[i])
            first, last = min(max(0, -move), width), max(min(width, width - move), 0)
            for x in range(first):
                for c in range(channels):
                    row[x * channels + c] += weight * source[c]
            if last > first:
                target, shifted = row[first * channels : last * channels], source[(first + move) * channels :]
                for x in range((last - first) * channels):
                    target[x] += weight * shifted[x]
            for x in range(max(last, first), width):
                for c in range(channels):
                    row[x * channels + c] += weight * source[wide - channels + c]


@compiled
def copy(plane, out):  # type: ignore[no-untyped-def]
    """Copy a plane into `out`, in loops, because `out[:] = plane` takes seconds to compile."""
    for y in range(plane.shape[0]):
        for x in range(plane.shape[1]):
            out[y, x] = plane[y, x]


@compiled
def clip(plane):  # type: ignore[no-untyped-def]
    """Bring a plane into [0, 1], in place."""
    for y in range(plane.shape[0]):
        row = plane[y]
        for x in range(row.shape[0]):
            row[x] = min(max(row[x], np.float32(0)), np.float32(1))


@compiled
def warp(plane, channels, ys, xs, border, out):  # type: ignore[no-untyped-def]
    """Bilinear values of a plane at the positions (ys, xs), one for each pixel of `out`."""
    height, width = plane.shape[0], plane.shape[1] // channels
    for y in range(ys.shape[0]):
        for x in range(ys.shape[1]):
            top, left = int(np.floor(ys[y, x])), int(np.floor(xs[y, x]))
            dy, dx = np.float32(ys[y, x] - top), np.float32(xs[y, x] - left)
            if 0 <= top < height - 1 and 0 <= left < width - 1:
                bottom, right = top + 1, left + 1
            else:
                bottom, right = border_index(top + 1, height, border), border_index(left + 1, width, border)
                top, left = border_index(top, height, border), border_index(left, width, border)
            for c in range(channels):
                top_left, top_right = plane[top, left * channels + c], plane[top, right * channels + c]
                bottom_left, bottom_right = plane[bottom, left * channels + c], plane[bottom, right * channels + c]
                above = top_left + dx * (top_right - top_left)
                out[y, x * channels + c] = above + dy * (bottom_left + dx * (bottom_right - bottom_left) - above)


@compiled
def enlarge(plane, channels, down, across, row, out, add):  # type: ignore[no-untyped-def]
    """Bilinear zoom; `down` and `across` are (first, left, share) of :class:`ZoomSteps`, `add` sums into `out`.

    `row` is scratch space for one row of the plane.
    """
    first_y, left_y, share_y = down
    first_x, left_x, share_x = across
    for y in range(out.shape[0]):
        upper, lower = plane[first_y + left_y[y]], plane[min(first_y + left_y[y] + 1, plane.shape[0] - 1)]
        share = share_y[y]
        for x in range(row.shape[0]):
            row[x] = upper[x] + share * (lower[x] - upper[x])
        target = out[y]
        for x in range(left_x.shape[0]):
            left = (first_x + left_x[x]) * channels
            right = min(left + channels, row.shape[0] - channels)
            for c in range(channels):
                value = row[left + c] + share_x[x] * (row[right + c] - row[left + c])
                target[x * channels + c] = target[x * channels + c] + value if add else value
