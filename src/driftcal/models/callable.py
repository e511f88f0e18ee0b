"""Any Python callable as a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftcal.checks import as_array
from driftcal.errors import ModelError
from driftcal.files import fingerprint
from driftcal.models.answers import scores
from driftcal.types import Array


class FunctionBackend:
    """Calls ``function(batch)`` with a preprocessed float32 batch; it returns one row of scores per input.

    A function has no weights to hash. With a name, the name is its fingerprint and the user's promise to change it with
    the function; without one, the fingerprint is a hash of its answers to four fixed random inputs.
    """

    framework = "callable"
    layout = "NHWC"
    fixed_batch: int | None = None
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None
    device = "cpu"

    def __init__(self, function: Callable[[Array], Any], *, name: str | None = None) -> None:
        self._function = function
        self._name = name

    def run(self, batch: Array) -> Array:
        """What the function returns, as numpy."""
        return as_array(scores(self._function(batch)), "the answer of the callable")

    def layers(self) -> tuple[str, ...]:
        """None."""
        return ()

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Not offered."""
        raise ModelError("a plain callable gives no intermediate layers.")

    def digest(self, run: Callable[[], Array]) -> str:
        """Over the name, or over answers to a fixed probe."""
        return fingerprint({"name": self._name} if self._name else {"answers": np.asarray(run(), np.float32)})
