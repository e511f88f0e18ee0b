"""Rows as files: checked, digested, written; and which ranges of them there are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftcal._version import __version__
from driftcal.cache.key import CacheKey
from driftcal.errors import StoreError
from driftcal.io.safetensors import array_blocks, write_tensors
from driftcal.types import AnyArray, Array, Logits

FORMAT = "driftcal-logits"
VERSION = 1


def note_of(key: CacheKey) -> dict[str, Any]:
    """What is written beside the rows of `key`."""
    return {"format": FORMAT, "version": VERSION, "driftcal": __version__, "key": key.to_dict()}


def gaps(parts: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """The ranges of [0, n) that `parts`, in order, leave open."""
    found, position = [], 0
    for start, stop in [*parts, (n, n)]:
        if start > position:
            found.append((position, min(start, n)))
        position = max(position, stop)
    return found


def cut(rows: Mapping[str, Array], start: int, stop: int) -> dict[str, Array]:
    """The rows [start, stop) of every array."""
    return {name: array[start:stop] for name, array in rows.items()}


def checked_rows(
    logits: Logits, labels: AnyArray, indices: AnyArray | None, start: int, more: Mapping[str, Array]
) -> dict[str, Array]:
    """Arrays that belong together, checked: indices, labels, logits and whatever else there is of each row."""
    scores = np.asarray(logits)
    if scores.ndim != 2 or scores.dtype.kind != "f":
        raise StoreError(f"logits must be floats of shape (n, C); they are {scores.dtype} of shape {scores.shape}.")
    positions = np.arange(start, start + len(scores)) if indices is None else indices
    rows = {"indices": np.asarray(positions, np.int64), "labels": np.asarray(labels, np.int64), "logits": scores}
    for name, array in more.items():
        if array.dtype.kind not in "fiub":
            raise StoreError(f"array {name!r} must hold numbers; its dtype is {array.dtype}. Store codes, not names.")
        rows[name] = np.asarray(array)
    for name, array in rows.items():
        if array.ndim < 1 or len(array) != len(scores):
            raise StoreError(f"{name} must have {len(scores)} rows as logits do; its shape is {array.shape}.")
    return rows


def digest_of(pieces: list[dict[str, Array]]) -> str:
    """SHA-256 over the joined rows, the same for any cut into pieces."""
    total = hashlib.sha256()
    for name in sorted(pieces[0]):
        first = pieces[0][name]
        shape = (sum(len(rows[name]) for rows in pieces), *first.shape[1:])
        total.update(f"{name}{first.dtype.newbyteorder('<').str}{shape}".encode())
        for block in array_blocks([rows[name] for rows in pieces]):
            total.update(block)
    return total.hexdigest()


def write(path: Path, pieces: list[dict[str, Array]], note: dict[str, Any]) -> None:
    """Write pieces of rows as one file with its digest."""
    write_tensors(path, pieces, {**note, "digest": digest_of(pieces)})
