"""Changes of single characters: typing errors on a keyboard, and the confusions of optical character recognition."""

from __future__ import annotations

import string

import numpy as np

_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
#: Position of a key: column and row; lower rows are shifted to the right, as on a keyboard.
_POSITION = {key: (x + 0.5 * y, float(y)) for y, row in enumerate(_ROWS) for x, key in enumerate(row)}
#: Key -> the keys at a distance of at most 1.2 keys, the nearest first. QWERTY.
NEIGHBOURS = {
    key: "".join(
        sorted(
            (
                other
                for other in _POSITION
                if other != key and np.hypot(x - _POSITION[other][0], y - _POSITION[other][1]) <= 1.2
            ),
            key=lambda other: (np.hypot(x - _POSITION[other][0], y - _POSITION[other][1]), other),
        )
    )
    for key, (x, y) in _POSITION.items()
}
#: What optical character recognition reads in place of a character.
CONFUSIONS = {
    "0": "oO", "1": "lI", "2": "z", "5": "sS", "6": "b", "8": "B", "9": "g", "a": "o", "b": "6h", "c": "eo", "d": "cl",
    "e": "co", "f": "t", "g": "9q", "h": "b", "i": "1l", "j": "i", "k": "lc", "l": "1i", "m": "rn", "n": "ri", "o": "0c",
    "q": "g", "r": "n", "s": "5", "t": "f", "u": "v", "v": "u", "w": "vv", "y": "v", "z": "2", "B": "8", "D": "O", "G": "6",
    "I": "l1", "O": "0Q", "S": "5", "Z": "2",
}  # fmt: skip
#: Two letters that are read for one, and one that is read for two.
_PAIRS = {"m": "rn", "w": "vv", "d": "cl", "n": "ri"}


def typing_errors(text: str, share: float, rng: np.random.Generator) -> str:
    """Each letter or digit is hit beside its key, left out, doubled or exchanged with the next, with probability `share`."""
    draws = rng.random((len(text), 3))
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        hit, kind, choice = draws[position]
        keys = NEIGHBOURS.get(character.lower(), "")
        if hit >= share or not keys:
            out.append(character)
        elif kind < 0.5:  # the key beside it
            key = keys[int(choice * len(keys))]
            out.append(key.upper() if character.isupper() else key)
        elif kind < 0.7:
            out.append("")
        elif kind < 0.85:
            out.append(character * 2)
        elif position + 1 < len(text):
            out.append(text[position + 1] + character)
            position += 1
        else:
            out.append(character)
        position += 1
    return "".join(out)


def recognition_errors(text: str, share: float, rng: np.random.Generator) -> str:
    """Each character is confused, or a space is lost, with probability `share`."""
    draws = rng.random((len(text), 2))
    return "".join(
        _recognised(character, choice) if hit < share else character
        for character, (hit, choice) in zip(text, draws, strict=True)
    )


def _recognised(character: str, choice: float) -> str:
    if character == " ":
        return ""
    if character in _PAIRS and choice < 0.5:
        return _PAIRS[character]
    look_alike = CONFUSIONS.get(character, "")
    look_alike = "".join(c for c in look_alike if look_alike != _PAIRS.get(character)) or look_alike
    return look_alike[int(choice * len(look_alike))] if look_alike else character


def random_letters(length: int, rng: np.random.Generator) -> str:
    """A word of this many random letters."""
    return "".join(string.ascii_lowercase[i] for i in rng.integers(0, 26, length))
