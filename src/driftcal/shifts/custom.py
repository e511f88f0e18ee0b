"""A user's own function as a shift."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict, as_array_dict, is_array_dict
from driftcal.core.inputs.frames import is_frame
from driftcal.core.inputs.texts import as_texts, is_text
from driftcal.errors import InputError
from driftcal.shifts.arguments import as_indices, as_step, as_strength
from driftcal.types import AnyArray


@dataclass(frozen=True)
class Custom:
    """A user's function ``(inputs, level)``, or ``(inputs, level, *, seed, indices)`` when it draws random numbers.

    Level 0 is never passed to the function: it is the identity by definition. A data frame stays one. For inputs that are
    a dictionary of arrays the function gets a dictionary, and returns one with the same names, dtypes and shapes.
    """

    name: str
    function: Callable[..., Any]
    levels: tuple[int, ...] | None = None

    def __call__(self, inputs: Any, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Any:
        """The function's output for a copy of the inputs."""
        if is_array_dict(inputs):
            copied: Any = as_array_dict(inputs, "inputs").copy()
        else:
            copied = inputs.copy() if is_frame(inputs) else np.array(inputs, object if is_text(inputs) else None)
        strength = as_strength(level, self.name) if self.levels is None else as_step(level, self.levels, self.name)
        arguments = {"seed": seed, "indices": as_indices(indices, len(copied))}
        if strength == 0:
            return copied
        parameters = inspect.signature(self.function).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            arguments = {name: value for name, value in arguments.items() if name in parameters}
        if isinstance(copied, ArrayDict):
            return self._shifted_dictionary(copied, strength, arguments)
        shape = copied.shape
        shifted = self.function(copied, strength, **arguments)
        out = shifted if is_frame(shifted) else as_texts(shifted) if is_text(inputs) else np.asarray(shifted)
        if out.shape != shape:
            raise InputError(
                f"the shift {self.name!r} must keep the shape {shape} of its inputs; it returned {out.shape}. "
                "Change the function so that it returns one output for each input."
            )
        return out

    def _shifted_dictionary(self, inputs: ArrayDict, strength: float, arguments: dict[str, Any]) -> ArrayDict:
        expected = str(inputs)  # of the copy, which the function may change
        shifted = as_array_dict(self.function(inputs.arrays, strength, **arguments), f"the output of {self.name!r}")
        if str(shifted) != expected or len(shifted) != len(inputs):
            raise InputError(
                f"the shift {self.name!r} must keep the arrays of its inputs, {expected}; it returned {shifted}. "
                "Change the function so that it returns all of them, with the same dtypes."
            )
        return shifted
