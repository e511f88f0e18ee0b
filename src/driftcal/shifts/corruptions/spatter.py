"""Spatter: drops of water, or of mud, on the lens.

The published code shades water by the distance to the edges of the drops (Canny's detector). This module follows its
steps on 8-bit values: gradient, thinned edges, distance, equalised histogram, relief.
"""

from __future__ import annotations

import numpy as np

from driftcal.core.random import normal
from driftcal.shifts.corruptions.filters import GREY, NEAREST, Keys, compiled, gaussian_weights, rows_of, smooth
from driftcal.types import Images

_WATER = np.array([175, 238, 238], np.float32) / np.float32(255)
_MUD = np.array([63, 42, 20], np.float32) / np.float32(255)
_LUMINANCE = np.array([0.299, 0.587, 0.114], np.float32)

_WEAK, _STRONG = 50, 150  # Canny's thresholds on |dx| + |dy|
_MAX_DISTANCE = np.float32(20)  # the published code cuts distances here
_WEAK_EDGE, _EDGE = 1, 2  # 0 is no edge; a weak edge becomes an edge if it touches one


def spatter(
    images: Images,
    out: Images,
    keys: Keys,
    mean: float,
    deviation: float,
    sigma: float,
    threshold: float,
    strength: float,
    mud: float,
) -> None:
    """Blurred noise above a threshold is liquid: pale water with relief, or brown mud with soft edges."""
    colour = _MUD if mud else _WATER
    if images.shape[3] == 1:
        colour = np.atleast_1d(colour @ _LUMINANCE)
    edge = gaussian_weights(strength, 4.0)
    noise = (mean, deviation, gaussian_weights(sigma, 4.0), np.float32(threshold))
    _spatter(rows_of(images), keys, noise, colour, np.float32(strength), edge, mud > 0, rows_of(out))


@compiled
def _spatter(images, keys, noise, colour, strength, edge, mud, out):  # type: ignore[no-untyped-def]
    mean, deviation, half, threshold = noise
    channels = colour.shape[0]
    n, height, width = images.shape[0], images.shape[1], images.shape[2] // channels
    liquid, scratch = np.empty((height, width), np.float32), np.empty((height, width), np.float32)
    for i in range(n):
        for y in range(height):
            for x in range(width):
                liquid[y, x] = mean + deviation * normal(keys[i], y * width + x)
        smooth(liquid, GREY, half, NEAREST, scratch, liquid)
        if mud:
            for y in range(height):
                for x in range(width):
                    liquid[y, x] = 1 if liquid[y, x] > threshold else 0
            smooth(liquid, GREY, edge, NEAREST, scratch, liquid)
            for y in range(height):
                for x in range(width):
                    liquid[y, x] = min(liquid[y, x], np.float32(1)) if liquid[y, x] >= 0.8 else 0
        else:
            _water(liquid, threshold, strength)
        for y in range(height):
            for x in range(width):
                cover = liquid[y, x]
                for c in range(channels):
                    value = images[i, y, x * channels + c]
                    value = (value * (1 - cover) if mud else value) + cover * colour[c]
                    out[i, y, x * channels + c] = min(value, np.float32(1))


@compiled
def _water(liquid, threshold, strength):  # type: ignore[no-untyped-def]
    """Turn the amount of liquid at each pixel into the share of the water's colour there, in place."""
    height, width = liquid.shape
    intensity = np.zeros((height, width), np.int32)
    for y in range(height):
        for x in range(width):
            intensity[y, x] = min(int(liquid[y, x] * 255), 255) if liquid[y, x] >= threshold else 0
    distance = _distance(_edges(intensity))
    shade = _equalised(_box(distance))
    relief = np.empty((height, width), np.float32)
    for y in range(height):
        up, down = abs(y - 1), min(y + 1, 2 * (height - 1) - (y + 1))
        for x in range(width):
            left, right = abs(x - 1), min(x + 1, 2 * (width - 1) - (x + 1))
            value = shade[y, x] + shade[y, right] + shade[down, x] + 2 * shade[down, right]
            value -= 2 * shade[up, left] + shade[up, x] + shade[y, left]
            relief[y, x] = min(max(value, np.float32(0)), np.float32(255))
    relief = _box(relief)
    highest = np.float32(0)
    for y in range(height):
        for x in range(width):
            liquid[y, x] = intensity[y, x] * relief[y, x]
            highest = max(highest, liquid[y, x])
    if highest > 0:
        for y in range(height):
            for x in range(width):
                liquid[y, x] *= strength / highest


