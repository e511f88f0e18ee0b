"""Shifts of text for evaluation, and the noise of words that tuning uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from driftcal.core.inputs.texts import as_texts
from driftcal.core.random import as_seed
from driftcal.core.scalars import is_number
from driftcal.errors import InputError
from driftcal.shifts.arguments import as_indices
from driftcal.shifts.shift import sample_keys
from driftcal.shifts.text.characters import random_letters, recognition_errors, typing_errors
from driftcal.types import AnyArray, Array

Rng = np.random.Generator


def _drop_words(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    kept = [word for word, draw in zip(words, rng.random(len(words)), strict=True) if draw >= share]
    return " ".join(kept or words[:1])


def _change_case(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    draws = rng.random((len(words), 2))
    return " ".join(
        (word.upper() if kind < 0.5 else word.swapcase()) if draw < share else word
        for word, (draw, kind) in zip(words, draws, strict=True)
    )


def _truncate(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    return " ".join(words[: max(1, round((1 - share) * len(words)))])


def _replace_words(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    draws = rng.random(len(words))
    return " ".join(
        random_letters(max(3, len(word)), rng) if word and draw < share else word
        for word, draw in zip(words, draws, strict=True)
    )


#: name -> (function of (text, amount, generator), amounts at levels 1 to 5)
TEXT_SHIFTS: dict[str, tuple[Callable[[str, float, Rng], str], tuple[float, ...]]] = {
    "text_typos": (typing_errors, (0.02, 0.05, 0.1, 0.17, 0.25)),
    "text_ocr": (recognition_errors, (0.03, 0.07, 0.13, 0.2, 0.3)),
    "text_word_dropout": (_drop_words, (0.1, 0.2, 0.35, 0.5, 0.7)),
    "text_casing": (_change_case, (0.2, 0.4, 0.6, 0.8, 1.0)),
    "text_truncation": (_truncate, (0.2, 0.4, 0.6, 0.75, 0.9)),
    "text_unknown_words": (_replace_words, (0.1, 0.2, 0.35, 0.5, 0.7)),
}


def _replace_letters(text: str, share: float, rng: Rng) -> str:
    draws = rng.random(len(text))
    letters = random_letters(len(text), rng)
    return "".join(
        letter if character.isalpha() and draw < share else character
        for character, letter, draw in zip(text, letters, draws, strict=True)
    )


def _drop_vowels(text: str, share: float, rng: Rng) -> str:
    draws = rng.random(len(text))
    return "".join(c for c, draw in zip(text, draws, strict=True) if draw >= share or c.lower() not in "aeiou")


def _move_words(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    moved = np.flatnonzero(rng.random(len(words)) < share)
    for target, source in zip(moved, rng.permutation(moved), strict=True):
        words[target] = text.split(" ")[source]
    return " ".join(words)


def _repeat_words(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    return " ".join(
        f"{word} {word}" if draw < share else word for word, draw in zip(words, rng.random(len(words)), strict=True)
    )


def _cut_beginning(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    return " ".join(words[min(len(words) - 1, round(share * len(words))) :])


#: name -> (family, function, amounts at levels 1 to 5) of the shifts for fitting windowed calibrators. Close relatives:
#: ``text_letters`` and ``text_vowels`` of typos, ``text_beginning_cut`` of truncation.
SIMULATED_TEXT: dict[str, tuple[str, Callable[[str, float, Rng], str], tuple[float, ...]]] = {
    "text_letters": ("letters", _replace_letters, (0.02, 0.05, 0.1, 0.2, 0.35)),
    "text_vowels": ("letters", _drop_vowels, (0.05, 0.1, 0.2, 0.4, 0.7)),
    "text_order": ("order", _move_words, (0.2, 0.4, 0.6, 0.8, 1.0)),
    "text_repeated": ("repeated", _repeat_words, (0.2, 0.4, 0.6, 0.8, 1.0)),
    "text_beginning_cut": ("cut", _cut_beginning, (0.2, 0.4, 0.6, 0.75, 0.9)),
}
_CHANGES = {**TEXT_SHIFTS, **{name: (function, amounts) for name, (_, function, amounts) in SIMULATED_TEXT.items()}}


@dataclass(frozen=True)
class TextShift:
    """One shift of text at levels 0 to 5.

    ``text_typos``: letters are hit beside their key, left out, doubled or exchanged. ``text_ocr``: characters are taken for those
    that look alike, spaces are lost. ``text_word_dropout``: words are left out. ``text_casing``: words change between upper and
    lower case. ``text_truncation``: the end is cut off. ``text_unknown_words``: words are replaced by random letters.

    For fitting: ``text_letters`` replaces letters, ``text_vowels`` leaves out vowels, ``text_order`` moves words,
    ``text_repeated`` doubles words, ``text_beginning_cut`` cuts off the beginning.

    >>> TextShift("text_truncation")(["one two three four five"], 3).tolist()
    ['one two']
    """

    name: str
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The changed texts, an object array of ``str``."""
        if level not in self.levels:
            raise InputError(f"level of {self.name} must be one of 0 to 5; got {level!r}. 0 is the identity.")
        function, amounts = _CHANGES[self.name]
        amount = 0.0 if level == 0 else amounts[int(level) - 1]
        return change_texts(inputs, self.name, amount, function, seed=seed, indices=indices)

    def label(self, level: float) -> str:
        """The amount at a level: the share of characters or words that change."""
        return "0 %" if level == 0 else f"{_CHANGES[self.name][1][int(level) - 1]:.0%}"


@dataclass(frozen=True)
class WordNoise:
    """Noise of words, which tuning uses on text: each word is left out or scrambled with probability 1 − e^(−level).

    The level is any number from 0 up. At high levels nothing of a text is left, so the accuracy falls to chance, as Algorithm 1
    needs. None of the suite ``text`` is this noise; ``text_word_dropout`` and ``text_unknown_words`` are close relatives.

    >>> WordNoise()(["the quick brown fox"], 0.0).tolist()
    ['the quick brown fox']
    """

    name: ClassVar[str] = "text_noise"
    levels: ClassVar[None] = None

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The noisy texts, an object array of ``str``."""
        if not is_number(level) or level < 0:
            raise InputError(f"level of {self.name} must be a number of at least 0; got {level!r}. 0 is the identity.")
        return change_texts(inputs, self.name, 1 - math.exp(-float(level)), _scramble, seed=seed, indices=indices)


def _scramble(text: str, share: float, rng: Rng) -> str:
    words = text.split(" ")
    draws = rng.random((len(words), 2))
    kept = []
    for word, (draw, kind) in zip(words, draws, strict=True):
        if draw >= share:
            kept.append(word)
        elif kind < 0.5:
            kept.append("".join(rng.permutation(list(word))) if kind < 0.2 else random_letters(max(1, len(word)), rng))
    return " ".join(kept) if kept else random_letters(3, rng)


def change_texts(
    inputs: AnyArray,
    name: str,
    amount: float,
    function: Callable[[str, float, Rng], str],
    *,
    seed: int,
    indices: AnyArray | None,
) -> Array:
    """`function` of each text with a generator of its own: a function of (name, seed, index of the sample)."""
    texts = as_texts(inputs)
    keys = sample_keys(name, as_seed(seed), as_indices(indices, len(texts)))
    out = texts.copy()
    if amount > 0:
        for i, (text, key) in enumerate(zip(texts, keys, strict=True)):
            out[i] = function(text, amount, np.random.Generator(np.random.Philox(int(key))))
    return out
