"""Elastic transform: a random affine map, then a smooth random displacement of every pixel."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from driftcal.core.random import first_uniforms, uniform
from driftcal.shifts.corruptions.filters import (
    GREY,
    REFLECT,
    REFLECT_101,
    Keys,
    compiled,
    copy,
    gaussian_weights,
    rows_of,
    smooth,
    warp,
)
from driftcal.types import Images

#: Filters with a larger radius are cheaper as a few cosine waves than as a sum over neighbours.
_MAX_RADIUS = 16
#: Counters of the random field begin here: counters 0 to 5 move the corners.
_FIELD_COUNTER = 8


def elastic_transform(images: Images, out: Images, keys: Keys, strength: float, sigma: float, reach: float) -> None:
    """Move three points by up to `reach` pixels, then each pixel by `strength` times a blurred uniform field."""
    height, width, channels = images.shape[1:]
    half = gaussian_weights(sigma, 3.0)
    maps = _maps_back(keys, height, width, reach)
    waves = _waves(height, sigma), _waves(width, sigma)
    _elastic(rows_of(images), channels, keys, maps, np.float32(strength), half, waves, rows_of(out))


@lru_cache(maxsize=16)
def _waves(side: int, sigma: float) -> NDArray[np.float32]:
    """The cosine waves that pass a Gaussian filter on a mirrored side, each times the root of its factor.

    A symmetric filter with the mirror image outside is diagonal in the basis of the cosine transform. A narrow filter
    has no waves here: it is applied as a sum.
    """
    half = gaussian_weights(sigma, 3.0).astype(np.float64)
    if len(half) - 1 <= _MAX_RADIUS:
        return np.zeros((0, side), np.float32)
    frequency = np.arange(side)
    factor = half[0] + 2 * np.cos(np.pi * np.outer(frequency, np.arange(1, len(half))) / side) @ half[1:]
    passed = frequency[np.abs(factor) > 1e-3]
    waves = np.cos(np.pi * np.outer(passed, np.arange(side) + 0.5) / side)
    waves *= np.sqrt(np.abs(factor[passed]) * np.where(passed == 0, 1, 2) / side)[:, None]
    return np.asarray(waves, np.float32)


def _maps_back(keys: Keys, height: int, width: int, reach: float) -> NDArray[np.float64]:
    """(n, 2, 3): affine maps output (y, x, 1) -> input (y, x) that undo a random move of three corners of a square."""
    centre, size = np.array([height // 2, width // 2]), min(height, width) // 3
    corners = centre + size * np.array([[1, 1], [-1, 1], [-1, -1]])
    moved = corners + reach * (2 * first_uniforms(keys, 6).reshape(-1, 3, 2) - 1)
    from_moved = np.linalg.inv(np.concatenate([moved, np.ones((len(keys), 3, 1))], axis=2))
    return np.ascontiguousarray(np.swapaxes(from_moved @ corners, 1, 2))


@compiled
def _filtered(field, down, across, sums, out):  # type: ignore[no-untyped-def]
    """The part of a field that the waves of both sides span."""
    height, width = field.shape
    out[:] = 0
    line = np.empty(width, np.float32)
    for k in range(down.shape[0]):
        line[:] = 0
        for y in range(height):
            row, weight = field[y], down[k, y]
            for x in range(width):
                line[x] += weight * row[x]
        for j in range(across.shape[0]):
            wave = across[j]
            total = np.float32(0)
            for x in range(width):
                total += wave[x] * line[x]
            sums[j] = total
        line[:] = 0
        for j in range(across.shape[0]):
            wave, weight = across[j], sums[j]
            for x in range(width):
                line[x] += weight * wave[x]
        for y in range(height):
            row, weight = out[y], down[k, y]
            for x in range(width):
                row[x] += weight * line[x]


@compiled
def _elastic(images, channels, keys, maps, strength, half, waves, out):  # type: ignore[no-untyped-def]
    down, across = waves
    n, height, wide = images.shape
    width = wide // channels
    moved, scratch = np.empty((height, wide), np.float32), np.empty((height, width), np.float32)
    raw, sums = np.empty((height, width), np.float32), np.empty(max(across.shape[0], 1), np.float32)
    positions = np.empty((2, height, width), np.float32)
    for i in range(n):
        back = maps[i]
        for y in range(height):
            for x in range(width):
                positions[0, y, x] = back[0, 0] * y + back[0, 1] * x + back[0, 2]
                positions[1, y, x] = back[1, 0] * y + back[1, 1] * x + back[1, 2]
        warp(images[i], channels, positions[0], positions[1], REFLECT_101, moved)
        if strength == 0:
            copy(moved, out[i])
            continue
        for axis in range(2):
            for y in range(height):
                for x in range(width):
                    counter = _FIELD_COUNTER + (axis * height + y) * width + x
                    raw[y, x] = strength * np.float32(2 * uniform(keys[i], counter) - 1)
            if down.shape[0] > 0:
                _filtered(raw, down, across, sums, positions[axis])
            else:
                smooth(raw, GREY, half, REFLECT, scratch, positions[axis])
        for y in range(height):
            for x in range(width):
                positions[0, y, x] += y
                positions[1, y, x] += x
        warp(moved, channels, positions[0], positions[1], REFLECT, out[i])
