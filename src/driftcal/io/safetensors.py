"""Safetensors files: eight bytes with the length of the header, a JSON header, and the arrays one after the other.

The safetensors library is not used, for two reasons. The bytes of a file must not depend on the order in which a
library writes metadata, and arrays must be memory maps, not copies.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from driftcal.errors import ArtefactError
from driftcal.io import paths
from driftcal.io.atomic import write_atomic
from driftcal.io.fingerprint import array_blocks, canonical_json
from driftcal.io.json_text import parse_json
from driftcal.io.limits import JSON_BYTES
from driftcal.io.paths import AnyPath, FileVersion, as_path
from driftcal.types import Array

_CODES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
          "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?"}  # fmt: skip
_CODE_NAMES = {np.dtype(code): name for name, code in _CODES.items()}
_LONGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors format
_LARGEST_SIZE = 2**63

#: Errors that reading a damaged header may raise.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True, eq=False)
class TensorFile:
    """An open safetensors file: its arrays as read-only memory maps, and the metadata that was written with them."""

    path: Path
    arrays: dict[str, Array]
    metadata: dict[str, Any]
    version: FileVersion


@dataclass(frozen=True)
class ArrayLayout:
    """The position of one array in a file: its first byte, its number of bytes, its dtype and its shape."""

    begin: int
    n_bytes: int
    dtype: Any
    shape: tuple[int, ...]


def write_tensors(path: AnyPath, pieces: Sequence[Mapping[str, Array]], metadata: Mapping[str, Any]) -> Path:
    """Write arrays as one safetensors file, atomically.

    Each of the `pieces` holds a part of every array; the parts are joined along the first axis. The bytes of the file
    depend only on the joined arrays and on `metadata`.
    """
    # Wide numbers come first, so that each array begins at a multiple of its item size.
    order = sorted(pieces[0], key=lambda name: (-pieces[0][name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": {"driftcal": canonical_json(metadata)}}
    position = 0
    for name in order:
        first = pieces[0][name]
        shape = [sum(len(piece[name]) for piece in pieces), *first.shape[1:]]
        size = int(np.prod(shape)) * first.dtype.itemsize
        code = _CODE_NAMES[first.dtype.newbyteorder("=")]
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [position, position + size]}
        position += size
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    _check_header_size(path, len(header_bytes))  # a file that cannot be read back is not written

    def blocks() -> Iterator[bytes]:
        yield len(header_bytes).to_bytes(8, "little") + header_bytes
        for name in order:
            yield from array_blocks([piece[name] for piece in pieces])

    return write_atomic(path, blocks())


def read_tensors(path: AnyPath) -> TensorFile | None:
    """Open a safetensors file as memory maps; None if it is absent or damaged.

    A file is damaged if its header cannot be read or contradicts its length; what the safetensors library refuses is
    refused here, too. A header above the limit (`driftcal.io.limits`) is an `ArtefactError`. A remote file is first
    copied to a temporary file on this machine's disk.
    """
    file_path = as_path(path)
    try:
        if paths.is_remote(file_path):
            data, version = paths.map_remote(file_path)
            header = data[8 : 8 + _header_length(file_path, data[:8].tobytes(), len(data))].tobytes()
        else:
            if not file_path.is_file():  # a pipe would block
                return None
            with open(file_path, "rb") as file:
                status = os.fstat(file.fileno())
                header = file.read(_header_length(file_path, file.read(8), status.st_size))
                data = np.memmap(file, np.uint8, mode="r")
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
        layouts, metadata = _parse_header(header, len(data))
        arrays = {
            name: data[layout.begin : layout.begin + layout.n_bytes].view(layout.dtype).reshape(layout.shape)
            for name, layout in layouts.items()
        }
    except ArtefactError:
        raise
    except (FileNotFoundError, *_DAMAGE):
        return None
    return TensorFile(file_path, arrays, metadata, version)


def read_slice(path: AnyPath, name: str, start: int, stop: int) -> Array:
    """``array[start:stop]`` of one array of a safetensors file; of a remote file only these bytes are transferred."""
    file_path = as_path(path)
    if not paths.is_remote(file_path):
        file = read_tensors(file_path)
        if file is None:
            raise FileNotFoundError(str(path))
        return file.arrays[name][start:stop]
    layout = read_layouts(file_path)[name]
    n_bytes_each = layout.n_bytes // max(1, layout.shape[0])
    end = min(stop, layout.shape[0])
    data = paths.read_range(file_path, layout.begin + start * n_bytes_each, layout.begin + end * n_bytes_each)
    return np.frombuffer(data, layout.dtype).reshape(-1, *layout.shape[1:])


def read_layouts(path: Path) -> dict[str, ArrayLayout]:
    """The position of each array in a remote safetensors file; only its header is transferred."""
    size = int(cast(Any, path).fs.info(cast(Any, path).path)["size"])
    length = _header_length(path, paths.read_range(path, 0, 8), size)
    return _parse_header(paths.read_range(path, 8, 8 + length), size)[0]


def _header_length(path: Path, first_bytes: bytes, size: int) -> int:
    length = int.from_bytes(first_bytes, "little")
    if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
        raise ValueError("the first eight bytes are not the length of a header")
    _check_header_size(path, length)
    return length


def _check_header_size(path: AnyPath, length: int) -> None:
    limit = JSON_BYTES.value()
    if length > limit:
        raise ArtefactError(
            f"{str(path)!r} must have a header of at most {limit:,} bytes; it has {length:,}. {JSON_BYTES.way_out()}"
        )


def _parse_header(text: bytes, size: int) -> tuple[dict[str, ArrayLayout], dict[str, Any]]:
    """The arrays and the metadata that a header declares; ValueError if they do not fit a file of `size` bytes."""
    header = _strict_json(text)
    names = header.pop("__metadata__", {})
    if not all(isinstance(value, str) for value in names.values()):
        raise ValueError("the values of __metadata__ must be text")
    metadata = parse_json(names.get("driftcal", "{}"))
    layouts, position = {}, 0
    for name, entry in header.items():
        if entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"array {name!r} must have a dtype, a shape and data_offsets")
        begin, end = _whole_numbers(entry["data_offsets"])
        shape = _whole_numbers(entry["shape"])
        dtype = np.dtype("<" + _CODES[entry["dtype"]]) if entry["dtype"] != "BOOL" else np.dtype(bool)
        if begin != position or end - begin != _n_bytes(shape, dtype.itemsize):
            raise ValueError(f"array {name!r} does not lie where its header says")
        layouts[name] = ArrayLayout(8 + len(text) + begin, end - begin, dtype, shape)
        position = end
    if 8 + len(text) + position != size or not isinstance(metadata, dict):
        raise ValueError("the file's length does not fit its header")
    return layouts, metadata


def _strict_json(text: bytes) -> dict[str, Any]:
    """A JSON object as the reference reads it: UTF-8 from the first byte on, each key once."""
    if not text.startswith(b"{"):
        raise ValueError("a header must begin with a brace")
    header = parse_json(text.decode())
    json.dumps(header, ensure_ascii=False).encode()  # half of a surrogate pair cannot be encoded
    return cast(dict[str, Any], header)


def _whole_numbers(values: Any) -> tuple[int, ...]:
    if type(values) is not list or any(type(value) is not int or not 0 <= value < _LARGEST_SIZE for value in values):
        raise ValueError("shapes and offsets must be whole numbers, not negative")
    return tuple(values)


def _n_bytes(shape: Sequence[int], itemsize: int) -> int:
    # the reference counts bits in 64 bits, one length after the other, so a later 0 does not help
    if math.prod(length for length in shape if length) * 8 * itemsize >= _LARGEST_SIZE:
        raise ValueError("the array is too large")
    return math.prod(shape) * itemsize
