"""Brightness, contrast, saturation and pixelation: each image by itself, without randomness."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from driftcal.shifts.corruptions.blur import rows_of
from driftcal.shifts.corruptions.filters import compiled
from driftcal.shifts.corruptions.noise import Keys
from driftcal.types import Images


def brightness(images: Images, out: Images, keys: Keys, added: float) -> None:
    """Add to the value of HSV. Hue and saturation stay, so the whole pixel is scaled; grey images shift."""
    _brightness(images, out, np.float32(added))


def contrast(images: Images, out: Images, keys: Keys, factor: float) -> None:
    """Shrink the distance to the mean of the image, channel by channel."""
    _contrast(rows_of(images), images.shape[3], np.float32(factor), rows_of(out))


def saturate(images: Images, out: Images, keys: Keys, factor: float, added: float) -> None:
    """Scale and raise the saturation of HSV; a grey image has none and stays as it is."""
    if images.shape[3] == 1:
        out[...] = images
    else:
        _saturate(images, out, np.float32(factor), np.float32(added))


def pixelate(images: Images, out: Images, keys: Keys, share: float) -> None:
    """Shrink by averaging boxes, enlarge by repeating them."""
    height, width, channels = images.shape[1:]
    _pixelate(rows_of(images), *_boxes(height, share, 1), *_boxes(width, share, channels), rows_of(out))


@lru_cache(maxsize=64)
def _boxes(side: int, share: float, channels: int) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """The box each value is averaged into (by pixel centres, as Pillow does), 1 / its size, the box each value shows."""
    boxes = max(1, int(side * share))
    scale = side / boxes
    ends = np.minimum(((np.arange(boxes) + 1) * scale + 0.5).astype(np.int64), side)
    into = np.searchsorted(ends, np.arange(side), side="right")
    shown = ((np.arange(side) + 0.5) / scale).astype(np.int64)
    share_of = np.repeat(1 / np.bincount(into, minlength=boxes), channels).astype(np.float32)
    channel = np.tile(np.arange(channels), side)
    return np.repeat(into, channels) * channels + channel, share_of, np.repeat(shown, channels) * channels + channel


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
                    # saturation is chroma / value; the distance of each channel to the value scales with it
                    saturation = chroma / value
                    ratio = min(max(saturation * factor + added, np.float32(0)), np.float32(1)) / saturation
                    out[i, y, x, 0] = max(value - (value - red) * ratio, np.float32(0))
                    out[i, y, x, 1] = max(value - (value - green) * ratio, np.float32(0))
                    out[i, y, x, 2] = max(value - (value - blue) * ratio, np.float32(0))
                else:  # a grey pixel has hue 0, which is red
                    out[i, y, x, 0] = value
                    out[i, y, x, 1] = out[i, y, x, 2] = value * (1 - min(added, np.float32(1)))


@compiled
def _pixelate(images, into_y, share_y, shown_y, into_x, share_x, shown_x, out):  # type: ignore[no-untyped-def]
    n, height, wide = images.shape
    total, line = np.empty(wide, np.float32), np.empty(wide, np.float32)
    small = np.empty(share_x.shape[0], np.float32)
    for i in range(n):
        source = target = 0
        for box in range(share_y.shape[0]):
            total[:] = 0
            while source < height and into_y[source] == box:
                row = images[i, source]
                for x in range(wide):
                    total[x] += row[x]
                source += 1
            small[:] = 0
            for x in range(wide):
                small[into_x[x]] += total[x]
            for b in range(small.shape[0]):
                small[b] = min(small[b] * share_y[box] * share_x[b], np.float32(1))
            for x in range(wide):
                line[x] = small[shown_x[x]]
            while target < height and shown_y[target] == box:
                shown = out[i, target]
                for x in range(wide):
                    shown[x] = line[x]
                target += 1
