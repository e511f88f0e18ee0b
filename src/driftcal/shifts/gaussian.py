"""Gaussian noise of any variance: the shift that Algorithm 1 tunes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from driftcal.shifts.arguments import as_strength
from driftcal.shifts.shift import shift_images
from driftcal.types import AnyArray, Images


@dataclass(frozen=True)
class Gaussian:
    """x + sqrt(level) * N(0, 1), clipped to [0, 1]; the level is the variance ε, 0 the identity.

    Tomani et al. 2021, Algorithm 1. All levels use the same standard-normal draw, so accuracy(ε) is one fixed curve.
    ``clip=False`` leaves values outside [0, 1], as the paper did for CIFAR-10.

    >>> import numpy as np
    >>> images = np.full((2, 8, 8, 1), 0.5, np.float32)
    >>> bool(np.array_equal(Gaussian()(images, 0.0), images))
    True
    """

    clip: bool = True
    name: ClassVar[str] = "gaussian"
    levels: ClassVar[None] = None

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The images with noise of variance `level`."""
        variance = as_strength(level, self.name)
        if variance == 0:
            return shift_images(inputs, self.name, seed, indices, None)
        from driftcal.shifts.corruptions import noise

        def fill(block: Images, out: Images, keys: Any) -> None:
            noise.gaussian(block, out, keys, variance, self.clip)

        return shift_images(inputs, self.name, seed, indices, fill)
