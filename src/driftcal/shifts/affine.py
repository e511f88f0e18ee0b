"""The nine affine shifts: rotations, shear, translations and zooms, ten levels each.

Tomani et al. 2021, appendix, table of perturbation parameters. Coordinates are (row, column) about the image's centre;
x is the row axis. The map goes from output to input positions, so a zoom of 0.5 magnifies twice.
Values between pixels are bilinear. Outside the image, the edge is repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from driftcal.shifts.arguments import as_step
from driftcal.shifts.shift import shift_images
from driftcal.types import AnyArray, Float64, Images

_PIXELS = tuple(float(2 * i) for i in range(10))
_ZOOMS = tuple((10 - i) / 10 for i in range(10))

#: name -> parameter at levels 0 to 9: degrees, pixels of a side of 32, or zoom
AFFINE: dict[str, tuple[float, ...]] = {
    "rot_left": (0.0, *(360.0 - 10 * i for i in range(1, 10))),
    "rot_right": tuple(10.0 * i for i in range(10)),
    "shear": tuple(10.0 * i for i in range(10)),
    "xyshift": _PIXELS,
    "xshift": _PIXELS,
    "yshift": _PIXELS,
    "xyzoom": _ZOOMS,
    "xzoom": _ZOOMS,
    "yzoom": _ZOOMS,
}

_SIDE = 32  # the paper's translations are pixels of images with this side


def affine_map(name: str, level: int, height: int, width: int) -> tuple[Float64, Float64]:
    """(matrix, offset) of the map: input (row, column) = matrix @ output (row, column) + offset, counted from a corner.

    >>> affine_map("xyzoom", 5, 33, 33)[0].tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    value = AFFINE[name][level]
    matrix, translation = np.eye(2), np.zeros(2)
    if name.endswith("shift"):
        down, right = "x" in name[:2], "y" in name[:2]
        translation = np.array([value * height / _SIDE * down, value * width / _SIDE * right])
    elif name.endswith("zoom"):
        matrix = np.diag([value if "x" in name[:2] else 1.0, value if "y" in name[:2] else 1.0])
    else:
        sine, cosine = math.sin(math.radians(value)), math.cos(math.radians(value))
        matrix = np.array([[1, -sine], [0, cosine]] if name == "shear" else [[cosine, -sine], [sine, cosine]])
    centre = (np.array([height, width]) - 1) / 2
    return matrix, centre + translation - matrix @ centre


@dataclass(frozen=True)
class Affine:
    """One of the nine affine shifts; level 0 is the identity, level 9 the strongest."""

    name: str
    levels: ClassVar[tuple[int, ...]] = tuple(range(10))

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The transformed images; nothing is random, the seed is only checked."""
        step = as_step(level, self.levels, self.name)
        if step == 0:
            return shift_images(inputs, self.name, seed, indices, None)
        from driftcal.shifts.affine_kernel import interpolate

        def fill(block: Images, out: Images, keys: Any) -> None:
            interpolate(block, _lookup_table(self.name, step, *block.shape[1:]), out)

        return shift_images(inputs, self.name, seed, indices, fill)

    def label(self, level: float) -> str:
        """The meaning of a level: degrees, a part of the side, or a factor.

        >>> Affine("rot_left").label(4), Affine("xshift").label(4), Affine("xyzoom").label(5)
        ('40°', '8/32', '×2')
        """
        value = AFFINE[self.name][as_step(level, self.levels, self.name)]
        if self.name.endswith("shift"):
            return f"{value:g}/{_SIDE}"
        if self.name.endswith("zoom"):
            return f"×{1 / value:.3g}"
        return f"{(360 - value) % 360 if self.name == 'rot_left' else value:g}°"


@lru_cache(maxsize=128)
def _lookup_table(name: str, level: int, height: int, width: int, channels: int) -> tuple[NDArray[Any], ...]:
    """For each output pixel: the position of its upper left neighbour in the flat input, and four bilinear weights."""
    matrix, offset = affine_map(name, level, height, width)
    grid = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij")).reshape(2, -1)
    sides = np.array([[height], [width]])
    position = np.clip(matrix @ grid + offset[:, None], 0, sides - 1)
    corner = np.minimum(position.astype(np.int64), np.maximum(sides - 2, 0))
    down, right = position - corner
    weights = np.stack([(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right], axis=1)
    return ((corner[0] * width + corner[1]) * channels).astype(np.int32), weights.astype(np.float32)
