"""Checks of a model archive before it is unpacked: its size, and that it has a single directory."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from driftcal.errors import ModelError
from driftcal.io import unpacked_size
from driftcal.io.limits import MODEL_BYTES, MODEL_RATIO

#: Marks of the end of a directory, in the usual and in the 64-bit form (with its locator), and their sizes.
_END, _END_64 = b"PK\x05\x06", b"PK\x06\x06"
_END_SIZE, _END_64_SIZE = 22, 56 + 20
_LONGEST_END = _END_SIZE + _END_64_SIZE


def check_archive_size(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a zip archive whose members unpack to far more than its size."""
    check_unpacked_size(path, sum(member.file_size for member in archive.infolist()))


def check_unpacked_size(path: Path, unpacked: int) -> None:
    """Refuse a file that unpacks to `unpacked` bytes, if that is far more than its size."""
    unpacked_size.check_unpacked_size(
        path, unpacked, always_allowed=MODEL_BYTES, max_ratio=MODEL_RATIO, error=ModelError,
        way_out="Save the model again without compression, if it is yours.",
    )  # fmt: skip


def check_one_directory(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive in which another reader may find other members than Python does.

    Python adds the length of anything in front of an archive to the positions in it; torch does not. A file could so hold
    one directory that is checked and another one that is used.
    """
    end = archive.start_dir + sum(_entry_size(member) for member in archive.infolist())
    with path.open("rb") as file:
        file.seek(end)
        rest = file.read(_LONGEST_END + 1)
    if rest[:4] == _END_64:
        size, position = struct.unpack("<QQ", rest[40:56])
        rest = rest[_END_64_SIZE:]
    else:
        size, position = struct.unpack("<II", rest[12:20])
    if rest[:4] != _END or len(rest) != _END_SIZE or (size, position) != (end - archive.start_dir, archive.start_dir):
        raise ModelError(f"{str(path)!r} must be one plain zip archive; it holds other data. Save the model again.")


def _entry_size(member: zipfile.ZipInfo) -> int:
    """Bytes of a member's entry in the directory."""
    return 46 + len(member.orig_filename.encode("utf-8")) + len(member.extra) + len(member.comment)
