"""Shifts made of others' parts: a user's own function, and the mixture of several shifts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.images import as_indices, as_step, as_strength
from driftcal.errors import InputError
from driftcal.shifts.corruptions.corruption import Corruption
from driftcal.shifts.shift import sample_keys
from driftcal.types import AnyArray, Array


@dataclass(frozen=True)
class Custom:
    """A user's function ``(inputs, level)``, or ``(inputs, level, *, seed, indices)`` when it draws random numbers.

    Level 0 never reaches the function: it is the identity by definition.
    """

    name: str
    function: Callable[..., Any]
    levels: tuple[int, ...] | None = None

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """What the function makes of a copy of the inputs."""
        array = np.array(inputs)
        value = as_strength(level, self.name) if self.levels is None else as_step(level, self.levels, self.name)
        places = as_indices(indices, len(array))
        if value == 0:
            return array
        names = inspect.signature(self.function).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in names.values())
        extra = {k: v for k, v in {"seed": seed, "indices": places}.items() if takes_any or k in names}
        out = np.asarray(self.function(array, value, **extra))
        if out.shape != array.shape:
            raise InputError(
                f"the shift {self.name!r} must keep the shape {array.shape} of its inputs; it returned {out.shape}."
            )
        return out


@dataclass(frozen=True)
class Mixture:
    """Each image gets one of several corruptions, chosen by (seed, index): a set the size of the validation set.

    ``h_mixture`` is the -H tuning set (speckle, Gaussian blur, spatter, saturate) at the cost of one pass a level;
    the suite ``h-tuning`` is all four of them for every image.
    """

    name: str
    parts: tuple[Corruption, ...]

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels of the parts."""
        return Corruption.levels

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The images, each with its own corruption at this severity."""
        severity = as_step(level, self.levels, self.name)
        array = np.asarray(inputs)
        places = as_indices(indices, len(array))
        out = self.parts[0](array, 0, seed=seed, indices=places)
        if severity:
            part = sample_keys(self.name, seed, places) % np.uint64(len(self.parts))
            for i, shift in enumerate(self.parts):
                mine = part == i
                out[mine] = shift(array[mine], severity, seed=seed, indices=places[mine])
        return out