@compiled
def _edges(plane):  # type: ignore[no-untyped-def]
    """Canny 1986: `_EDGE` where the gradient is largest across the edge, and strong or connected to a strong one."""
    height, width = plane.shape
    dx, dy = np.zeros((height, width), np.int32), np.zeros((height, width), np.int32)
    size = np.zeros((height + 2, width + 2), np.int32)  # of the gradient, with a border of 0
    for y in range(height):
        up, down = plane[max(y - 1, 0)], plane[min(y + 1, height - 1)]
        row = plane[y]
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            dx[y, x] = up[right] + 2 * row[right] + down[right] - up[left] - 2 * row[left] - down[left]
            dy[y, x] = down[left] + 2 * down[x] + down[right] - up[left] - 2 * up[x] - up[right]
            size[y + 1, x + 1] = abs(dx[y, x]) + abs(dy[y, x])
    edges = np.zeros((height + 2, width + 2), np.int8)
    stack = np.empty((height * width, 2), np.int32)
    top = 0
    for y in range(height):
        for x in range(width):
            magnitude = size[y + 1, x + 1]
            if magnitude <= _WEAK:
                continue
            across, along = abs(dx[y, x]), abs(dy[y, x])
            if along < 0.41421356 * across:  # tan 22.5°: the gradient is compared with its neighbours along itself
                peak = magnitude > size[y + 1, x] and magnitude >= size[y + 1, x + 2]
            elif along > 2.41421356 * across:
                peak = magnitude > size[y, x + 1] and magnitude >= size[y + 2, x + 1]
            else:
                sign = -1 if (dx[y, x] < 0) != (dy[y, x] < 0) else 1
                peak = magnitude > size[y, x + 1 - sign] and magnitude > size[y + 2, x + 1 + sign]
            if peak:
                edges[y + 1, x + 1] = _WEAK_EDGE
                if magnitude > _STRONG:
                    edges[y + 1, x + 1] = _EDGE
                    stack[top, 0], stack[top, 1] = y + 1, x + 1
                    top += 1
    while top > 0:
        top -= 1
        y, x = stack[top, 0], stack[top, 1]
        for v in range(y - 1, y + 2):
            for u in range(x - 1, x + 2):
                if edges[v, u] == _WEAK_EDGE:
                    edges[v, u] = _EDGE
                    stack[top, 0], stack[top, 1] = v, u
                    top += 1
    return edges[1 : height + 1, 1 : width + 1]


@compiled
def _distance(edges):  # type: ignore[no-untyped-def]
    """Distance to the nearest edge, at most 20, by steps of 1, 1.4 and 2.1969 (Borgefors 1986), two sweeps."""
    height, width = edges.shape
    a, b, c = np.float32(1), np.float32(1.4), np.float32(2.1969)  # to the side, diagonally, and a knight's move
    d = np.full((height + 4, width + 4), _MAX_DISTANCE, np.float32)
    for y in range(2, height + 2):
        for x in range(2, width + 2):
            if edges[y - 2, x - 2] == _EDGE:
                d[y, x] = 0
                continue
            near = min(d[y - 1, x], d[y, x - 1]) + a
            near = min(near, min(d[y - 1, x - 1], d[y - 1, x + 1]) + b)
            knight = min(min(d[y - 2, x - 1], d[y - 2, x + 1]), min(d[y - 1, x - 2], d[y - 1, x + 2]))
            d[y, x] = min(min(near, knight + c), _MAX_DISTANCE)
    for y in range(height + 1, 1, -1):
        for x in range(width + 1, 1, -1):
            near = min(d[y + 1, x], d[y, x + 1]) + a
            near = min(near, min(d[y + 1, x - 1], d[y + 1, x + 1]) + b)
            knight = min(min(d[y + 2, x - 1], d[y + 2, x + 1]), min(d[y + 1, x - 2], d[y + 1, x + 2]))
            d[y, x] = min(d[y, x], min(near, knight + c))
    return d[2 : height + 2, 2 : width + 2]


@compiled
def _box(plane):  # type: ignore[no-untyped-def]
    """Mean of 3 x 3 pixels, mirrored at the border."""
    height, width = plane.shape
    out, line = np.empty((height, width), np.float32), np.empty(width, np.float32)
    for y in range(height):
        up, middle = plane[abs(y - 1)], plane[y]
        down = plane[min(y + 1, 2 * (height - 1) - (y + 1))]
        for x in range(width):
            line[x] = (up[x] + middle[x] + down[x]) / np.float32(9)
        for x in range(1, width - 1):
            out[y, x] = line[x - 1] + line[x] + line[x + 1]
        out[y, 0] = line[0] + 2 * line[1]
        out[y, width - 1] = line[width - 1] + 2 * line[width - 2]
    return out


@compiled
def _equalised(plane):  # type: ignore[no-untyped-def]
    """Histogram equalisation of whole distances 0..20 to 0..255."""
    count = np.zeros(32, np.int64)
    for y in range(plane.shape[0]):
        for x in range(plane.shape[1]):
            count[int(plane[y, x])] += 1
    lowest = 0
    while count[lowest] == 0:
        lowest += 1
    others = plane.size - count[lowest]
    table, cumulative = np.zeros(32, np.float32), 0
    for v in range(lowest, 32):
        cumulative += count[v] if v > lowest else 0
        table[v] = np.floor(cumulative * 255.0 / others + 0.5) if others > 0 else np.float32(v)
    out = np.empty(plane.shape, np.float32)
    for y in range(plane.shape[0]):
        for x in range(plane.shape[1]):
            out[y, x] = table[int(plane[y, x])]
    return out
