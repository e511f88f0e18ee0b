"""Gaussian noise or one of eight other perturbations for each image: a tuning shift for calibrators under any shift.

Gaussian noise is only one kind of shift. None of the eight perturbations is in a suite, so tuning does not use the
shifts of the suites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from driftcal.shifts.arguments import as_indices, as_strength
from driftcal.shifts.gaussian import Gaussian
from driftcal.shifts.shift import sample_keys, shift_images
from driftcal.types import AnyArray, Array, Float64, Images

#: Tiles along a side, and points along a side of the grid of a smooth random field.
_TILES, _GRID = 8, 5
#: The first random numbers of an image choose positions and colours; those of tiles, rows and grids come after them.
_N_SINGLE_DRAWS = 5


@dataclass(frozen=True)
class Varied:
    """Each image gets Gaussian noise or one of `PERTURBATIONS`, chosen by (seed, index), of strength sqrt(level).

    The level is the variance ε of the noise. The factors in the perturbations were chosen so that all reduce accuracy
    about as much at the same level. Each perturbation has a maximum, so accuracy need not fall to chance.

    >>> import numpy as np
    >>> images = np.random.default_rng(0).random((40, 32, 32, 3), np.float32)
    >>> shifted = Varied()(images, 0.02, seed=1)
    >>> bool(np.array_equal(Varied()(images[7:9], 0.02, seed=1, indices=[7, 8]), shifted[7:9]))
    True
    """

    name: ClassVar[str] = "varied"
    levels: ClassVar[None] = None

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The images, each with its own perturbation."""
        strength = float(np.sqrt(as_strength(level, self.name)))
        out = shift_images(inputs, self.name, seed, indices, None)
        if strength == 0:
            return out
        from driftcal.core.random import first_uniforms  # compiles: not needed to list shifts

        sample_indices = as_indices(indices, len(out))
        keys = sample_keys(self.name, seed, sample_indices)
        draws = first_uniforms(keys, 1 + n_draws_per_image(out.shape))  # the first one chooses the perturbation
        choice = (draws[:, 0] * (len(PERTURBATIONS) + 1)).astype(np.int64)
        for number, perturb in enumerate(PERTURBATIONS.values()):
            chosen = np.flatnonzero(choice == number)
            if len(chosen):
                out[chosen] = np.clip(perturb(out[chosen], strength, draws[chosen, 1:]), 0, 1)
        noisy = np.flatnonzero(choice == len(PERTURBATIONS))
        if len(noisy):
            out[noisy] = Gaussian()(out[noisy], strength**2, seed=seed, indices=sample_indices[noisy])
        return out


def n_draws_per_image(shape: tuple[int, ...]) -> int:
    """How many random numbers a perturbation may use of each image, for images of this shape."""
    height, channels = shape[1], shape[3]
    return _N_SINGLE_DRAWS + max(2 * _TILES**2, height, channels * _GRID**2)


def _cover(images: Images, strength: float, draws: Float64) -> Array:
    """A rectangle of one colour covers a part of the image."""
    height, width, channels = images.shape[1:]
    share = min(1.0, 2.2 * strength)
    box_height, box_width = max(1, round(share * height)), max(1, round(share * width))
    top = (draws[:, 0] * (height - box_height + 1)).astype(int)[:, None]
    left = (draws[:, 1] * (width - box_width + 1)).astype(int)[:, None]
    rows, columns = np.arange(height), np.arange(width)
    in_rows = (rows >= top) & (rows < top + box_height)
    in_columns = (columns >= left) & (columns < left + box_width)
    covered = in_rows[:, :, None] & in_columns[:, None]
    return np.where(covered[..., None], draws[:, None, None, 2 : 2 + channels], images)


def _ghost(images: Images, strength: float, draws: Float64) -> Array:
    """The image is mixed with itself upside down."""
    share = min(0.6, 2.0 * strength)
    return (1 - share) * images + share * images[:, ::-1]


def _shuffle(images: Images, strength: float, draws: Float64) -> Array:
    """Some tiles of a grid change positions."""
    n, height, width, _ = images.shape
    out = images.copy()
    tile_draws = draws[:, _N_SINGLE_DRAWS:]
    moved = tile_draws[:, : _TILES**2] < min(1.0, 2.5 * strength)
    order = tile_draws[:, _TILES**2 : 2 * _TILES**2]
    tile_height, tile_width = height // _TILES, width // _TILES
    if not tile_height or not tile_width:  # fewer pixels than tiles: nothing to move
        return out
    first_row, first_column = (
        np.searchsorted(np.arange(side) * _TILES // side, np.arange(_TILES)) for side in (height, width)
    )

    def pixels(tile: int) -> tuple[slice, slice]:
        row, column = divmod(tile, _TILES)
        top, left = first_row[row], first_column[column]
        return slice(top, top + tile_height), slice(left, left + tile_width)

    for i in range(n):
        tiles = np.flatnonzero(moved[i])
        for target, source in zip(tiles, tiles[np.argsort(order[i, tiles])], strict=True):
            out[i, *pixels(int(target))] = images[i, *pixels(int(source))]
    return out


def _solarise(images: Images, strength: float, draws: Float64) -> Array:
    """Bright values are inverted."""
    return np.where(images > max(0.2, 1 - 2.5 * strength), 1 - images, images)


def _posterise(images: Images, strength: float, draws: Float64) -> Array:
    """Values are rounded to a few."""
    steps = max(1.0, 0.45 / strength)
    return np.round(images * steps) / steps


def _cloud(images: Images, strength: float, draws: Float64) -> Array:
    """A smooth random field of each colour is added."""
    from scipy.special import ndtri

    n, height, width, channels = images.shape
    grid_draws = draws[:, _N_SINGLE_DRAWS:][:, : channels * _GRID**2]
    field = ndtri(np.clip(grid_draws, 1e-9, 1 - 1e-9)).reshape(n, _GRID, _GRID, channels)
    down, across = _linear_weights(height), _linear_weights(width)
    clouded: Array = images + 1.8 * strength * np.einsum("hg,ngkc,wk->nhwc", down, field, across, optimize=True)
    return clouded


def _linear_weights(size: int) -> Float64:
    """(size, grid): weights of linear interpolation between the points of the grid."""
    position = np.linspace(0, _GRID - 1, size)
    weights: Float64 = np.maximum(0, 1 - np.abs(position[:, None] - np.arange(_GRID)))
    return weights


def _jitter(images: Images, strength: float, draws: Float64) -> Array:
    """Every row of pixels moves sideways by its own distance."""
    height, width = images.shape[1:3]
    row_draws = draws[:, _N_SINGLE_DRAWS:][:, :height]
    distance = np.round((2 * row_draws - 1) * 0.8 * strength * width).astype(int)
    source = (np.arange(width) - distance[..., None]) % width
    return np.take_along_axis(images, source[..., None], axis=2)


def _recolour(images: Images, strength: float, draws: Float64) -> Array:
    """Colour channels are exchanged; a grey image becomes darker."""
    if images.shape[-1] == 1:
        return np.asarray(images ** (1 + 8 * strength))
    share = min(1.0, 4 * strength)
    return (1 - share) * images + share * images[..., [2, 0, 1]]


#: name -> function(images, strength, random numbers in [0, 1)) -> images
PERTURBATIONS: dict[str, Callable[[Images, float, Float64], Array]] = {
    "cover": _cover,
    "ghost": _ghost,
    "shuffle": _shuffle,
    "solarise": _solarise,
    "posterise": _posterise,
    "cloud": _cloud,
    "jitter": _jitter,
    "recolour": _recolour,
}
