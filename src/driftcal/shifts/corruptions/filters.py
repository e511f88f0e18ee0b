"""Filters of one image that several corruptions share, as loops over rows that the compiler vectorises.

An image is (height, width * channels): a step of one pixel sideways is a step of `channels` in the row.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftcal.core.numerics import kernel

Plane = NDArray[np.float32]

#: What lies outside the image: the edge repeated, the mirror image with the edge, the mirror image without it.
#: (Typed numbers: for a plain 0 each filter would be compiled once more.)
NEAREST, REFLECT, REFLECT_101 = np.int64(0), np.int64(1), np.int64(2)
GREY = np.int64(1)

#: `kernel` for functions without annotations, which all kernels of images are.
compiled: Any = kernel


@lru_cache(maxsize=64)
def gaussian_weights(sigma: float, truncate: float) -> NDArray[np.float32]:
    """Half of a normalised Gaussian: the weight at 0, 1, … round(truncate * sigma)."""
    radius = int(truncate * sigma + 0.5)
    half = np.exp(-0.5 * (np.arange(radius + 1) / max(sigma, 1e-9)) ** 2)
    return np.asarray(half / (2 * half.sum() - half[0]), np.float32)


@lru_cache(maxsize=64)
def zoom_steps(side: int, factor: float) -> tuple[int, int, NDArray[np.int32], NDArray[np.float32]]:
    """How to enlarge the centre of a side: first pixel and length of the crop, left neighbours, weights of the right ones.

    Neighbours are those of each output pixel, in the crop. Ends map to ends, and the surplus is cut evenly.
    """
    crop = math.ceil(side / factor)
    first = (side - crop) // 2
    full = round(crop * factor)
    at = (np.arange(side) + (full - side) // 2) * ((crop - 1) / max(full - 1, 1))
    left = np.minimum(at.astype(np.int32), max(crop - 2, 0)).astype(np.int32)
    return first, crop, left, (at - left).astype(np.float32)


@compiled
def inside(i, n, border):  # type: ignore[no-untyped-def]
    """The pixel of 0..n-1 that replaces pixel i, which may lie outside."""
    if 0 <= i < n:
        return i
    if border == NEAREST:
        return 0 if i < 0 else n - 1
    period = 2 * n if border == REFLECT else max(2 * n - 2, 1)
    i = i % period
    return i if i < n else (period - 1 - i if border == REFLECT else period - i)


@compiled
def smooth(plane, channels, half, border, middle, out):  # type: ignore[no-untyped-def]
    """Symmetric separable filter: rows first into `middle`, then columns into `out` (which may be `plane`)."""
    height, wide = plane.shape
    width = wide // channels
    radius = half.shape[0] - 1
    padded = np.empty(wide + 2 * radius * channels, np.float32)
    for y in range(height):
        _pad(plane[y], channels, width, radius, border, padded)
        _mix(padded, channels, radius, half, middle[y])
    for y in range(height):
        row = out[y]
        for x in range(wide):
            row[x] = half[0] * middle[y, x]
        for k in range(1, radius + 1):
            above = middle[inside(y - k, height, border)]
            below = middle[inside(y + k, height, border)]
            weight = half[k]
            for x in range(wide):
                row[x] += weight * (above[x] + below[x])


@compiled
def _pad(row, channels, width, radius, border, padded):  # type: ignore[no-untyped-def]
    for x in range(row.shape[0]):
        padded[radius * channels + x] = row[x]
    for k in range(radius):
        left = inside(k - radius, width, border) * channels
        right = inside(width + k, width, border) * channels
        for c in range(channels):
            padded[k * channels + c] = row[left + c]
            padded[(radius + width + k) * channels + c] = row[right + c]


@compiled
def _mix(padded, channels, radius, half, row):  # type: ignore[no-untyped-def]
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
    """Blur to one side along `angle` (degrees) with half a Gaussian of 2 * radius + 1 taps; the edge is repeated."""
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
            source = plane[inside(y + int(down[i]), height, NEAREST)]
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
    """Fill `out` from a plane of its shape, in loops: `out[:] = plane` takes seconds to compile."""
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
                bottom, right = inside(top + 1, height, border), inside(left + 1, width, border)
                top, left = inside(top, height, border), inside(left, width, border)
            for c in range(channels):
                a, b = plane[top, left * channels + c], plane[top, right * channels + c]
                e, f = plane[bottom, left * channels + c], plane[bottom, right * channels + c]
                above = a + dx * (b - a)
                out[y, x * channels + c] = above + dy * (e + dx * (f - e) - above)


@compiled
def enlarge(plane, channels, first_y, left_y, share_y, first_x, left_x, share_x, row, out, add):  # type: ignore[no-untyped-def]
    """Bilinear zoom by :func:`zoom_steps` of both sides; `add` sums into `out`."""
    for y in range(out.shape[0]):
        upper, lower = plane[first_y + left_y[y]], plane[min(first_y + left_y[y] + 1, plane.shape[0] - 1)]
        share = share_y[y]
        for x in range(row.shape[0]):
            row[x] = upper[x] + share * (lower[x] - upper[x])
        target = out[y]
        for x in range(left_x.shape[0]):
            at = (first_x + left_x[x]) * channels
            right = min(at + channels, row.shape[0] - channels)
            for c in range(channels):
                value = row[at + c] + share_x[x] * (row[right + c] - row[at + c])
                target[x * channels + c] = target[x * channels + c] + value if add else value
