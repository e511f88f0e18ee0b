"""Snow and fog."""

from __future__ import annotations

import numpy as np

from driftcal.core.random import normal, uniform
from driftcal.shifts.corruptions.filters import GREY, Keys, compiled, enlarge, rows_of, streak, zoom_steps
from driftcal.types import Images

_START = np.int64(0)  # typed, because `enlarge` would be compiled once more for a plain 0


def snow(
    images: Images,
    out: Images,
    keys: Keys,
    mean: float,
    deviation: float,
    zoom: float,
    threshold: float,
    radius: float,
    sigma: float,
    kept: float,
) -> None:
    """Whiten the image and add flakes: enlarged noise above a threshold, streaked downwards at a random angle."""
    height, width, channels = images.shape[1:]
    down, across = zoom_steps(height, zoom), zoom_steps(width, zoom)
    zoom_down, zoom_across = (down.length, down.left, down.share), (across.length, across.left, across.share)
    flakes = (mean, deviation, threshold, int(radius), sigma)
    _snow(rows_of(images), channels, keys, zoom_down, zoom_across, flakes, np.float32(kept), rows_of(out))


def fog(images: Images, out: Images, keys: Keys, thickness: float, decay: float) -> None:
    """Add a fractal cloud and scale the sum back to the range of the image."""
    size = 1 << (max(images.shape[1:3]) - 1).bit_length()
    _fog(rows_of(images), images.shape[3], keys, size, np.float32(thickness), decay, rows_of(out))


@compiled
def _snow(images, channels, keys, zoom_down, zoom_across, flake, kept, out):  # type: ignore[no-untyped-def]
    small_height, left_y, share_y = zoom_down
    small_width, left_x, share_x = zoom_across
    mean, deviation, threshold, radius, sigma = flake
    n, height, wide = images.shape
    width = wide // channels
    small, row = np.empty((small_height, small_width), np.float32), np.empty(small_width, np.float32)
    flakes, layer = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    for i in range(n):
        for y in range(small_height):
            for x in range(small_width):
                small[y, x] = mean + deviation * normal(keys[i], 1 + y * small_width + x)
        enlarge(small, GREY, (_START, left_y, share_y), (_START, left_x, share_x), row, flakes, False)
        for y in range(height):
            for x in range(width):
                flakes[y, x] = min(max(flakes[y, x], np.float32(0)), np.float32(1)) if flakes[y, x] >= threshold else 0
        streak(flakes, GREY, -135 + 90 * uniform(keys[i], 0), sigma, radius, layer)
        for y in range(height):
            for x in range(width):
                first = x * channels
                grey = images[i, y, first]
                if channels == 3:
                    red, green, blue = images[i, y, first], images[i, y, first + 1], images[i, y, first + 2]
                    grey = np.float32(0.299) * red + np.float32(0.587) * green + np.float32(0.114) * blue
                white = grey * np.float32(1.5) + np.float32(0.5)
                fallen = layer[y, x] + layer[height - 1 - y, width - 1 - x]
                for c in range(channels):
                    value = images[i, y, first + c]
                    value = kept * value + (1 - kept) * max(value, white) + fallen
                    out[i, y, first + c] = min(max(value, np.float32(0)), np.float32(1))


@compiled
def _cloud(key, size, decay, cloud):  # type: ignore[no-untyped-def]
    """The diamond-square algorithm on a torus (Fournier et al. 1982): each half step adds noise, smaller by decay²."""
    cloud[0, 0] = 0
    step, amplitude, counter, wrap = size, 100.0, 0, size - 1  # size is a power of two, so `& wrap` is `% size`
    while step >= 2:
        half = step // 2
        reach = amplitude * amplitude
        for y in range(0, size, step):
            for x in range(0, size, step):
                down, right = (y + step) & wrap, (x + step) & wrap
                total = cloud[y, x] + cloud[down, x] + cloud[y, right] + cloud[down, right]
                cloud[y + half, x + half] = total / 4 + reach * (2 * uniform(key, counter) - 1)
                counter += 1
        for y in range(0, size, step):
            for x in range(0, size, step):
                centre = cloud[y + half, x + half]
                above, before = cloud[(y - half) & wrap, x + half], cloud[y + half, (x - half) & wrap]
                corner, down, right = cloud[y, x], cloud[(y + step) & wrap, x], cloud[y, (x + step) & wrap]
                cloud[y, x + half] = (centre + above + corner + right) / 4 + reach * (2 * uniform(key, counter) - 1)
                cloud[y + half, x] = (centre + before + corner + down) / 4 + reach * (2 * uniform(key, counter + 1) - 1)
                counter += 2
        step = half
        amplitude /= decay
    low = high = cloud[0, 0]
    for y in range(size):
        for x in range(size):
            low, high = min(low, cloud[y, x]), max(high, cloud[y, x])
    for y in range(size):
        for x in range(size):
            cloud[y, x] = (cloud[y, x] - low) / max(high - low, np.float32(1e-12))


@compiled
def _fog(images, channels, keys, size, thickness, decay, out):  # type: ignore[no-untyped-def]
    cloud = np.empty((size, size), np.float32)
    for i in range(images.shape[0]):
        _cloud(keys[i], size, decay, cloud)
        brightest = np.float32(0)
        for y in range(images.shape[1]):
            for x in range(images.shape[2]):
                brightest = max(brightest, images[i, y, x])
        factor = brightest / (brightest + thickness)
        for y in range(images.shape[1]):
            for x in range(images.shape[2] // channels):
                added = thickness * cloud[y, x]
                for c in range(channels):
                    value = (images[i, y, x * channels + c] + added) * factor
                    out[i, y, x * channels + c] = min(value, np.float32(1))
