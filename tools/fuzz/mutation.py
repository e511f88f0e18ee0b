"""Mutations of bytes and of JSON values, from a seeded generator."""

from __future__ import annotations

import copy
import random
from typing import Any

#: Values that parsers often do not expect.
HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 255, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e-320, 1e308, "", "x", "\0",
    "../../x", "/dev/zero", "\ud7ff", "x" * 5000, [], {}, [[]], [None], [1, "x"], {"a": 1}, {"": []}, [0.1] * 50,
)  # fmt: skip
#: Pieces of the formats.
TOKENS = (
    b'"', b"{", b"}", b"[", b"]", b",", b":", b"-", b"1e999", b"NaN", b"Infinity", b"null", b"true", b"\\ud800", b"\xff\xfe", b"\x00",
    b"-1", b"99999999999999999999", b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY", b"'descr'", b"'|O'", b"(0,)", b"(-1,)", b"\n", b'"id"', b'"label"',
)  # fmt: skip
_TEXT_NUMBERS = (b"0", b"1", b"9", b"-1", b"1e9", b"0.5")


def mutate_bytes(rng: random.Random, content: bytes, others: list[bytes]) -> bytes:
    """One to four small changes of `content`, or a splice with another file."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data:
            return rng.randbytes(8)
        position = rng.randrange(len(data))
        length = rng.choice((1, 2, 4, 8, 64))
        match rng.randrange(9):
            case 0:
                data[position] ^= 1 << rng.randrange(8)
            case 1:
                data[position] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 0x20, 0x30))
            case 2:
                data[position:position] = rng.choice(TOKENS)
            case 3:
                del data[position : position + length]
            case 4:
                data[position:position] = data[position : position + length]
            case 5:
                data[position : position + 4] = rng.choice((b"\xff\xff\xff\xff", bytes(4), b"\x00\x00\x00\x80"))
            case 6:
                data[position : position + 1] = rng.choice(_TEXT_NUMBERS)
            case 7:
                del data[position:]
            case 8:
                other = rng.choice(others) or b"\0"
                data[position:] = other[rng.randrange(len(other)) :]
    return bytes(data)


def mutate_value(rng: random.Random, value: Any) -> Any:
    """A copy of nested JSON with one value replaced, removed, repeated or added."""
    changed = copy.deepcopy(value)
    places = list(_places(changed))
    if not places:
        return changed
    owner, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del owner[key]
    elif kind == 1 and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(owner[key]))
    elif kind == 2 and isinstance(owner, dict):
        owner[rng.choice(("x", "", "classes", "version", "n_bins"))] = rng.choice(HOSTILE)
    elif kind == 3:
        owner[key] = copy.deepcopy(rng.choice(places)[0])
    elif kind == 4 and isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
        owner[key] = rng.choice((-owner[key], owner[key] + 1, owner[key] * 1000, owner[key] // 2))
    else:
        owner[key] = copy.deepcopy(rng.choice(HOSTILE))
    return changed


def _places(value: Any) -> Any:
    """(owner, key) of every value inside nested JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)
