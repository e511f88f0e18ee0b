"""A journal of what a monitor has acknowledged but not yet written to its state file.

Each record is flushed to the disk before its sender gets an answer. The journal names the state that it continues by a digest, so after a
kill either both belong together and the records are read again, or the state is newer and holds them already.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import zlib
from collections.abc import Iterable
from pathlib import Path

from driftcal.errors import DataError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MAGIC = b"driftcal-journal-1\n"
#: Bytes of the largest journal. It is emptied whenever the state is written, so it grows only while that fails.
MAX_JOURNAL = 1 << 28
#: Length of a record and its checksum.
_HEAD_BYTES = 8
#: Windows has no links that need this, and no pipes in folders.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class Journal:
    """The journal beside a state file, ``<state>.journal``."""

    def __init__(self, state_path: str | os.PathLike[str]) -> None:
        self.state_path = Path(state_path)
        self.path = self.state_path.with_name(self.state_path.name + ".journal")
        self._file: int | None = None
        self._lock: int | None = None
        self.size = 0

    def lock(self) -> None:
        """Refuse a state file that another process uses; the lock ends with the process."""
        if fcntl is None:  # Windows
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = self.path.with_suffix(".lock")
        try:
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
        except OSError as error:
            raise DataError(f"{lock} must be a file of the monitor; it is not: {error.strerror}. Remove it.") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise DataError(
                f"{self.state_path} must be the state of one monitor; another one that runs now uses it. Stop that one, or pass "
                "another --state."
            ) from error

    def unwritten(self) -> list[bytes]:
        """The records that the state file does not hold, in order. An incomplete last record was never acknowledged."""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return []
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_JOURNAL:
            raise DataError(
                f"{self.path} must be a regular file of at most {MAX_JOURNAL:,} bytes, as a monitor writes it; it is not. "
                "Move it away, or pass another --state."
            )
        data = self.path.read_bytes()
        start = len(_MAGIC) + 64
        if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != self._state_digest():
            return []
        records = []
        while start + _HEAD_BYTES <= len(data):
            length = int.from_bytes(data[start : start + 4], "little")
            record = data[start + _HEAD_BYTES : start + _HEAD_BYTES + length]
            if len(record) < length or zlib.crc32(record) != int.from_bytes(data[start + 4 : start + 8], "little"):
                break
            records.append(record)
            start += _HEAD_BYTES + length
        return records

    def restart(self) -> None:
        """Begin an empty journal that continues the state file as it is now."""
        self._close_file()
        content = _MAGIC + self._state_digest()
        temporary = self.path.with_name(self.path.name + ".new")
        temporary.unlink(missing_ok=True)  # never follow a link that someone else may have made
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
        try:
            _write_all(descriptor, content)
            os.fsync(descriptor)
            os.replace(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self._file, self.size = descriptor, len(content)
        with contextlib.suppress(OSError):  # some systems cannot open a folder
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def append(self, records: Iterable[bytes]) -> None:
        """Add records and flush them to the disk. After an error, for instance on a full disk, none of them is there."""
        if self._file is None:
            self.restart()
        assert self._file is not None
        parts = [
            len(record).to_bytes(4, "little") + zlib.crc32(record).to_bytes(4, "little") + record for record in records
        ]
        content = b"".join(parts)
        if self.size + len(content) > MAX_JOURNAL:
            raise OSError(errno.EFBIG, "the journal is full because the state cannot be written")
        try:
            os.lseek(self._file, self.size, os.SEEK_SET)
            _write_all(self._file, content)
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)
            raise
        self.size += len(content)

    def close(self) -> None:
        """Close the file and give up the lock."""
        self._close_file()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _state_digest(self) -> bytes:
        content = self.state_path.read_bytes() if self.state_path.exists() else b""
        return hashlib.sha256(content).hexdigest().encode()


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
