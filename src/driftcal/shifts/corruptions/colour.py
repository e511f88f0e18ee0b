"""Brightness, contrast, saturation and pixelation. None of them is random."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from driftcal.shifts.corruptions.filters import Keys, compiled, rows_of
from driftcal.types import Images


def brightness(images: Images, out: Images, keys: Keys, added: float) -> None:
    """Add to the value of HSV. Hue and saturation stay, so all channels of a pixel are scaled by one factor."""
    _brightness(images, out, np.float32(added))


def contrast(images: Images, out: Images, keys: Keys, factor: float) -> None:
    """Shrink the distance to the mean of the image, channel by channel."""
    _contrast(rows_of(images), images.shape[3], np.float32(factor), rows_of(out))


def saturate(images: Images, out: Images, keys: Keys, factor: float, added: float) -> None:
    """Scale and raise the saturation of HSV; a grey image has no saturation and does not change."""
    if images.shape[3] == 1:
        out[...] = images
    else:
        _saturate(images, out, np.float32(factor), np.float32(added))


def pixelate(images: Images, out: Images, keys: Keys, share: float) -> None:
    """Shrink by averaging boxes, enlarge by repeating them."""
    height, width, channels = images.shape[1:]
    _pixelate(rows_of(images), _boxes(height, share, 1), _boxes(width, share, channels), rows_of(out))


@lru_cache(maxsize=64)
def _boxes(side: int, share: float, channels: int) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """The box into which each value is averaged, 1 / the size of each box, and the box whose mean each value shows.

    Boxes are cut by pixel centres, as Pillow does.
    """
    n_boxes = max(1, int(side * share))
    scale = side / n_boxes
    ends = np.minimum(((np.arange(n_boxes) + 1) * scale + 0.5).astype(np.int64), side)
    averaged = np.searchsorted(ends, np.arange(side), side="right")
    shown = ((np.arange(side) + 0.5) / scale).astype(np.int64)
    weight = np.repeat(1 / np.bincount(averaged, minlength=n_boxes), channels).astype(np.float32)
    channel = np.tile(np.arange(channels), side)
    return np.repeat(averaged, channels) * channels + channel, weight, np.repeat(shown, channels) * channels + channel


@compiled
def _brightness(images, out, added):  # type: ignore[no-untyped-def]
    n, height, width, channels = images.shape
    for i in range(n):
        for y in range(height):
            for x in range(width):
                value = images[i, y, x, 0]
                for c in range(1, channels):
                    value = max(value, images[i, y, x, c])
                brighter = min(value + added, np.float32(1))
                factor = brighter / value if value > 0 else np.float32(0)
                for c in range(channels):
                    out[i, y, x, c] = min(images[i, y, x, c] * factor, np.float32(1)) if value > 0 else brighter


@compiled
def _contrast(images, channels, factor, out):  # type: ignore[no-untyped-def]
    n, height, wide = images.shape
    mean = np.empty(wide, np.float32)
    for i in range(n):
        mean[:] = 0
        for y in range(height):
            row = images[i, y]
            for x in range(wide):
                mean[x] += row[x]
        for c in range(channels):
            total = 0.0
            for x in range(c, wide, channels):
                total += mean[x]
            for x in range(c, wide, channels):
                mean[x] = total / (height * (wide // channels))
        for y in range(height):
            row, target = images[i, y], out[i, y]
            for x in range(wide):
                target[x] = min(max((row[x] - mean[x]) * factor + mean[x], np.float32(0)), np.float32(1))


@compiled
def _saturate(images, out, factor, added):  # type: ignore[no-untyped-def]
    for i in range(images.shape[0]):
        for y in range(images.shape[1]):
            for x in range(images.shape[2]):
                red, green, blue = images[i, y, x, 0], images[i, y, x, 1], images[i, y, x, 2]
                value = max(red, max(green, blue))
                chroma = value - min(red, min(green, blue))
                if chroma > 0:
                    # saturation is chroma / value; the distance of each channel to the value is proportional to it
                    saturation = chroma / value
                    ratio = min(max(saturation * factor + added, np.float32(0)), np.float32(1)) / saturation
                    out[i, y, x, 0] = max(value - (value - red) * ratio, np.float32(0))
                    out[i, y, x, 1] = max(value - (value - green) * ratio, np.float32(0))
                    out[i, y, x, 2] = max(value - (value - blue) * ratio, np.float32(0))
                else:  # a grey pixel has hue 0, which is red
                    out[i, y, x, 0] = value
                    out[i, y, x, 1] = out[i, y, x, 2] = value * (1 - min(added, np.float32(1)))


@compiled
def _pixelate(images, down, across, out):  # type: ignore[no-untyped-def]
    averaged_y, weight_y, shown_y = down
    averaged_x, weight_x, shown_x = across
    n, height, wide = images.shape
    total, line = np.empty(wide, np.float32), np.empty(wide, np.float32)
    means = np.empty(weight_x.shape[0], np.float32)  # of one row of boxes
    for i in range(n):
        source = target = 0
        for box in range(weight_y.shape[0]):
            total[:] = 0
            while source < height and averaged_y[source] == box:
                row = images[i, source]
                for x in range(wide):
                    total[x] += row[x]
                source += 1
            means[:] = 0
            for x in range(wide):
                means[averaged_x[x]] += total[x]
            for b in range(means.shape[0]):
                means[b] = min(means[b] * weight_y[box] * weight_x[b], np.float32(1))
            for x in range(wide):
                line[x] = means[shown_x[x]]
            while target < height and shown_y[target] == box:
                row = out[i, target]
                for x in range(wide):
                    row[x] = line[x]
                target += 1
