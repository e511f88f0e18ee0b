"""Corrupted images on disk (CIFAR-10-C, ImageNet-C) as shifts, which read images and do not compute them."""

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
    """A published corruption: sample i at a severity is image i of the clean set, corrupted by its authors.

    `content` is a fingerprint of the files. The keys of cached logits include it, and also the names of this class and
    its fields. `open` returns the source of a severity.
    """

    name: str
    content: str
    open: Callable[[int], Source] = field(repr=False)
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The corrupted images of these samples; level 0 is the identity."""
        images = np.array(inputs, np.float32)
        if level == 0:
            return images
        samples = np.arange(len(images)) if indices is None else np.asarray(indices)
        source = self.open(int(level))
        if samples.max(initial=-1) >= len(source):
            raise DataError(
                f"{source.name} must hold every image of the clean set; it has {len(source)}, sample {samples.max()} is "
                "missing. Do the two folders belong together?"
            )
        corrupted: Array = source.inputs(samples)
        return corrupted


def cifar10_c_on_disk(folder: str | os.PathLike[str]) -> tuple[OnDisk, ...]:
    """The corruptions of a CIFAR-10-C folder."""
    return tuple(
        OnDisk(name, _fingerprint_files(_cifar_file(Path(folder), name)), _Severities(cifar10_c, str(folder), name))
        for name in cifar10_corruptions(folder)
    )


def imagenet_c_on_disk(folder: str | os.PathLike[str], size: int) -> tuple[OnDisk, ...]:
    """The corruptions of an ImageNet-C folder, cut to `size` pixels."""
    return tuple(
        OnDisk(name, _fingerprint_files(path, size=size), _Severities(imagenet_c, str(folder), name, size))
        for name, path in imagenet_corruptions(folder).items()
    )


@dataclass(repr=False)
class _Severities:
    """Opens each severity once. Its repr does not contain the folder, so a moved data set keeps its cached logits."""

    opener: Callable[..., Source]
    folder: str
    corruption: str
    size: int | None = None

    def __post_init__(self) -> None:
        self._sources: dict[int, Source] = {}

    def __repr__(self) -> str:
        return f"{self.opener.__name__} {self.corruption}"

    def __call__(self, severity: int) -> Source:
        if severity not in self._sources:
            options = {} if self.size is None else {"size": self.size}
            self._sources[severity] = self.opener(self.folder, corruption=self.corruption, severity=severity, **options)
        return self._sources[severity]


def _cifar_file(root: Path, name: str) -> Path:
    return next(path for path in (root / f"{name}.npy", root / "CIFAR-10-C" / f"{name}.npy") if path.is_file())


def _fingerprint_files(path: Path, **options: Any) -> str:
    """A digest of names and sizes: hashing all bytes of ImageNet-C would take longer than an evaluation."""
    files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    listed = [[str(item.relative_to(path.parent)), item.stat().st_size] for item in files]
    return fingerprint({"files": listed, **options})
