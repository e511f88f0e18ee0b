"""Reading the lines of an unchecked stream: long lines take no memory, and a quiet stream does not block the reader."""

from __future__ import annotations

import io
import os
import select
from collections.abc import Iterator
from typing import BinaryIO

#: Bytes of the longest line; longer ones are dropped while they are read. A batch of 200 samples of 1,000 classes fits.
#: A parsed line takes up to 60 times its bytes.
MAX_LINE = 1 << 22
#: Seconds after which the reader of a quiet stream gets an empty group, so that it can do other work.
QUIET_SECONDS = 1.0
#: Bytes that are read at once: the size of a pipe on Linux.
_CHUNK = 1 << 16
#: The limit of `select`.
_MAX_DESCRIPTOR = 1024


def line_groups(stream: BinaryIO, max_line: int = MAX_LINE) -> Iterator[list[bytes | None]]:
    """The lines of a stream in groups that arrived together; empty groups while the stream is quiet.

    Lines have no line ends. A line longer than `max_line` is None.

    >>> import io
    >>> list(line_groups(io.BytesIO(b"a\\nbbbbbb\\nc"), max_line=3))
    [[b'a', None], [b'c']]
    """
    pieces: list[bytes] = []
    size, is_dropping = 0, False
    for chunk in _chunks(stream):
        group: list[bytes | None] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = b"".join([*pieces, end])
            group.append(None if is_dropping or len(line) > max_line else line)
            pieces, size, is_dropping = [], 0, False
        size += len(rest)
        if size > max_line:
            pieces, is_dropping = [], True
        elif rest and not is_dropping:
            pieces.append(rest)
        if group or not chunk:
            yield group
    if pieces or is_dropping:
        yield [None if is_dropping else b"".join(pieces)]


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """The bytes of a stream as they arrive; b"" whenever it was quiet for `QUIET_SECONDS`."""
    read = getattr(stream, "read1", stream.read)
    descriptor = _selectable(stream)
    while True:
        # read1 buffers nothing, so select sees all bytes that have arrived
        if descriptor is not None and not select.select([descriptor], [], [], QUIET_SECONDS)[0]:
            yield b""
        elif chunk := read(_CHUNK):
            yield chunk
        else:
            return


def _selectable(stream: BinaryIO) -> int | None:
    """The descriptor of a stream, if select can wait for it; on Windows it cannot."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, io.UnsupportedOperation):
        return None
    return descriptor if os.name == "posix" and descriptor < _MAX_DESCRIPTOR else None
