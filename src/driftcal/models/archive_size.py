"""A bound on what a model archive may unpack to: a file of a megabyte could otherwise take gigabytes of memory."""

from __future__ import annotations

import zipfile
from pathlib import Path

from driftcal.errors import ModelError

#: Bytes that any archive may unpack to.
ALWAYS_ALLOWED = 1 << 28
#: How many times its own size a larger archive may unpack to. Frameworks store weights uncompressed, and weights hardly compress.
LARGEST_RATIO = 10


def check_archive_size(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a zip archive whose members unpack to far more than its own size."""
    check_unpacked_size(path, sum(member.file_size for member in archive.infolist()))


def check_unpacked_size(path: Path, unpacked: int) -> None:
    """Refuse a file that holds `unpacked` bytes in far fewer."""
    size = path.stat().st_size
    limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * size)
    if unpacked > limit:
        raise ModelError(
            f"{str(path)!r} must unpack to at most {limit / 1e6:,.0f} MB for its {size / 1e6:,.1f} MB; it declares "
            f"{unpacked / 1e6:,.0f} MB. Save the model again without compression, if it is yours."
        )
