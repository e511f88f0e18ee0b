"""Reading ``.npy`` and ``.npz`` files. Nothing is unpickled, and headers that declare too much memory are refused."""

from __future__ import annotations

import contextlib
import io
import math
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.errors import DataError, DriftcalError
from driftcal.io.limits import ARRAY_BYTES, ARRAY_RATIO
from driftcal.io.paths import AnyPath, as_path, check_regular, demo_hint, is_remote
from driftcal.io.unpacked_size import check_unpacked_size
from driftcal.types import Array

#: Names of the arrays of inputs, logits and labels in files, the usual name first.
INPUT_NAMES = ("x", "images", "inputs", "features", "data", "X", "x_test", "x_val")
LOGIT_NAMES = ("logits", "scores")
LABEL_NAMES = ("y", "labels", "label", "target", "targets", "Y", "y_test", "y_val")

_WAY_OUT = "Write it with numpy.savez(path, name=array), text as text and not as Python objects."

#: Bytes of a short text as a Python object.
_TEXT_BYTES = 64


@dataclass(frozen=True)
class ArrayFile:
    """A ``.npz`` file with named arrays, or a ``.npy`` file with a single one. Arrays are read when they are used.

    Parameters
    ----------
    path
        The file.
    names
        The names of its arrays; () for a ``.npy`` file.
    is_npy
        Whether it is a ``.npy`` file.
    """

    path: Path
    names: tuple[str, ...]
    is_npy: bool

    def get(self, *names: str) -> Array | None:
        """The first array that has one of `names`; None if there is none."""
        name = next((name for name in names if name in self.names), None)
        if name is None:
            return None
        with _as_data_error(self.path), self.path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            member = archive.getinfo(f"{name}.npy")
            with archive.open(member) as file:
                array = _read_array(file, member.file_size, f"array {name!r}")
            _check_text(self.path, array, f"array {name!r}")
            return array

    def find(self, names: Sequence[str], content: str, way_out: str = "Rename the array that holds them.") -> Array:
        """The first array that has one of `names`; if there is none, the error says what its `content` should be."""
        array = self.get(*names)
        if array is None:
            raise DataError(
                f"{str(self.path)!r} must hold an array named {names[0]!r} with {content}; it holds {self._listed()}. {way_out}"
            )
        return array

    def single(self) -> Array:
        """The only array of the file; a memory map for a ``.npy`` file on this machine."""
        if self.is_npy:
            return _read_npy(self.path)
        if len(self.names) != 1:
            raise DataError(f"{str(self.path)!r} must hold a single array; it holds {self._listed()}. {_WAY_OUT}")
        return self.find(self.names, "the array")

    def _listed(self) -> str:
        """The names of the arrays, for error messages."""
        return "a single array without a name" if self.is_npy else ", ".join(map(repr, self.names)) or "no array"


def open_arrays(path: AnyPath) -> ArrayFile:
    """Open a ``.npy`` or ``.npz`` file; its content decides which of them it is.

    A file that declares more than 1 GiB and more than 100 times its size is refused; `driftcal.io.limits` says how to
    raise this.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "val.npz")
    >>> np.savez(path, x=np.zeros((3, 2)), y=np.arange(3))
    >>> file = open_arrays(path)
    >>> file.names, file.find(LABEL_NAMES, "labels")
    (('x', 'y'), array([0, 1, 2]))
    """
    file_path = as_path(path)
    check_regular(file_path, "data", DataError)
    with _as_data_error(file_path), file_path.open("rb") as stream:
        magic = stream.read(6)
        if magic == b"\x93NUMPY":
            return ArrayFile(file_path, (), is_npy=True)
        if not magic.startswith(b"PK"):
            raise ValueError("it does not begin like one")
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
    check_unpacked_size(
        file_path, sum(member.file_size for member in members), always_allowed=ARRAY_BYTES, max_ratio=ARRAY_RATIO,
        error=DataError, way_out="If it is yours, write it without compression: numpy.savez.",
    )  # fmt: skip
    names = [member.filename.removesuffix(".npy") for member in members if member.filename.endswith(".npy")]
    return ArrayFile(file_path, tuple(names), is_npy=False)


@contextlib.contextmanager
def _as_data_error(path: Path) -> Iterator[None]:
    """Raise any error inside a ``with`` block as a DataError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"there is no file {str(path)!r}.{demo_hint(path)}") from error
    except DriftcalError:
        raise
    except Exception as error:  # damaged files fail in many ways: in zipfile, in zlib, in numpy's parser of headers
        raise DataError(f"{str(path)!r} must be a .npy or .npz file of plain arrays; {error}. {_WAY_OUT}") from error


def _read_npy(path: Path) -> Array:
    with _as_data_error(path):
        if is_remote(path):
            content = path.read_bytes()
            array = _read_array(io.BytesIO(content), len(content), "the array")
        else:
            with path.open("rb") as stream:
                _check_header(stream, os.fstat(stream.fileno()).st_size, "the array")
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        _check_text(path, array, "the array")
        return array


def _read_array(stream: Any, size: int, name: str) -> Array:
    """The array in a stream of `size` bytes; errors call it `name`."""
    _check_header(stream, size, name)
    stream.seek(0)
    array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _check_text(path: Path, array: Array, name: str) -> None:
    """Refuse text that is none, and so much that it would not fit into memory once each entry is an object."""
    if array.dtype.kind not in "SU" or not array.size:
        return
    check_unpacked_size(
        path, array.size * _TEXT_BYTES, always_allowed=ARRAY_BYTES, max_ratio=ARRAY_RATIO, error=DataError,
        way_out="If it is yours, write numbers in place of text.",
    )  # fmt: skip
    if array.dtype.kind == "U":
        characters = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if characters.max() > sys.maxunicode:
            raise ValueError(f"{name} holds characters that do not exist")


def _check_header(stream: Any, size: int, name: str) -> None:
    """Refuse a header that declares Python objects, or more bytes than follow it."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects")
    if dtype.itemsize == 0:  # any number of them takes no room in a file
        raise ValueError(f"{name} holds values of no bytes")
    if not shape:
        raise ValueError(f"{name} is a single number without an axis of samples")
    declared, available = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if declared > available:
        raise ValueError(f"{name} is cut off: its header declares {declared:,} bytes, {available:,} follow")
