"""The check of a file's unpacked size: an archive of a megabyte could otherwise take gigabytes of memory."""

from __future__ import annotations

from pathlib import Path

from driftcal.errors import DriftcalError
from driftcal.io.limits import Limit


def check_unpacked_size(
    path: Path, unpacked: int, *, always_allowed: Limit, max_ratio: Limit, error: type[DriftcalError], way_out: str
) -> None:
    """Refuse a file that unpacks to far more than its size.

    Parameters
    ----------
    path
        The file.
    unpacked
        The bytes that its headers declare.
    always_allowed
        Bytes that every file may unpack to.
    max_ratio
        How many times its size a larger file may unpack to.
    error, way_out
        The error to raise, and its advice.
    """
    size = path.stat().st_size
    limit = max(always_allowed.value(), max_ratio.value() * size)
    if unpacked > limit:
        raise error(
            f"{str(path)!r} must unpack to at most {limit / 1e6:,.0f} MB for its {size / 1e6:,.1f} MB; it declares "
            f"{unpacked / 1e6:,.0f} MB. {way_out} {always_allowed.way_out()}"
        )
