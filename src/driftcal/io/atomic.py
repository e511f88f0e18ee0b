"""Writing files that are either complete or absent."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import tempfile
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

    A file that is replaced keeps its permissions. A symbolic link stays, and the file that it names is written. Devices,
    pipes and read-only files are refused.
    """
    written = _check_file(path)
    blocks = [data] if isinstance(data, bytes | bytearray | memoryview) else data
    if is_remote(written):
        write_remote(written, blocks)
        return written
    target = written.resolve() if written.is_symlink() else written
    # The name is shortened: file systems allow 255 bytes, and process id and token need some of them.
    start = target.name.encode(errors="surrogateescape")[:150].decode(errors="ignore")
    temporary = target.with_name(f".{start}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "xb", opener=_private_opener if target.exists() else None) as file:
            for block in blocks:
                file.write(block)
            _copy_permissions(target, file.fileno())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)
    return written


def as_target(path: AnyPath) -> Path:
    """The path of a file to write, after a check that it can be written; nothing is created.

    Commands call it before they begin, so that a mistake is reported before the work and not after it.
    """
    target = _check_file(path)
    if not is_remote(target):
        _check_folder(target.resolve().parent, path)
    return target


def _check_file(path: AnyPath) -> Path:
    """The path of a file to write; refused if something is there that must not be replaced."""
    target = as_path(path)
    if is_remote(target):
        return target
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except (OSError, ValueError) as error:  # a ValueError for names that no system can have
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"output {str(path)!r} cannot be written: {reason}. Choose another path.") from error
    if not target.name or stat.S_ISDIR(mode):
        raise InputError(f"output must be a file; {str(path)!r} is a folder. Add the file's name.")
    if not stat.S_ISREG(mode):
        raise InputError(
            f"output must be a regular file; {str(path)!r} is a {_kind_of(mode)}, which would be replaced. Choose another path."
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"output {str(path)!r} is read-only. Choose another path, or allow writing: chmod u+w.")
    return target


def as_target_folder(path: AnyPath) -> Path:
    """The path of a folder to write files into, after a check that this is possible; nothing is created."""
    folder = as_path(path)
    if not is_remote(folder):
        _check_folder(folder, path)
    return folder


def _check_folder(folder: Path, path: AnyPath) -> None:
    """Refuse a `folder` in which no file can be made. If it does not exist, the nearest folder above it counts."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"output {str(path)!r} cannot be written: {str(folder)!r}: {error.strerror}. Choose another path."
        ) from error


def _kind_of(mode: int) -> str:
    kinds = {stat.S_ISCHR: "device", stat.S_ISBLK: "device", stat.S_ISFIFO: "pipe", stat.S_ISSOCK: "socket"}
    return next((kind for is_kind, kind in kinds.items() if is_kind(mode)), "special file")


def _private_opener(path: str, flags: int) -> int:
    """Open a new file that only its owner may read: the file that it replaces may be private."""
    return os.open(path, flags, 0o600)


def _copy_permissions(target: Path, descriptor: int) -> None:
    """Give an open file the mode of `target`, and its owner and group where that is allowed."""
    with contextlib.suppress(FileNotFoundError, NotImplementedError, AttributeError):  # Windows has no fchmod
        status = os.stat(target)
        own = os.fstat(descriptor)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


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
    Only regular files with names as `write_atomic` makes them are removed.
    """
    path = as_path(folder)
    removed = 0
    if is_remote(path):
        return removed  # object stores have no incomplete files
    for name in filter(_TEMPORARY.fullmatch, names_in(path)):
        with contextlib.suppress(OSError):  # another process may have removed it
            status = (path / name).lstat()
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime >= older_than:
                (path / name).unlink()
                removed += 1
    return removed
