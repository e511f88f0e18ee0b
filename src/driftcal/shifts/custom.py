"""A user's own function as a shift."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.images import as_indices, as_step, as_strength
from driftcal.core.tables import is_frame
from driftcal.core.texts import as_texts, is_text
from driftcal.errors import InputError
from driftcal.types import AnyArray


@dataclass(frozen=True)
class Custom:
    """A user's function ``(inputs, level)``, or ``(inputs, level, *, seed, indices)`` when it draws random numbers.

    Level 0 is never passed to the function: it is the identity by definition. A data frame stays one.
    """

    name: str
    function: Callable[..., Any]
    levels: tuple[int, ...] | None = None

    def __call__(self, inputs: Any, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Any:
        """The function's output for a copy of the inputs."""
        copied: Any = inputs.copy() if is_frame(inputs) else np.array(inputs, object if is_text(inputs) else None)
        strength = as_strength(level, self.name) if self.levels is None else as_step(level, self.levels, self.name)
        arguments = {"seed": seed, "indices": as_indices(indices, len(copied))}
        if strength == 0:
            return copied
        parameters = inspect.signature(self.function).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            arguments = {name: value for name, value in arguments.items() if name in parameters}
        shape = copied.shape
        shifted = self.function(copied, strength, **arguments)
        out = shifted if is_frame(shifted) else as_texts(shifted) if is_text(inputs) else np.asarray(shifted)
        if out.shape != shape:
            raise InputError(
                f"the shift {self.name!r} must keep the shape {shape} of its inputs; it returned {out.shape}. "
                "Change the function so that it returns one output for each input."
            )
        return out
