"""The lines of a stream that nobody has checked: never held whole where they are too long, never waited for in vain."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from typing import BinaryIO

#: A line longer than this is dropped while it is read: a batch of 1,000 rows of 1,000 classes fits.
LONGEST_LINE = 1 << 25
#: Seconds after which the reader of a quiet stream gets an empty group, and with it time for other things.
QUIET = 1.0
_CHUNK = 1 << 16
_MOST_FILES = 1024  # select cannot look at higher numbers


def lines_of(stream: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[bytes | None]:
    """The lines of a stream without their ends; None for one that is longer than `longest`, which is never held whole.

    >>> import io
    >>> list(lines_of(io.BytesIO(b"a\\nbbbbbb\\nc"), longest=3))
    [b'a', None, b'c']
    """
    for group in line_groups(stream, longest):
        yield from group


def line_groups(stream: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[list[bytes | None]]:
    """The same lines, those together that came together: a live stream is not kept waiting. Empty while it is quiet."""
    held: list[bytes] = []
    size, dropping = 0, False
    for chunk in _chunks(stream):
        group: list[bytes | None] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            line = b"".join([*held, piece])
            group.append(None if dropping or len(line) > longest else line)
            held, size, dropping = [], 0, False
        size += len(rest)
        if size > longest:
            held, dropping = [], True
        elif rest and not dropping:
            held.append(rest)
        if group or not chunk:
            yield group
    if held or dropping:
        yield [None if dropping else b"".join(held)]


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """What a stream gives, as it comes; nothing (b"") whenever it was quiet for a while."""
    read = getattr(stream, "read1", stream.read)
    number = _watchable(stream)
    while True:
        # read1 keeps nothing back, so what the system says is all there is
        if number is not None and not select.select([number], [], [], QUIET)[0]:
            yield b""
        elif chunk := read(_CHUNK):
            yield chunk
        else:
            return


def _watchable(stream: BinaryIO) -> int | None:
    """The number by which the system knows a stream, if it can tell whether something is there; on Windows it cannot."""
    try:
        number = stream.fileno()
    except (AttributeError, io.UnsupportedOperation):
        return None
    return number if os.name == "posix" and number < _MOST_FILES else None
