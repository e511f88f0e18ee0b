"""The samples of one condition: checked, written to a file with a digest, and read back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal._version import __version__
from driftcal.cache.key import CacheKey
from driftcal.core.validation import NUMBER_KINDS
from driftcal.errors import CacheError
from driftcal.io.fingerprint import array_blocks
from driftcal.io.safetensors import write_tensors
from driftcal.types import AnyArray, Array, Indices, Labels, Logits

FORMAT = "driftcal-logits"
VERSION = 1


@dataclass(frozen=True, eq=False)
class CacheEntry:
    """The samples of one condition. Arrays are memory maps, so opening an entry costs only the check of its digest."""

    key: CacheKey
    arrays: Mapping[str, Array]
    digest: str

    @property
    def logits(self) -> Logits:
        """(n, C), as the model returned them."""
        return self.arrays["logits"]

    @property
    def labels(self) -> Labels:
        """int64 (n,); -1 where no class is correct."""
        return self.arrays["labels"]

    @property
    def indices(self) -> Indices:
        """int64 (n,): the index of each sample in its data set."""
        return self.arrays["indices"]

    def __len__(self) -> int:
        return len(self.arrays["logits"])


@dataclass(frozen=True, eq=False)
class CachePart:
    """The samples [start, stop) of a condition that is still being computed."""

    start: int
    stop: int
    arrays: Mapping[str, Array]

    def cut(self, start: int, stop: int) -> CachePart:
        """The samples of this part that lie in [start, stop)."""
        begin, end = max(start, self.start), min(stop, self.stop)
        samples = slice(begin - self.start, end - self.start)
        return CachePart(begin, end, {name: array[samples] for name, array in self.arrays.items()})


def missing_ranges(ranges: list[tuple[int, int]], n_samples: int) -> list[tuple[int, int]]:
    """The ranges of [0, n_samples) that sorted `ranges` leave out.

    >>> missing_ranges([(0, 8), (12, 16)], 20)
    [(8, 12), (16, 20)]
    """
    missing, position = [], 0
    for start, stop in [*ranges, (n_samples, n_samples)]:
        if start > position:
            missing.append((position, min(start, n_samples)))
        position = max(position, stop)
    return missing


def check_arrays(
    logits: Logits, labels: AnyArray, indices: AnyArray | None, start: int, more: Mapping[str, Array]
) -> dict[str, Array]:
    """Indices, labels, logits and `more` arrays of the same samples, checked.

    Without `indices`, samples are numbered from `start`.
    """
    scores = np.asarray(logits)
    if scores.ndim != 2 or scores.dtype.kind != "f":
        raise CacheError(f"logits must be floats of shape (n, C); they are {scores.dtype} of shape {scores.shape}.")
    if indices is None:
        indices = np.arange(start, start + len(scores))
    arrays = {"indices": np.asarray(indices, np.int64), "labels": np.asarray(labels, np.int64), "logits": scores}
    for name, array in more.items():
        if array.dtype.kind not in NUMBER_KINDS:
            raise CacheError(f"array {name!r} must hold numbers; its dtype is {array.dtype}. Store codes, not names.")
        arrays[name] = np.asarray(array)
    for name, array in arrays.items():
        if array.ndim < 1 or len(array) != len(scores):
            raise CacheError(f"{name} must have {len(scores)} samples, as logits do; its shape is {array.shape}.")
    return arrays


def is_complete(arrays: Mapping[str, Array]) -> bool:
    """Whether arrays that were read are those of an entry: logits, labels and indices of the same samples."""
    if not {"logits", "labels", "indices"} <= arrays.keys():
        return False
    logits, labels, indices = (arrays[name] for name in ("logits", "labels", "indices"))
    return (
        logits.ndim == 2
        and logits.dtype.kind == "f"
        and all(array.dtype == np.int64 and array.ndim == 1 for array in (labels, indices))
        and all(array.ndim >= 1 and len(array) == len(logits) for array in arrays.values())
    )


def digest_of(pieces: Sequence[Mapping[str, Array]]) -> str:
    """SHA-256 over the joined arrays; it does not depend on the cut into pieces."""
    digest = hashlib.sha256()
    for name in sorted(pieces[0]):
        first = pieces[0][name]
        shape = (sum(len(piece[name]) for piece in pieces), *first.shape[1:])
        digest.update(f"{name}{first.dtype.newbyteorder('<').str}{shape}".encode())
        for block in array_blocks([piece[name] for piece in pieces]):
            digest.update(block)
    return digest.hexdigest()


def write_entry(path: Path, key: CacheKey, pieces: Sequence[Mapping[str, Array]], **more: Any) -> None:
    """Write the pieces of the arrays of `key` as one file with key and digest; `more` is further metadata."""
    metadata = {"format": FORMAT, "version": VERSION, "driftcal": __version__, "key": key.to_dict(), **more}
    write_tensors(path, pieces, {**metadata, "digest": digest_of(pieces)})
