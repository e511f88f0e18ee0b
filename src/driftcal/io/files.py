"""Files that are either whole or absent, safetensors among them, and fingerprints that say what is in them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from driftcal.errors import InputError
from driftcal.io import paths
from driftcal.io.paths import as_path
from driftcal.types import Array

_TEMPORARY = ".tmp"
_BLOCK = 1 << 20


def write_atomic(
    path: str | os.PathLike[str], data: bytes | bytearray | memoryview | Iterable[bytes | memoryview]
) -> Path:
    """Write `data` so that `path` holds either what it held before or all of `data`, never a part.

    The bytes go to a name of their own in the same folder, are flushed to the disk and renamed. Two writers of one
    path do not meet: the last rename wins. On any error the temporary file is removed and the error passed on. A folder
    that does not exist is made: whoever computed for an hour should not lose it to a missing one.
    A URL of an object store gets one whole object instead.
    """
    target = as_target(path)
    blocks = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    if paths.is_remote(target):
        paths.put_object(target, blocks)
        return target
    # The name is cut because file systems stop at 255 bytes and a long target would leave no room for the token.
    temporary = target.with_name(f".{target.name[:150]}.{os.getpid()}-{secrets.token_hex(4)}{_TEMPORARY}")
    target.parent.mkdir(parents=True, exist_ok=True)
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


def as_target(path: str | os.PathLike[str]) -> Path:
    """Where a file may be written; a folder is refused, before the work rather than after it."""
    target = as_path(path)
    if not paths.is_remote(target) and (not target.name or target.is_dir()):
        raise InputError(f"output must be a file; {str(path)!r} is a folder. Add the file's name.")
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
    if paths.is_remote(folder):
        return removed  # object stores have no half-written files
    for path in listed(folder, _TEMPORARY, hidden=True):
        with contextlib.suppress(OSError):  # another process may have been faster
            if time.time() - path.stat().st_mtime >= older_than:
                path.unlink()
                removed += 1
    return removed


def listed(folder: str | os.PathLike[str], ending: str = "", *, hidden: bool = False) -> list[Path]:
    """What is in `folder`, sorted; [] when it is gone, which another process may have seen to at any moment."""
    place = as_path(folder)
    names = paths.names_in(place)
    return [place / name for name in names if name.endswith(ending) and name.startswith(".") == hidden]


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
    with as_path(path).open("rb") as file:
        return _digest_of(file)


def _digest_of(file: Any) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


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


# safetensors: eight bytes of header length, a JSON header, the arrays one after the other. Written and mapped here
# because the library orders metadata as it likes (our bytes must not depend on that) and copies what it reads.
_CODES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
          "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?"}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _CODES.items()}
_LONGEST_HEADER = 100_000_000  # the limit of the safetensors format


@dataclass(frozen=True, eq=False)
class TensorFile:
    """An open safetensors file: arrays as read-only memory maps, `note` the JSON that was written with them."""

    path: Path
    arrays: dict[str, Array]
    note: dict[str, Any]
    state: tuple[int, int, int]  # inode, size, time of change: the same state means the same bytes


def array_blocks(pieces: Sequence[Array]) -> Iterator[bytes]:
    """The little-endian bytes of `pieces` joined along their rows, a few megabytes at a time."""
    for piece in pieces:
        rows = max(1, _BLOCK * 8 // max(1, piece[:1].nbytes))
        for start in range(0, len(piece), rows):
            block = piece[start : start + rows]
            yield np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).tobytes()


def write_tensors(path: str | os.PathLike[str], pieces: Sequence[Mapping[str, Array]], note: Mapping[str, Any]) -> Path:
    """Write arrays, given as pieces to be joined along their rows, as one safetensors file; atomic.

    The bytes depend on the joined arrays and on `note` only.
    """
    # Wide numbers first, so that each array begins at a multiple of its own width.
    order = sorted(pieces[0], key=lambda name: (-pieces[0][name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"driftcal": canonical_json(note)}}
    position = 0
    for name in order:
        first = pieces[0][name]
        shape = [sum(len(rows[name]) for rows in pieces), *first.shape[1:]]
        size = int(np.prod(shape)) * first.dtype.itemsize
        kind = _NAMES[first.dtype.newbyteorder("=")]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)

    def blocks() -> Iterator[bytes]:
        yield len(text).to_bytes(8, "little") + text
        for name in order:
            yield from array_blocks([rows[name] for rows in pieces])

    return write_atomic(path, blocks())


def read_tensors(path: str | os.PathLike[str]) -> TensorFile | None:
    """Map a safetensors file; None when it is absent, or when header and length do not fit each other.

    A remote file is copied to a nameless file on this machine's disk first.
    """
    place = as_path(path)
    try:
        if paths.is_remote(place):
            data, state = paths.fetch(place)
            head = data[8 : 8 + _head_length(data[:8].tobytes(), len(data))].tobytes()
        else:
            with open(place, "rb") as file:
                status = os.fstat(file.fileno())
                head = file.read(_head_length(file.read(8), status.st_size))
                data = np.memmap(file, np.uint8, mode="r")
            state = (status.st_ino, status.st_size, status.st_mtime_ns)
        layout, note = _parse(head, len(data))
        arrays = {
            name: data[part.begin : part.begin + part.size].view(part.dtype).reshape(part.shape)
            for name, part in layout.items()
        }
    except FileNotFoundError:
        return None
    except _DAMAGE:
        return None
    return TensorFile(place, arrays, note, state)


def read_rows(path: str | os.PathLike[str], name: str, low: int, high: int) -> Array:
    """The rows [low, high) of one array of a safetensors file; of a remote file only these bytes are fetched."""
    place = as_path(path)
    if not paths.is_remote(place):
        found = read_tensors(place)
        if found is None:
            raise FileNotFoundError(str(path))
        return found.arrays[name][low:high]
    part = read_layout(place)[name]
    width = part.size // max(1, part.shape[0])
    stop = min(high, part.shape[0])
    data = paths.read_range(place, part.begin + low * width, part.begin + stop * width)
    return np.frombuffer(data, part.dtype).reshape(-1, *part.shape[1:])


def read_layout(path: Path) -> dict[str, Part]:
    """Where each array lies in a remote safetensors file, from its header alone."""
    length = int.from_bytes(paths.read_range(path, 0, 8), "little")
    size = int(cast(Any, path).fs.info(cast(Any, path).path)["size"])
    return _parse(paths.read_range(path, 8, 8 + length), size)[0]


@dataclass(frozen=True)
class Part:
    """One array inside a file: its first byte and its bytes, its type and its shape."""

    begin: int
    size: int
    dtype: Any
    shape: tuple[int, ...]


_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError)


def _head_length(first: bytes, size: int) -> int:
    length = int.from_bytes(first, "little")
    if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
        raise ValueError("the first eight bytes are not the length of a header")
    return length


def _parse(text: bytes, size: int) -> tuple[dict[str, Part], dict[str, Any]]:
    """What a header says about a file of `size` bytes; ValueError where they do not fit each other."""
    header = json.loads(text)
    note = json.loads(header.pop("__metadata__", {}).get("driftcal", "{}"))
    layout, position = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = np.dtype("<" + _CODES[entry["dtype"]]) if entry["dtype"] != "BOOL" else np.dtype(bool)
        if begin != position or end - begin != int(np.prod(entry["shape"])) * dtype.itemsize:
            raise ValueError(f"array {name!r} does not lie where its header says")
        layout[name] = Part(8 + len(text) + begin, end - begin, dtype, tuple(entry["shape"]))
        position = end
    if 8 + len(text) + position != size or not isinstance(note, dict):
        raise ValueError("the file's length does not fit its header")
    return layout, note
