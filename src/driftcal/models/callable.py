"""Any Python callable as a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict
from driftcal.core.validation import as_array
from driftcal.io.fingerprint import fingerprint
from driftcal.models.outputs import Outputs, scores
from driftcal.types import Array, Inputs


class CallableBackend:
    """Calls ``function(batch)`` with a preprocessed batch (float32, texts, or a dictionary); it returns the scores.

    A function has no weights to hash. If it has a name, its fingerprint is a hash of the name, and the user must change
    the name with the function. Without a name, the fingerprint is a hash of its outputs for four fixed random samples.
    """

    framework = "callable"
    layout = "NHWC"
    takes_tables = False
    takes_text = True
    takes_dictionaries = True
    fixed_batch: int | None = None
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None
    device = "cpu"

    def __init__(self, function: Callable[[Any], Any], *, name: str | None = None) -> None:
        self._function = function
        self._name = name

    def configured(self, *, outputs: Outputs, name: str | None) -> CallableBackend:
        """The same function under another name."""
        return CallableBackend(self._function, name=name or self._name)

    def run(self, batch: Inputs) -> Array:
        """The scores that the function returns, as numpy."""
        inputs = batch.arrays if isinstance(batch, ArrayDict) else batch
        return as_array(scores(self._function(inputs)), "the output of the callable")

    def layers(self) -> tuple[str, ...]:
        """Always (): a function has no named layers."""
        return ()

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over the name, or over the outputs for fixed inputs."""
        # caches of version 0.1 call the outputs "answers"
        return fingerprint({"name": self._name} if self._name else {"answers": np.asarray(run(), np.float32)})
