"""Texts as inputs: an object array of ``str``, one per sample."""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import Any

import numpy as np

from driftcal.errors import InputError
from driftcal.types import AnyArray, Array


def is_text(inputs: Any) -> bool:
    """Whether these are texts, one per sample: a list, an array or a column of ``str``.

    >>> is_text(["one", "two"]), is_text([1, 2]), is_text([["one", "two"]])
    (True, False, False)
    """
    if isinstance(inputs, np.ndarray):
        return inputs.ndim == 1 and (
            inputs.dtype.kind in "UT" or (inputs.dtype == object and _starts_with_text(inputs))
        )
    is_sequence = isinstance(inputs, list | tuple) or (hasattr(inputs, "iloc") and not hasattr(inputs, "columns"))
    return is_sequence and _starts_with_text(inputs)


def _starts_with_text(inputs: Any) -> bool:
    """Whether there is text among the first values, behind missing ones as well."""
    return any(isinstance(value, str) for value in islice(inputs, 8))


def as_texts(inputs: AnyArray) -> Array:
    """Texts as an object array of ``str``; anything else is refused."""
    texts = np.asarray(inputs, dtype=object)
    if texts.ndim != 1:
        raise InputError(
            f"texts must be a list of str, one per sample; got an array of shape {texts.shape}. Pass texts, not tokens. For token "
            "numbers, open a function of them and register a shift of your own: register_shift(name, function)."
        )
    other = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if other is not None:
        raise InputError(
            f"texts must be a list of str, one per sample; sample {other} is of type {type(texts[other]).__name__}. Leave samples without "
            "a text out, or write them as str."
        )
    return texts


def digest_of_texts(texts: Array) -> str:
    """SHA-256 over all texts and their lengths."""
    digest = hashlib.sha256()
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()
