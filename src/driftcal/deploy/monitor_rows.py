"""Rows of a stream that nobody has checked: which of them can be used, and why the others cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.checks import SUM_TOLERANCE, as_array
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Labels

#: What a monitor can be fed; nothing guesses which.
INPUTS = ("logits", "probabilities")
# Beyond this a number of a window is no whole number any more.
_FARTHEST = 2.0**53


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
        logits = np.log(values / sums[:, None])
    reasons = {"not finite": int((~finite).sum()), "not probabilities": int((finite & ~inside).sum())}
    return logits, good, Counter({reason: n for reason, n in reasons.items() if n})


def window_keys(at: AnyArray, n: int, every: float, rows: int) -> tuple[Array, Array]:
    """The window of each row, and whether its time can be used; without times rows are counted on from `rows`.

    >>> window_keys([0.0, 59.9, 60.0], 3, 60.0, 0)[0]
    array([0, 0, 1])
    """
    if at is None:
        times = np.arange(rows, rows + n, dtype=np.float64)
    else:
        found = _numbers(np.atleast_1d(np.asarray(at)))
        if found is None or found.size not in (1, n):
            raise InputError(
                f"at must be one number, or one for each of {n} rows; it has shape {np.shape(at)}. Give seconds or row numbers."
            )
        times = np.broadcast_to(found.reshape(-1).astype(np.float64), (n,))
    with np.errstate(all="ignore"):
        keys = np.floor(times / every)
    timely = np.abs(keys) < _FARTHEST  # false for NaN, too
    return np.where(timely, keys, 0).astype(np.int64), timely


def class_numbers(labels: Sequence[Any], classes: Array) -> tuple[Labels, int]:
    """Labels as column numbers, -1 where no class has that name, and how many of those there are.

    >>> class_numbers(["dog", "cow"], np.array(["cat", "dog"]))
    (array([ 1, -1]), 1)
    """
    known: dict[Any, int] = {}
    for column, name in enumerate(classes.tolist()):
        known[name] = known[str(name)] = column
    numbers = np.array([_look_up(known, label) for label in labels], np.int64).reshape(-1)
    return numbers, int((numbers < 0).sum())


def _look_up(known: dict[Any, int], label: Any) -> int:
    try:
        return known.get(label, -1)
    except TypeError:  # a list or a dict
        return -1
