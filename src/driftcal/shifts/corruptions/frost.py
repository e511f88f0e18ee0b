"""Frost on a window, without the photographs of the published data sets.

Six textures of ice feathers are drawn once. They have the brightness, colours and spectrum that were measured on the
six published photographs. Each image gets a random crop of one texture, as in the published code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from driftcal.core.random import first_uniforms
from driftcal.shifts.corruptions.filters import Keys, compiled
from driftcal.types import Images

_SIDE = 512  # textures repeat after this many pixels
_MARGIN = 96  # space for feathers that cross the edge
_RANKS = (0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1)  # quantiles at which brightness was measured


@dataclass(frozen=True)
class _Photograph:
    """Measurements of a published photograph, and the feathers that are drawn for it."""

    mean: tuple[float, float, float]  # of red, green, blue
    deviation: tuple[float, float, float]  # standard deviation of red, green, blue
    brightness: tuple[float, ...]  # at the quantiles _RANKS
    power_changes: tuple[float, ...]  # of log2 power from each octave to the next
    n_feathers: int
    longest: float  # feather, in pixels


_PALE = _Photograph(
    (0.787, 0.805, 0.841), (0.084, 0.087, 0.089), (0.3, 0.55, 0.70, 0.76, 0.82, 0.87, 0.91, 0.96, 1.0),
    (-2.85, -1.47, -0.53, -1.93, -2.00, -2.30), 420, 60,
)  # fmt: skip
_PHOTOGRAPHS = (
    _Photograph(
        (0.305, 0.585, 0.650), (0.106, 0.065, 0.060), (0.3, 0.38, 0.43, 0.46, 0.51, 0.56, 0.61, 0.70, 0.9),
        (-4.06, -2.37, -2.13, -1.39, -0.73, -1.56), 60, 90,
    ),
    _PALE,
    _PALE,
    _Photograph(
        (0.540, 0.599, 0.648), (0.112, 0.112, 0.117), (0.1, 0.32, 0.45, 0.53, 0.60, 0.66, 0.73, 0.92, 1.0),
        (-5.02, -2.64, -0.33, -1.08, -1.04, -1.75), 160, 30,
    ),
    _Photograph(
        (0.441, 0.484, 0.528), (0.174, 0.170, 0.163), (0.05, 0.18, 0.28, 0.36, 0.47, 0.59, 0.72, 0.93, 1.0),
        (-2.66, -1.49, -1.86, -1.89, -2.01, -1.98), 330, 45,
    ),
    _Photograph(
        (0.280, 0.374, 0.410), (0.138, 0.168, 0.186), (0.0, 0.06, 0.15, 0.22, 0.35, 0.47, 0.57, 0.73, 1.0),
        (-3.17, -2.92, -0.80, -2.33, -1.69, -2.24), 70, 95,
    ),
)  # fmt: skip


def frost(images: Images, out: Images, keys: Keys, kept: float, added: float, scale: float) -> None:
    """kept * image + added * frost; the frost is a random crop, shrunk by `scale`."""
    textures = frost_textures()
    if images.shape[3] == 1:
        textures = _grey_textures()
    crop = (first_uniforms(keys, 3) * (len(textures), _SIDE, _SIDE)).astype(np.int64)
    _frost(images, textures, crop, round(1 / scale), np.float32(kept), np.float32(added), out)


@lru_cache(maxsize=1)
def frost_textures() -> NDArray[np.float32]:
    """(6, 512, 512, 3) in [0, 1], periodic, the same on every machine up to rounding."""
    return np.stack([_texture(photograph, seed) for seed, photograph in enumerate(_PHOTOGRAPHS)])


@lru_cache(maxsize=1)
def _grey_textures() -> NDArray[np.float32]:
    return np.asarray(frost_textures() @ np.array([[0.299], [0.587], [0.114]], np.float32), np.float32)


def _texture(photograph: _Photograph, seed: int) -> NDArray[np.float32]:
    """A drawn texture with the measurements of a photograph."""
    field = _feathers(photograph, seed)
    for _ in range(2):
        field = _with_brightness(_with_spectrum(field, photograph.power_changes), photograph.brightness)
    field = (field - field.mean()) / field.std()
    colours = np.array(photograph.mean) + field[..., None] * np.array(photograph.deviation)
    return np.asarray(np.clip(colours, 0, 1), np.float32)


def _feathers(photograph: _Photograph, seed: int) -> NDArray[np.float64]:
    """Needles with side branches, as ice grows, and a little noise; opposite edges match."""
    from PIL import Image, ImageDraw

    rng = np.random.Generator(np.random.Philox(seed))
    full = _SIDE + 2 * _MARGIN
    canvas = Image.new("L", (full, full))
    draw = ImageDraw.Draw(canvas)
    for _ in range(photograph.n_feathers):
        x, y = rng.uniform(_MARGIN, _MARGIN + _SIDE, 2)
        length = rng.uniform(0.3, 1) * photograph.longest
        angle = rng.uniform(0, 2 * math.pi)
        light = rng.uniform(60, 255)
        branch_angle = rng.uniform(0.5, 1.1)
        dx, dy = math.cos(angle), math.sin(angle)
        draw.line((x, y, x + length * dx, y + length * dy), fill=int(light), width=2)
        for step in np.arange(3, length, 4.0):
            branch = 0.45 * (length - step) * rng.uniform(0.6, 1)
            for side in (-branch_angle, branch_angle):
                bx, by = x + step * dx, y + step * dy
                end = (bx + branch * math.cos(angle + side), by + branch * math.sin(angle + side))
                draw.line((bx, by, *end), fill=int(light * rng.uniform(0.5, 1)))
    drawn = np.asarray(canvas, np.float64)
    for axis in (0, 1):  # what crosses an edge comes in at the opposite one
        drawn = np.moveaxis(drawn, axis, 0)
        low, middle, high = np.split(drawn, [_MARGIN, _MARGIN + _SIDE])
        middle = middle.copy()
        middle[-_MARGIN:] = np.maximum(middle[-_MARGIN:], low)
        middle[:_MARGIN] = np.maximum(middle[:_MARGIN], high)
        drawn = np.moveaxis(middle, 0, axis)
    return np.asarray(drawn + rng.normal(0, 12, drawn.shape))


def _with_spectrum(field: NDArray[np.float64], power_changes: tuple[float, ...]) -> NDArray[np.float64]:
    """Keep the phases and set the power of each ring of frequencies; octaves count from 1.4 periods per 256 pixels."""
    transform = np.fft.rfft2(field - field.mean())
    frequency = np.hypot(np.fft.fftfreq(_SIDE)[:, None], np.fft.rfftfreq(_SIDE)[None])
    octave = np.log2(np.maximum(frequency, 1 / _SIDE) * 256 / math.sqrt(2))
    octave_log2_power = np.concatenate([[0], np.cumsum(power_changes)])
    target_log_power = np.interp(octave, np.arange(len(octave_log2_power)), octave_log2_power) * math.log(2)
    ring = np.clip((octave * 6 + 12).astype(int), 0, 63)  # six rings per octave
    ring_size = np.maximum(np.bincount(ring.ravel(), None, 64), 1)
    power = np.bincount(ring.ravel(), (np.abs(transform) ** 2).ravel(), 64) / ring_size
    ring_log_power = np.bincount(ring.ravel(), target_log_power.ravel(), 64) / ring_size
    factor = np.exp(0.5 * ring_log_power) / np.sqrt(np.maximum(power, 1e-30))
    return np.asarray(np.fft.irfft2(transform * factor[ring], field.shape))


def _with_brightness(field: NDArray[np.float64], brightness: tuple[float, ...]) -> NDArray[np.float64]:
    """Map the field so that its values have the measured quantiles."""
    return np.asarray(np.interp(field, np.quantile(field, _RANKS), brightness))


@compiled
def _frost(images, textures, crop, stride, kept, added, out):  # type: ignore[no-untyped-def]
    n, height, width, channels = images.shape
    wrap = textures.shape[1] - 1  # the side is a power of two, so `& wrap` is `% side`
    for i in range(n):
        texture = textures[crop[i, 0]]
        for y in range(height):
            row = texture[(crop[i, 1] + y * stride) & wrap]
            column = crop[i, 2]
            for x in range(width):
                for c in range(channels):
                    out[i, y, x, c] = min(kept * images[i, y, x, c] + added * row[column, c], np.float32(1))
                column = (column + stride) & wrap
