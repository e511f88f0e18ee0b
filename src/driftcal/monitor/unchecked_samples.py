"""Rows of a stream that nobody has checked: which of them can be used, and why the others cannot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from driftcal.core.validation import SUM_TOLERANCE, as_array
from driftcal.errors import InputError
from driftcal.models.outputs import log_probabilities
from driftcal.types import AnyArray, Array

#: What a monitor can be fed; nothing guesses which.
INPUTS = ("logits", "probabilities")


def usable_rows(scores: AnyArray, n_classes: int, inputs: str) -> tuple[Array, Array, Counter[str]]:
    """Rows as logits, which of them can be used, and how many cannot, by reason.

    A binary problem may come as one number per row: the log-odds or the probability of class 1.

    >>> rows, good, reasons = usable_rows([[1.0, 2.0, 0.0], [float("nan"), 0.0, 0.0]], 3, "logits")
    >>> good.tolist(), dict(reasons)
    ([True, False], {'not finite': 1})
    """
    array = _numbers(scores)
    if array is None:
        n = _length(scores)
        return np.zeros((n, n_classes)), np.zeros(n, bool), Counter({"not numbers": n})
    if array.ndim == 1 and len(array) == n_classes and n_classes > 2:
        array = array[None]
    if n_classes == 2 and (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        positive = array.reshape(-1)
        array = np.stack([np.zeros_like(positive) if inputs == "logits" else 1 - positive, positive], axis=1)
    if array.ndim != 2 or array.shape[1] != n_classes:
        n = len(array) if array.ndim > 1 else 1
        return np.zeros((n, n_classes)), np.zeros(n, bool), Counter({"wrong number of classes": n})
    if inputs == "logits":
        return _usable_logits(array)
    return _usable_probabilities(array)


def _numbers(scores: AnyArray) -> Array | None:
    try:
        array = as_array(scores, "scores")
    except (InputError, TypeError, OverflowError):
        return None
    if array.dtype.kind not in "fiu" or array.ndim == 0:
        return None
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _length(scores: Any) -> int:
    try:
        return max(1, len(scores))
    except TypeError:
        return 1


def _usable_logits(array: Array) -> tuple[Array, Array, Counter[str]]:
    good = np.isfinite(array.max(axis=1)) if len(array) else np.zeros(0, bool)
    return array, good, Counter({"not finite": int((~good).sum())} if not good.all() else {})


def _usable_probabilities(array: Array) -> tuple[Array, Array, Counter[str]]:
    values = array.astype(np.float64)
    finite = np.isfinite(values).all(axis=1)
    with np.errstate(all="ignore"):
        sums = values.sum(axis=1)
        inside = ((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
    good = finite & inside
    # as the deployed model does: a probability of 0 is very small, not impossible, and the sum may be a little off 1
    logits = log_probabilities(np.where(good[:, None], values, 1.0)).astype(np.float32)
    reasons = {"not finite": int((~finite).sum()), "not probabilities": int((finite & ~inside).sum())}
    return logits, good, Counter({reason: n for reason, n in reasons.items() if n})


def listed(values: Any, n: int, name: str) -> list[Any]:
    """What comes beside the rows, one entry for each."""
    if values is None:
        return [None] * n
    entries = values.tolist() if hasattr(values, "tolist") else list(values)
    if not isinstance(entries, list) or len(entries) != n:
        raise InputError(f"{name} must hold one entry per row; there are {n} rows. Put None where there is none.")
    return entries
