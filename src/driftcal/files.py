"""Files that are either whole or absent, and fingerprints that say what is in them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.types import Array

_TEMPORARY = ".tmp"
_BLOCK = 1 << 20


def write_atomic(
    path: str | os.PathLike[str], data: bytes | bytearray | memoryview | Iterable[bytes | memoryview]
) -> Path:
    """Write `data` so that `path` holds either what it held before or all of `data`, never a part.

    The bytes go to a name of their own in the same folder, are flushed to the disk and renamed. Two writers of one
    path do not meet: the last rename wins. On any error the temporary file is removed and the error passed on.
    """
    target = Path(path)
    # The name is cut because file systems stop at 255 bytes and a long target would leave no room for the token.
    temporary = target.with_name(f".{target.name[:150]}.{os.getpid()}-{secrets.token_hex(4)}{_TEMPORARY}")
    blocks = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    try:
        with open(temporary, "xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)
    return target


def _flush_folder(folder: Path) -> None:
    # Makes the rename itself survive a power cut. Some systems cannot open a folder: there the rename is all there is.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: str | os.PathLike[str], *, older_than: float = 3600.0) -> int:
    """Remove temporary files of writers that died in `folder`; returns how many.

    A living writer touches its file all the time, so one that nobody wrote to for `older_than` seconds has no writer.
    """
    removed = 0
    for path in Path(folder).glob(f".*{_TEMPORARY}"):
        with contextlib.suppress(OSError):  # another process may have been faster
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
                removed += 1
    return removed


def canonical_json(value: Any) -> str:
    """The one JSON text of `value`: keys sorted, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def sha256_bytes(data: bytes) -> str:
    """SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's bytes in hexadecimal, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_array(array: Array) -> str:
    """SHA-256 over dtype, shape and values, the same for any memory layout or byte order; works on memory maps.

    >>> sha256_array(np.eye(3)) == sha256_array(np.asfortranarray(np.eye(3)))
    True
    >>> sha256_array(np.zeros(4)) == sha256_array(np.zeros((2, 2)))
    False
    """
    digest = hashlib.sha256()
    plain = np.asarray(array)
    if plain.dtype.hasobject:
        raise TypeError(
            f"an array of Python objects (dtype {plain.dtype}) has no fingerprint; convert it to numbers or text"
        )
    little = plain.dtype.newbyteorder("<")
    digest.update(f"{little.str}{plain.shape}".encode())
    if plain.ndim == 0:
        digest.update(plain.astype(little).tobytes())
        return digest.hexdigest()
    rows = max(1, _BLOCK // max(1, plain[:1].nbytes))
    for start in range(0, len(plain), rows):
        digest.update(np.ascontiguousarray(plain[start : start + rows], dtype=little).tobytes())
    return digest.hexdigest()


def fingerprint(parts: Mapping[str, Any]) -> str:
    """SHA-256 over named parts: arrays by their values, everything else by its JSON.

    >>> fingerprint({"weights": np.ones(3), "mean": [0.5]}) == fingerprint({"mean": [0.5], "weights": np.ones(3)})
    True
    """
    plain = {
        key: {"array": sha256_array(value)} if isinstance(value, np.ndarray) else value for key, value in parts.items()
    }
    return sha256_bytes(canonical_json(plain).encode())
