"""The protocol of a framework's adapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from driftcal.models.outputs import Outputs
from driftcal.types import Array, Inputs


class Backend(Protocol):
    """Runs a model with one framework. :class:`driftcal.Model` does everything else, from preprocessing to checks.

    `layout` is the usual layout of the framework's networks. `fixed_batch` is the only batch size that a file accepts,
    `largest_batch` the largest; both are None if the file states no limit. `classes` are the classes of the outputs, or
    None if the model does not store them. `takes_tables` says that features reach the model as they are: a data frame
    with its dtypes, a matrix in float64. Other models get a float32 matrix. `takes_text` says that it takes texts,
    `takes_dictionaries` that it takes dictionaries of arrays.
    """

    framework: str
    layout: str
    fixed_batch: int | None
    largest_batch: int | None
    classes: tuple[Any, ...] | None
    device: str
    takes_tables: bool
    takes_text: bool
    takes_dictionaries: bool

    def configured(self, *, outputs: Outputs, name: str | None) -> Backend:
        """This backend with other outputs or another name; itself if it uses neither."""
        ...

    def run(self, batch: Inputs) -> Array:
        """Preprocessed inputs (n, ...) to raw outputs (n, C), (n, 1) or (n,)."""
        ...

    def layers(self) -> tuple[str, ...]:
        """Names of the layers; () if there are none. A backend with layers is a :class:`LayerBackend`."""
        ...

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over weights and architecture as they are now.

        `run` returns the outputs for fixed inputs, for models that have nothing else to hash.
        """
        ...


class LayerBackend(Backend, Protocol):
    """A backend that also returns the outputs of layers."""

    def features(self, batch: Array, layers: Sequence[str]) -> dict[str, Array]:
        """Outputs of named layers for a preprocessed batch; every name is one of `layers()`."""
        ...
