"""Fingerprints: SHA-256 of bytes, files, arrays and named parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from driftcal.io.paths import AnyPath, as_path
from driftcal.types import Array

_BLOCK = 1 << 20  # bytes that are read at a time


def canonical_json(value: Any) -> str:
    """The JSON text of `value` with sorted keys, without spaces and without NaN.

    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def sha256_bytes(data: bytes) -> str:
    """SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: AnyPath) -> str:
    """SHA-256 of a file's bytes in hexadecimal, read in blocks."""
    digest = hashlib.sha256()
    with as_path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def array_blocks(pieces: Sequence[Array]) -> Iterator[bytes]:
    """The little-endian bytes of `pieces`, joined along the first axis, about a megabyte at a time."""
    for piece in pieces:
        step = max(1, _BLOCK // max(1, piece[:1].nbytes))
        for start in range(0, len(piece), step):
            block = piece[start : start + step]
            yield np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).tobytes()


def sha256_array(array: Array) -> str:
    """SHA-256 over dtype, shape and values, the same for every memory layout and byte order; works on memory maps.

    >>> sha256_array(np.eye(3)) == sha256_array(np.asfortranarray(np.eye(3)))
    True
    >>> sha256_array(np.zeros(4)) == sha256_array(np.zeros((2, 2)))
    False
    """
    digest = hashlib.sha256()
    values = np.asarray(array)
    if values.dtype.hasobject:
        raise TypeError(
            f"an array of Python objects (dtype {values.dtype}) has no fingerprint; convert it to numbers or text"
        )
    little_endian = values.dtype.newbyteorder("<")
    digest.update(f"{little_endian.str}{values.shape}".encode())
    for block in array_blocks([np.atleast_1d(values)]):
        digest.update(block)
    return digest.hexdigest()


def fingerprint(parts: Mapping[str, Any]) -> str:
    """SHA-256 over named parts: arrays by their values, everything else by its JSON text.

    >>> fingerprint({"weights": np.ones(3), "mean": [0.5]}) == fingerprint({"mean": [0.5], "weights": np.ones(3)})
    True
    """
    values = {
        key: {"array": sha256_array(value)} if isinstance(value, np.ndarray) else value for key, value in parts.items()
    }
    return sha256_bytes(canonical_json(values).encode())
