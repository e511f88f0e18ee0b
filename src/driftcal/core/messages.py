"""Text from files, models and other libraries, made fit for messages."""

from __future__ import annotations


def printable(text: object) -> str:
    """Text as one line. Control characters, which could move the cursor or recolour the terminal, are spelt out.

    >>> printable("a" + chr(10) + "b" + chr(27) + "[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 400 characters; some libraries write pages.

    >>> first_line(ValueError("no such file" + chr(10) + "Traceback ...")), first_line(KeyError())
    ('no such file', 'KeyError')
    """
    lines = str(error).strip().splitlines()
    return lines[0][:400] if lines else type(error).__name__


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "shift"), counted(2000, "sample")
    ('1 shift', '2,000 samples')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
