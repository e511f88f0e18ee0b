"""Blurs: Gaussian, defocus, motion, zoom and glass."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftcal.core.random import bits, uniform
from driftcal.shifts.corruptions.filters import (
    NEAREST,
    REFLECT_101,
    Keys,
    ZoomSteps,
    border_index,
    clip,
    compiled,
    copy,
    enlarge,
    gaussian_weights,
    rows_of,
    smooth,
    streak,
    zoom_steps,
)
from driftcal.types import Images


def gaussian_blur(images: Images, out: Images, keys: Keys, sigma: float) -> None:
    """Convolution with a Gaussian that ends at four standard deviations; the edge is repeated."""
    _gaussian_blur(rows_of(images), images.shape[3], gaussian_weights(sigma, 4.0), rows_of(out))


def defocus_blur(images: Images, out: Images, keys: Keys, radius: float, edge: float) -> None:
    """Convolution with a disk whose edge is softened by a small Gaussian; the image is mirrored outside."""
    half = np.exp(-0.5 * (np.arange(2 if radius <= 8 else 3) / edge) ** 2)
    half = (half / (2 * half.sum() - half[0])).astype(np.float32)
    _defocus_blur(rows_of(images), images.shape[3], half, _half_widths(radius), rows_of(out))


def motion_blur(images: Images, out: Images, keys: Keys, radius: float, sigma: float) -> None:
    """Blur to one side along a line at a random angle between -45° and 45°."""
    _motion_blur(rows_of(images), images.shape[3], keys, int(radius), sigma, rows_of(out))


def zoom_blur(images: Images, out: Images, keys: Keys, zooms: float, step: float) -> None:
    """The mean of the image and of its enlargements by 1, 1 + step, 1 + 2 step, …"""
    height, width, channels = images.shape[1:]
    factors = [1 + step * i for i in range(int(zooms))]
    down, across = (_stacked([zoom_steps(side, factor) for factor in factors]) for side in (height, width))
    _zoom_blur(rows_of(images), channels, down, across, rows_of(out))


def _stacked(zooms: list[ZoomSteps]) -> tuple[NDArray[Any], ...]:
    """(first, left, share) of several enlargements of one side, each with an axis for the enlargements."""
    return (
        np.array([zoom.first for zoom in zooms]),
        np.stack([zoom.left for zoom in zooms]),
        np.stack([zoom.share for zoom in zooms]),
    )


def glass_blur(images: Images, out: Images, keys: Keys, sigma: float, reach: float, rounds: float) -> None:
    """Blur, replace each pixel by one nearby, and blur again.

    The published code copies one pixel where it should swap two. This function copies as well, as the published data.
    """
    weights = gaussian_weights(sigma, 4.0)
    _glass_blur(rows_of(images), images.shape[3], keys, weights, int(reach), int(rounds), rows_of(out))


@lru_cache(maxsize=32)
def _half_widths(radius: float) -> NDArray[np.int64]:
    """Half the width of the disk in its rows 0, ±1, ±2, …"""
    rows = np.arange(int(radius) + 1)
    return np.asarray(np.floor(np.sqrt(radius**2 - rows**2) + 1e-9), np.int64)


@compiled
def _gaussian_blur(images, channels, half, out):  # type: ignore[no-untyped-def]
    scratch = np.empty(images.shape[1:], np.float32)
    for i in range(images.shape[0]):
        smooth(images[i], channels, half, NEAREST, scratch, out[i])
        clip(out[i])


@compiled
def _defocus_blur(images, channels, half, half_widths, out):  # type: ignore[no-untyped-def]
    n, height, wide = images.shape
    width = wide // channels
    radius = half_widths.shape[0] - 1
    scratch, soft = np.empty((height, wide), np.float32), np.empty((height, wide), np.float32)
    # sums of the mirrored row from its start: the difference of two entries is the sum between them
    running = np.zeros((height, wide + (2 * radius + 1) * channels), np.float32)
    area = half_widths[0] * 2 + 1
    for k in range(1, radius + 1):
        area += 2 * (half_widths[k] * 2 + 1)
    weight = np.float32(1.0 / area)
    for i in range(n):
        smooth(images[i], channels, half, REFLECT_101, scratch, soft)
        for y in range(height):
            for x in range(width + 2 * radius):
                pixel = border_index(x - radius, width, REFLECT_101) * channels
                for c in range(channels):
                    running[y, (x + 1) * channels + c] = running[y, x * channels + c] + soft[y, pixel + c]
        for y in range(height):
            row = out[i, y]
            row[:] = 0
            for k in range(-radius, radius + 1):
                source = running[border_index(y + k, height, REFLECT_101)]
                half_width = half_widths[abs(k)]
                ends = source[(radius + half_width + 1) * channels : (radius + half_width + 1) * channels + wide]
                starts = source[(radius - half_width) * channels : (radius - half_width) * channels + wide]
                for x in range(wide):
                    row[x] += ends[x] - starts[x]
            for x in range(wide):
                row[x] *= weight
        clip(out[i])


@compiled
def _motion_blur(images, channels, keys, radius, sigma, out):  # type: ignore[no-untyped-def]
    for i in range(images.shape[0]):
        streak(images[i], channels, -45 + 90 * uniform(keys[i], 0), sigma, radius, out[i])
        clip(out[i])


@compiled
def _zoom_blur(images, channels, down, across, out):  # type: ignore[no-untyped-def]
    first_y, left_y, share_y = down
    first_x, left_x, share_x = across
    zooms = first_y.shape[0]
    row = np.empty(images.shape[2], np.float32)
    for i in range(images.shape[0]):
        copy(images[i], out[i])
        for z in range(zooms):
            down_z, across_z = (first_y[z], left_y[z], share_y[z]), (first_x[z], left_x[z], share_x[z])
            enlarge(images[i], channels, down_z, across_z, row, out[i], True)
        for y in range(out.shape[1]):
            for x in range(out.shape[2]):
                out[i, y, x] /= np.float32(zooms + 1)
        clip(out[i])


@compiled
def _glass_blur(images, channels, keys, half, reach, rounds, out):  # type: ignore[no-untyped-def]
    n, height, wide = images.shape
    width = wide // channels
    scratch, soft = np.empty((height, wide), np.float32), np.empty((height, wide), np.float32)
    for i in range(n):
        smooth(images[i], channels, half, NEAREST, scratch, soft)
        counter = 0
        for _ in range(rounds):
            for y in range(height - reach, reach, -1):
                for x in range(width - reach, reach, -1):
                    b = bits(keys[i], counter)
                    counter += 1
                    # 32 bits per direction: times 2 * reach, divided by 2^32, is uniform on 0..2 * reach - 1
                    dy = np.int64(((b >> np.uint64(32)) * np.uint64(2 * reach)) >> np.uint64(32)) - reach
                    dx = np.int64(((b & np.uint64(0xFFFFFFFF)) * np.uint64(2 * reach)) >> np.uint64(32)) - reach
                    for c in range(channels):
                        soft[y, x * channels + c] = soft[y + dy, (x + dx) * channels + c]
        smooth(soft, channels, half, NEAREST, scratch, out[i])
        clip(out[i])
