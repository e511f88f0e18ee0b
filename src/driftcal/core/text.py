"""Text from files and models, made safe to print."""

from __future__ import annotations


def printable(text: object) -> str:
    """Text as one line: control characters, which could move the cursor or recolour the terminal, are spelt out.

    >>> printable("a" + chr(10) + "b" + chr(27) + "[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
