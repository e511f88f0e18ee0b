"""Writing files that are either complete or absent."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

from driftcal.errors import InputError
from driftcal.io.paths import AnyPath, as_path, is_remote, names_in, write_remote

#: Names of temporary files, as `write_atomic` makes them: ``.<target>.<process id>-<8 hexadecimal digits>.tmp``.
_TEMPORARY = re.compile(r"\..+\.[0-9]+-[0-9a-f]{8}\.tmp")


def write_atomic(path: AnyPath, data: bytes | bytearray | memoryview | Iterable[bytes | memoryview]) -> Path:
    """Write `data` so that `path` holds either its old content or all of `data`, never a part.

    The bytes are written to a temporary file in the same folder and flushed to the disk, then the file is renamed. If
    two processes write one path, the last rename wins. After an error the temporary file is removed. A missing folder
    is created, so that the result of a long computation is not lost. An object store gets one complete object.
    """
    target = as_target(path)
    blocks = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    if is_remote(target):
        write_remote(target, blocks)
        return target
    # The name is shortened: file systems allow 255 bytes, and process id and token need some of them.
    temporary = target.with_name(f".{target.name[:150]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
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


def as_target(path: AnyPath) -> Path:
    """The path of a file to write. A folder is refused, so that the mistake is reported before the work begins."""
    target = as_path(path)
    if not is_remote(target) and (not target.name or target.is_dir()):
        raise InputError(f"output must be a file; {str(path)!r} is a folder. Add the file's name.")
    return target


def _flush_folder(folder: Path) -> None:
    """Make a rename permanent: without this, a power cut may undo it."""
    with contextlib.suppress(OSError):  # some systems cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: AnyPath, *, older_than: float = 3600.0) -> int:
    """Remove the temporary files that killed processes left in `folder`; returns how many.

    A process that writes changes its file all the time, so a file that is `older_than` seconds old has no writer.
    Only files with names as `write_atomic` makes them are removed.
    """
    path = as_path(folder)
    removed = 0
    if is_remote(path):
        return removed  # object stores have no incomplete files
    for name in filter(_TEMPORARY.fullmatch, names_in(path)):
        with contextlib.suppress(OSError):  # another process may have removed it
            if time.time() - (path / name).stat().st_mtime >= older_than:
                (path / name).unlink()
                removed += 1
    return removed
