"""Images resampled by linear maps of their rows and columns: fewer pixels, soft edges, random crops, smaller objects."""

from __future__ import annotations

import numpy as np

from driftcal.types import Array, Float64, Images

#: Random numbers of an image that place a crop: one for the rows, one for the columns.
_ROW, _COLUMN = 0, 1


def downscale(images: Images, share: float, draws: Float64) -> Array:
    """Sides are reduced to a share with a triangular filter, then enlarged again linearly."""
    return _filtered(images, *(_down_and_up(side, share) for side in images.shape[1:3]))


def soften(images: Images, passes: float, draws: Float64) -> Array:
    """The grid moves by half a pixel and back, linearly interpolated, so many times; each move averages neighbours."""
    return _filtered(images, *(_half_pixel_moves(side, round(passes)) for side in images.shape[1:3]))


def zoom(images: Images, factor: float, draws: Float64) -> Array:
    """A crop of `factor` times the side at a random position, scaled to the size of the image.

    A factor above 1 makes objects smaller: outside the image its mirror image continues it.
    """
    height, width = images.shape[1:3]
    rows = _zoom_weights(height, factor, draws[:, _ROW])
    columns = _zoom_weights(width, factor, draws[:, _COLUMN])
    return _filtered(images, rows, columns[:, None])


def _filtered(images: Images, rows: Array, columns: Array) -> Array:
    """Weights (height, height) applied to the rows of each image, and (width, width) to its columns."""
    n, height, width, channels = images.shape
    flat = images.reshape(n, height, width * channels)
    filtered: Array = np.matmul(columns, np.matmul(rows, flat).reshape(n, height, width, channels))
    return filtered


def _linear_weights(positions: Float64, size: int) -> Array:
    """(..., positions, size): weights of linear interpolation at positions in pixels."""
    weights: Array = np.maximum(0, 1 - np.abs(positions[..., None] - np.arange(size))).astype(np.float32)
    return weights


def _down_and_up(side: int, share: float) -> Array:
    small = max(2, round(share * side))
    ratio = side / small
    centres = (np.arange(small) + 0.5) * ratio - 0.5
    down = np.maximum(0, 1 - np.abs(centres[:, None] - np.arange(side)) / ratio)
    down /= down.sum(axis=1, keepdims=True)
    up = _linear_weights(np.clip((np.arange(side) + 0.5) / ratio - 0.5, 0, small - 1), small)
    weights: Array = (up @ down).astype(np.float32)
    return weights


def _half_pixel_moves(side: int, passes: int) -> Array:
    forward = _linear_weights(np.minimum(np.arange(side) + 0.5, side - 1), side)
    back = _linear_weights(np.maximum(np.arange(side) - 0.5, 0), side)
    weights: Array = np.linalg.multi_dot([np.eye(side, dtype=np.float32), *[back @ forward] * passes, np.eye(side)])
    return weights.astype(np.float32)


def _zoom_weights(side: int, factor: float, draws: Float64) -> Array:
    """(n, side, side): where each output pixel of each image is read."""
    first = draws * (1 - factor) * (side - 1)
    positions = first[:, None] + factor * np.arange(side)
    period = 2 * (side - 1)
    mirrored = np.abs((positions + side - 1) % period - (side - 1))
    return _linear_weights(mirrored, side)
