"""The mixture: each image gets one of several corruptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.shifts.arguments import as_indices, as_step
from driftcal.shifts.corruptions.corruption import Corruption
from driftcal.shifts.shift import sample_keys
from driftcal.types import AnyArray, Images


@dataclass(frozen=True)
class Mixture:
    """Each image gets one of several corruptions, chosen by (seed, index): a set as large as the validation set.

    ``h_mixture`` mixes the four corruptions of the -H tuning set (speckle noise, Gaussian blur, spatter, saturate), so
    a level costs one pass. The suite ``h-tuning`` applies all four of them to every image.
    """

    name: str
    parts: tuple[Corruption, ...]

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the corruptions."""
        return Corruption.levels

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Images:
        """The images, each with its own corruption at this severity."""
        severity = as_step(level, self.levels, self.name)
        array = np.asarray(inputs)
        sample_indices = as_indices(indices, len(array))
        out = self.parts[0](array, 0, seed=seed, indices=sample_indices)
        if severity:
            choice = sample_keys(self.name, seed, sample_indices) % np.uint64(len(self.parts))
            for i, corruption in enumerate(self.parts):
                chosen = choice == i
                out[chosen] = corruption(array[chosen], severity, seed=seed, indices=sample_indices[chosen])
        return out
