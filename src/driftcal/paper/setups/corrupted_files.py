"""Corruptions that are already on disk (CIFAR-10-C, ImageNet-C) as shifts: they look images up instead of making them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from driftcal.data import Source, cifar10_c, cifar10_corruptions, imagenet_c, imagenet_corruptions
from driftcal.errors import DataError
from driftcal.io.fingerprint import fingerprint
from driftcal.types import AnyArray, Array


@dataclass(frozen=True)
class OnDisk:
    """A published corruption: row i at a severity is image i of the clean set, corrupted by its authors.

    `content` stands for the files in the key of stored answers; `open` gives the source of a severity.
    """

    name: str
    content: str
    open: Callable[[int], Source] = field(repr=False)
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The corrupted images of these rows; level 0 is the identity."""
        images = np.array(inputs, np.float32)
        if level == 0:
            return images
        rows = np.arange(len(images)) if indices is None else np.asarray(indices)
        source = self.open(int(level))
        if rows.max(initial=-1) >= len(source):
            raise DataError(
                f"{source.name} must hold every image of the clean set; row {rows.max()} is wanted and it has {len(source)}. "
                "Do the two folders belong together?"
            )
        return source.inputs(rows)


def cifar10_c_on_disk(folder: str | os.PathLike[str]) -> tuple[OnDisk, ...]:
    """The corruptions of a CIFAR-10-C folder."""
    return tuple(
        OnDisk(name, _state(_cifar_file(Path(folder), name)), _Opened(cifar10_c, str(folder), name))
        for name in cifar10_corruptions(folder)
    )


def imagenet_c_on_disk(folder: str | os.PathLike[str], size: int) -> tuple[OnDisk, ...]:
    """The corruptions of an ImageNet-C folder, cut to `size` pixels."""
    return tuple(
        OnDisk(name, _state(place, size=size), _Opened(imagenet_c, str(folder), name, size))
        for name, place in imagenet_corruptions(folder).items()
    )


@dataclass(repr=False)
class _Opened:
    """Opens each severity once. Prints without its folder: a moved data set is the same data set to a store."""

    opener: Callable[..., Source]
    folder: str
    corruption: str
    size: int | None = None

    def __post_init__(self) -> None:
        self._known: dict[int, Source] = {}

    def __repr__(self) -> str:
        return f"{self.opener.__name__} {self.corruption}"

    def __call__(self, severity: int) -> Source:
        if severity not in self._known:
            more = {} if self.size is None else {"size": self.size}
            self._known[severity] = self.opener(self.folder, corruption=self.corruption, severity=severity, **more)
        return self._known[severity]


def _cifar_file(root: Path, name: str) -> Path:
    return next(place for place in (root / f"{name}.npy", root / "CIFAR-10-C" / f"{name}.npy") if place.is_file())


def _state(place: Path, **more: Any) -> str:
    """Names and sizes of the files: hashing the bytes of all ImageNet-C would take longer than using them."""
    files = [place] if place.is_file() else sorted(item for item in place.rglob("*") if item.is_file())
    listed = [[str(item.relative_to(place.parent)), item.stat().st_size] for item in files]
    return fingerprint({"files": listed, **more})
