"""What a framework's adapter offers to :class:`driftcal.Model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from driftcal.models.outputs import Outputs
from driftcal.types import Array


class Backend(Protocol):
    """One framework's way to run a model. `Model` does everything else, from preprocessing to checks.

    `layout` is what the framework's networks usually take. `fixed_batch` is the only batch size that a file accepts and
    `largest_batch` the largest one, where the file says so. `classes` are the classes of the outputs, where the model knows them.
    """

    framework: str
    layout: str
    fixed_batch: int | None
    largest_batch: int | None
    classes: tuple[Any, ...] | None
    device: str

    def configured(self, *, outputs: Outputs, name: str | None) -> Backend:
        """This backend for other outputs or under another name; itself where neither matters."""
        ...

    def run(self, batch: Array) -> Array:
        """Preprocessed float32 inputs (n, ...) to raw outputs (n, C), (n, 1) or (n,)."""
        ...

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Outputs of named layers for a preprocessed batch; every name is one of `layers()`."""
        ...

    def layers(self) -> tuple[str, ...]:
        """Names that `features` accepts; empty where the framework offers none."""
        ...

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over weights and architecture as they are now.

        `run` returns the outputs for fixed inputs, for models that have nothing else to hash.
        """
        ...
