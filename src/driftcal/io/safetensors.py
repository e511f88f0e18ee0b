"""Safetensors files: eight bytes with the length of the header, a JSON header, and the arrays one after the other.

The safetensors library is not used, for two reasons. The bytes of a file must not depend on the order in which a
library writes metadata, and arrays must be memory maps, not copies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from driftcal.io import paths
from driftcal.io.atomic import write_atomic
from driftcal.io.fingerprint import array_blocks, canonical_json
from driftcal.io.paths import AnyPath, FileVersion, as_path
from driftcal.types import Array

_CODES = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1",
          "U64": "u8", "U32": "u4", "U16": "u2", "U8": "u1", "BOOL": "?"}  # fmt: skip
_CODE_NAMES = {np.dtype(code): name for name, code in _CODES.items()}
_LONGEST_HEADER = 100_000_000  # bytes; the limit of the safetensors format

#: Errors that reading a damaged header may raise.
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError, RecursionError)


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

    def blocks() -> Iterator[bytes]:
        yield len(header_bytes).to_bytes(8, "little") + header_bytes
        for name in order:
            yield from array_blocks([piece[name] for piece in pieces])

    return write_atomic(path, blocks())


def read_tensors(path: AnyPath) -> TensorFile | None:
    """Open a safetensors file as memory maps; None if it is absent or damaged.

    A file is damaged if its header cannot be read or contradicts its length. A remote file is first copied to a
    temporary file on this machine's disk.
    """
    file_path = as_path(path)
    try:
        if paths.is_remote(file_path):
            data, version = paths.map_remote(file_path)
            header = data[8 : 8 + _header_length(data[:8].tobytes(), len(data))].tobytes()
        else:
            with open(file_path, "rb") as file:
                status = os.fstat(file.fileno())
                header = file.read(_header_length(file.read(8), status.st_size))
                data = np.memmap(file, np.uint8, mode="r")
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
        layouts, metadata = _parse_header(header, len(data))
        arrays = {
            name: data[layout.begin : layout.begin + layout.n_bytes].view(layout.dtype).reshape(layout.shape)
            for name, layout in layouts.items()
        }
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
    length = int.from_bytes(paths.read_range(path, 0, 8), "little")
    size = int(cast(Any, path).fs.info(cast(Any, path).path)["size"])
    return _parse_header(paths.read_range(path, 8, 8 + length), size)[0]


def _header_length(first_bytes: bytes, size: int) -> int:
    length = int.from_bytes(first_bytes, "little")
    if not 2 <= length <= min(_LONGEST_HEADER, size - 8):
        raise ValueError("the first eight bytes are not the length of a header")
    return length


def _parse_header(text: bytes, size: int) -> tuple[dict[str, ArrayLayout], dict[str, Any]]:
    """The arrays and the metadata that a header declares; ValueError if they do not fit a file of `size` bytes."""
    header = json.loads(text)
    metadata = json.loads(header.pop("__metadata__", {}).get("driftcal", "{}"))
    layouts, position = {}, 0
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        dtype = np.dtype("<" + _CODES[entry["dtype"]]) if entry["dtype"] != "BOOL" else np.dtype(bool)
        if begin != position or end - begin != int(np.prod(entry["shape"])) * dtype.itemsize:
            raise ValueError(f"array {name!r} does not lie where its header says")
        layouts[name] = ArrayLayout(8 + len(text) + begin, end - begin, dtype, tuple(entry["shape"]))
        position = end
    if 8 + len(text) + position != size or not isinstance(metadata, dict):
        raise ValueError("the file's length does not fit its header")
    return layouts, metadata
