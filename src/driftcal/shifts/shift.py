"""The protocol of a shift, and the function that runs image shifts: in fixed blocks of images, on all cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from driftcal.core.inputs.images import as_block, image_array
from driftcal.core.parallel import run_in_threads
from driftcal.core.random import as_seed
from driftcal.shifts.arguments import as_indices
from driftcal.types import AnyArray, Array, Images, Indices

# Values in a block: a megabyte of float32, so that a block and its result fit the second-level cache.
_BLOCK_VALUES = 1 << 18


@runtime_checkable
class Shift(Protocol):
    """A function that shifts inputs: ``(inputs, level, *, seed=0, indices=None) -> inputs``.

    Level 0 is the identity. Randomness depends only on (seed, index of the sample).
    """

    @property
    def name(self) -> str:
        """The name that :func:`get_shift` takes."""

    @property
    def levels(self) -> tuple[int, ...] | None:
        """The levels 0, 1, … of the shift's table; None when the level is any number from 0 up."""

    def __call__(self, inputs: Any, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Any:
        """The shifted inputs, a new array."""


#: ``fill(block of images, block to fill, keys of the samples)``
Fill = Callable[[Images, Images, Any], None]


def shift_images(inputs: AnyArray, name: str, seed: int, indices: AnyArray | None, fill: Fill | None) -> Images:
    """Check the images, convert them to float32 and run `fill` over all blocks on all cores; None copies them."""
    array = image_array(inputs)
    keys = sample_keys(name, seed, as_indices(indices, len(array)))
    out = np.empty(array.shape, np.float32)
    step = max(1, _BLOCK_VALUES // max(1, array[:1].size))

    def run(low: int) -> None:
        block = as_block(array[low : low + step], low)
        if fill is None:
            out[low : low + step] = block
        else:
            fill(block, out[low : low + step], keys[low : low + step])

    run_in_threads(run, range(0, len(array), step))
    return out


def sample_keys(name: str, seed: Any, indices: Indices) -> Array:
    """One random key for each sample; see :mod:`driftcal.core.random`."""
    from driftcal.core.random import keys_of

    return keys_of(name, as_seed(seed), indices)
