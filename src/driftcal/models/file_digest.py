"""SHA-256 of model files, computed once per process while a file does not change."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from driftcal.io.fingerprint import sha256_file

#: Device, inode, size, and times of change: the same state means the same bytes.
FileState = tuple[int, int, int, int, int]


def file_state(path: Path) -> FileState:
    """The state of a file, which changes when its content does."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes in hexadecimal."""
    return _digest(path, file_state(path))


@lru_cache(maxsize=256)
def _digest(path: Path, state: FileState) -> str:
    return sha256_file(path)
