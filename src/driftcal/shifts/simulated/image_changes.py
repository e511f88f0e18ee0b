"""The changes of images that windowed calibrators are fitted on, each by itself, at five strengths.

None is identical to a shift of the suites, so that a test on these is a test. Close relatives: `darken`, `brighten` and
`gamma_down` of brightness; `fade` of contrast; `downscale` of pixelate; `soften` of gaussian_blur; `crop` of xyzoom, whose
crops are central and smaller; `cloud` of fog; `jitter` of glass_blur; `recolour` of saturate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from driftcal.shifts.arguments import as_indices, as_step
from driftcal.shifts.shift import sample_keys, shift_images
from driftcal.shifts.simulated.resampling import downscale, soften, zoom
from driftcal.shifts.varied import PERTURBATIONS, n_draws_per_image
from driftcal.types import AnyArray, Array, Float64, Images

#: ``change(images, strength, random numbers in [0, 1)) -> images``, clipped to [0, 1] afterwards
Change = Callable[[Images, float, Float64], Array]

#: Strengths of the perturbations of the shift `varied`; there it is the root of the level.
_VARIED_STRENGTHS = (0.04, 0.08, 0.14, 0.22, 0.32)


def _darken(images: Images, factor: float, draws: Float64) -> Array:
    """Values are multiplied."""
    return images * np.float32(factor)


def _brighten(images: Images, factor: float, draws: Float64) -> Array:
    """Values are multiplied by more than 1; bright ones become white."""
    return images * np.float32(factor)


def _gamma(images: Images, exponent: float, draws: Float64) -> Array:
    """Values are raised to a power: above 1 mid-tones become darker, below 1 brighter."""
    return images ** np.float32(exponent)


def _fade(images: Images, factor: float, draws: Float64) -> Array:
    """Distances from mid-grey are multiplied."""
    return np.float32(0.5) + np.float32(factor) * (images - np.float32(0.5))


#: name -> (family, change, strengths at levels 1 to 5)
IMAGE_CHANGES: dict[str, tuple[str, Change, tuple[float, ...]]] = {
    **{name: (name, change, _VARIED_STRENGTHS) for name, change in PERTURBATIONS.items()},
    "darken": ("intensity", _darken, (0.8, 0.55, 0.4, 0.28, 0.18)),
    "brighten": ("intensity", _brighten, (1.2, 1.5, 1.9, 2.4, 3.2)),
    "gamma_up": ("intensity", _gamma, (1.3, 1.8, 2.3, 3.0, 4.0)),
    "gamma_down": ("intensity", _gamma, (0.75, 0.55, 0.42, 0.32, 0.24)),
    "fade": ("intensity", _fade, (0.75, 0.55, 0.4, 0.27, 0.17)),
    "downscale": ("resolution", downscale, (0.85, 0.7, 0.55, 0.42, 0.3)),
    "soften": ("resolution", soften, (1, 2, 3, 5, 8)),
    "crop": ("framing", zoom, (0.9, 0.8, 0.7, 0.6, 0.5)),
    "zoom_out": ("framing", zoom, (1.15, 1.35, 1.6, 2.0, 2.6)),
}


@dataclass(frozen=True)
class ImageChange:
    """One change of images with a table of five strengths; level 0 is the identity.

    >>> import numpy as np
    >>> images = np.full((2, 32, 32, 3), 0.5, np.float32)
    >>> ImageChange("darken")(images, 1)[0, 0, 0].round(3).tolist()
    [0.4000000059604645, 0.4000000059604645, 0.4000000059604645]
    """

    name: str
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    @property
    def family(self) -> str:
        """Shifts of one family are alike: cross-validation leaves them out together."""
        return IMAGE_CHANGES[self.name][0]

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The changed images."""
        step = as_step(level, self.levels, self.name)
        out = shift_images(inputs, self.name, seed, indices, None)
        if step == 0 or not len(out):
            return out
        from driftcal.core.random import first_uniforms  # compiles: not needed to list shifts

        _, change, strengths = IMAGE_CHANGES[self.name]
        keys = sample_keys(self.name, seed, as_indices(indices, len(out)))
        draws = first_uniforms(keys, n_draws_per_image(out.shape))
        changed: Images = np.clip(change(out, strengths[step - 1], draws), 0, 1).astype(np.float32, copy=False)
        return changed

    def label(self, level: float) -> str:
        """The meaning of a level: the strength of the change."""
        step = as_step(level, self.levels, self.name)
        return f"{IMAGE_CHANGES[self.name][2][step - 1]:g}" if step else "clean"
