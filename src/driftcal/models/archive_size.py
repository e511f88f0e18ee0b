"""The limit on the unpacked size of a model archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

from driftcal.errors import ModelError
from driftcal.io import unpacked_size
from driftcal.io.limits import MODEL_BYTES, MODEL_RATIO


def check_archive_size(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a zip archive whose members unpack to far more than its size."""
    check_unpacked_size(path, sum(member.file_size for member in archive.infolist()))


def check_unpacked_size(path: Path, unpacked: int) -> None:
    """Refuse a file that unpacks to `unpacked` bytes, if that is far more than its size."""
    unpacked_size.check_unpacked_size(
        path, unpacked, always_allowed=MODEL_BYTES, max_ratio=MODEL_RATIO, error=ModelError,
        way_out="Save the model again without compression, if it is yours.",
    )  # fmt: skip
