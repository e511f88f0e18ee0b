"""Noise and eight other ways to drift, one for each image: a tuning shift for calibrators that shall meet any drift.

Gaussian noise alone teaches what noise does to a model, and noise is one of the worst things that happen to it. None of
the eight is among the shifts of the suites, so that these stay what they are: drift that tuning has never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from driftcal.core.images import as_indices, as_strength
from driftcal.shifts.gaussian import Gaussian
from driftcal.shifts.shift import sample_keys, shift_images
from driftcal.types import AnyArray, Array, Float64, Images

#: Tiles along a side, and the grid that smooth clouds are drawn on.
_TILES, _GRID = 8, 5


@dataclass(frozen=True)
class Varied:
    """Each image gets one of `WAYS` or Gaussian noise, chosen by (seed, index), of strength s = sqrt(level).

    The level is the variance ε of the noise; the other ways are scaled so that they hurt about as much at the same level.
    They end somewhere: an image cannot be covered more than wholly, so accuracy need not fall to chance.

    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((40, 32, 32, 3), np.float32)
    >>> drifted = Varied()(images, 0.02, seed=1)
    >>> bool(np.array_equal(Varied()(images[7:9], 0.02, seed=1, indices=[7, 8]), drifted[7:9]))
    True
    """

    name: ClassVar[str] = "varied"
    levels: ClassVar[None] = None

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The images, each drifted in its own way."""
        strength = float(np.sqrt(as_strength(level, self.name)))
        out = shift_images(inputs, self.name, seed, indices, None)
        if strength == 0:
            return out
        from driftcal.core.random import first_uniforms  # compiles: not needed to list shifts

        places = as_indices(indices, len(out))
        height, _, channels = out.shape[1:]
        keys = sample_keys(self.name, seed, places)
        draws = first_uniforms(keys, 6 + max(2 * _TILES**2, height, channels * _GRID**2))
        way = (draws[:, 0] * (len(WAYS) + 1)).astype(np.int64)
        for number, function in enumerate(WAYS.values()):
            mine = np.flatnonzero(way == number)
            if len(mine):
                out[mine] = np.clip(function(out[mine], strength, draws[mine, 1:]), 0, 1)
        noisy = np.flatnonzero(way == len(WAYS))
        if len(noisy):
            out[noisy] = Gaussian()(out[noisy], strength**2, seed=seed, indices=places[noisy])
        return out


def _cover(images: Images, strength: float, draws: Float64) -> Array:
    """A square of one colour."""
    height, width, channels = images.shape[1:]
    share = min(1.0, 2.2 * strength)
    tall, wide = max(1, round(share * height)), max(1, round(share * width))
    top = (draws[:, 0] * (height - tall + 1)).astype(int)[:, None]
    left = (draws[:, 1] * (width - wide + 1)).astype(int)[:, None]
    rows, columns = np.arange(height), np.arange(width)
    inside = ((rows >= top) & (rows < top + tall))[:, :, None] & ((columns >= left) & (columns < left + wide))[:, None]
    return np.where(inside[..., None], draws[:, None, None, 2 : 2 + channels], images)


def _ghost(images: Images, strength: float, draws: Float64) -> Array:
    """The image over itself, upside down."""
    share = min(0.6, 2.0 * strength)
    return (1 - share) * images + share * images[:, ::-1]


def _shuffle(images: Images, strength: float, draws: Float64) -> Array:
    """Some tiles of a chessboard change places."""
    n, height, width, _ = images.shape
    rows, columns = (np.arange(size) * _TILES // size for size in (height, width))
    out = images.copy()
    moved = draws[:, 5 : 5 + _TILES**2] < min(1.0, 2.5 * strength)
    order = draws[:, 5 + _TILES**2 : 5 + 2 * _TILES**2]
    tall, wide = height // _TILES, width // _TILES
    if not tall or not wide:  # fewer pixels than tiles: nothing to move
        return out
    first_row, first_column = (np.searchsorted(side, np.arange(_TILES)) for side in (rows, columns))
    for i in range(n):
        tiles = np.flatnonzero(moved[i])
        for to, of in zip(tiles, tiles[np.argsort(order[i, tiles])], strict=True):
            (a, b), (c, d) = divmod(int(to), _TILES), divmod(int(of), _TILES)
            y, x, v, u = first_row[a], first_column[b], first_row[c], first_column[d]
            out[i, y : y + tall, x : x + wide] = images[i, v : v + tall, u : u + wide]
    return out


def _solarise(images: Images, strength: float, draws: Float64) -> Array:
    """Bright values are inverted."""
    return np.where(images > max(0.2, 1 - 2.5 * strength), 1 - images, images)


def _posterise(images: Images, strength: float, draws: Float64) -> Array:
    """Few different values are left."""
    steps = max(1.0, 0.45 / strength)
    return np.round(images * steps) / steps


def _cloud(images: Images, strength: float, draws: Float64) -> Array:
    """A smooth random field of each colour is added."""
    from scipy.special import ndtri

    n, height, width, channels = images.shape
    field = ndtri(np.clip(draws[:, 5 : 5 + channels * _GRID**2], 1e-9, 1 - 1e-9)).reshape(n, _GRID, _GRID, channels)
    down, across = _between(height), _between(width)
    clouded: Array = images + 1.8 * strength * np.einsum("hg,ngkc,wk->nhwc", down, field, across, optimize=True)
    return clouded


def _between(size: int) -> Float64:
    """(size, grid): straight lines between the points of the grid."""
    place = np.linspace(0, _GRID - 1, size)
    shares: Float64 = np.maximum(0, 1 - np.abs(place[:, None] - np.arange(_GRID)))
    return shares


def _jitter(images: Images, strength: float, draws: Float64) -> Array:
    """Every row slips sideways by its own distance."""
    height, width = images.shape[1:3]
    slip = np.round((2 * draws[:, 5 : 5 + height] - 1) * 0.8 * strength * width).astype(int)
    source = (np.arange(width) - slip[..., None]) % width
    return np.take_along_axis(images, source[..., None], axis=2)


def _recolour(images: Images, strength: float, draws: Float64) -> Array:
    """Colours take each other's place; a grey image darkens."""
    if images.shape[-1] == 1:
        return np.asarray(images ** (1 + 8 * strength))
    share = min(1.0, 4 * strength)
    return (1 - share) * images + share * images[..., [2, 0, 1]]


#: Name -> (images, strength, random numbers in [0, 1)) -> images.
WAYS: dict[str, Callable[[Images, float, Float64], Array]] = {
    "cover": _cover,
    "ghost": _ghost,
    "shuffle": _shuffle,
    "solarise": _solarise,
    "posterise": _posterise,
    "cloud": _cloud,
    "jitter": _jitter,
    "recolour": _recolour,
}
