"""Checking the samples of a stream: which of them can be used, and why the others cannot."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftcal.core.validation import SUM_TOLERANCE, as_array, looks_like_probabilities
from driftcal.errors import InputError, LogitsError
from driftcal.models.outputs import log_probabilities
from driftcal.types import AnyArray, Array

#: The types of scores that a monitor takes. The caller declares the type; it is never guessed.
SCORE_TYPES = ("logits", "probabilities")
#: The reason why a batch of probabilities cannot be used as logits.
PROBABILITIES = "probabilities in place of logits"


@dataclass(frozen=True, eq=False)
class CheckedSamples:
    """Samples as logits, which of them can be used, and the number of the others by reason."""

    logits: Array
    usable: Array
    rejected: Counter[str] = field(default_factory=Counter)

    @classmethod
    def none_of(cls, n_samples: int, n_classes: int, reason: str) -> CheckedSamples:
        """Samples of which none can be used."""
        return cls(np.zeros((n_samples, n_classes)), np.zeros(n_samples, bool), Counter({reason: n_samples}))


def check_samples(scores: AnyArray, n_classes: int, score_type: str) -> CheckedSamples:
    """Check each sample; a sample that cannot be used is counted, so that no client can end a monitor.

    With two classes a sample may be one number: the log-odds or the probability of class 1.

    >>> checked = check_samples([[1.0, 2.0, 0.0], [float("nan"), 0.0, 0.0]], 3, "logits")
    >>> checked.usable.tolist(), dict(checked.rejected)
    ([True, False], {'not finite': 1})
    """
    array = _numbers(scores)
    if array is None:
        return CheckedSamples.none_of(_length(scores), n_classes, "not numbers")
    columns = _columns(array, n_classes, score_type)
    if columns is None:
        return CheckedSamples.none_of(len(array) if array.ndim > 1 else 1, n_classes, "wrong number of classes")
    return _check_logits(columns) if score_type == "logits" else _check_probabilities(columns)


def refuse_mistakes(scores: AnyArray, n_classes: int, score_type: str) -> None:
    """Refuse what is a mistake of the program, not of a sample: a wrong number of columns, probabilities as logits."""
    array = _numbers(scores)
    if array is None:
        return
    columns = _columns(array, n_classes, score_type)
    if columns is None:
        raise InputError(
            f"scores must have a column for each of the calibrator's {n_classes} classes; their shape is {array.shape}. "
            "Pass the scores of the model that was calibrated, with all its classes."
        )
    if score_type == "logits" and PROBABILITIES in _check_logits(columns).rejected:
        raise LogitsError(
            'scores must be logits with score_type="logits"; every sample lies in [0, 1] and sums to 1 (or nearly), so these are '
            'probabilities. Pass score_type="probabilities" (--score-type probabilities).'
        )


def _columns(array: Array, n_classes: int, score_type: str) -> Array | None:
    """The scores with a column per class; None if they have another number of columns."""
    if array.ndim == 1 and len(array) == n_classes and n_classes > 2:
        array = array[None]
    if n_classes == 2 and (array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1)):
        positive = array.reshape(-1)
        array = np.stack([np.zeros_like(positive) if score_type == "logits" else 1 - positive, positive], axis=1)
    return array if array.ndim == 2 and array.shape[1] == n_classes else None


def one_per_sample(values: Any, n_samples: int, name: str) -> list[Any] | None:
    """One entry per sample, for instance its label; None if nothing was passed."""
    if values is None:
        return None
    entries = values.tolist() if hasattr(values, "tolist") else list(values)
    if not isinstance(entries, list) or len(entries) != n_samples:
        raise InputError(
            f"{name} must hold one entry per sample; there are {n_samples} samples. Put None where there is no entry."
        )
    return entries


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


def _check_logits(array: Array) -> CheckedSamples:
    usable: Array = np.isfinite(array.max(axis=1)) if len(array) else np.zeros(0, bool)
    masks = {"not finite": ~usable}
    if usable.any() and looks_like_probabilities(array[usable]):
        masks[PROBABILITIES], usable = usable, np.zeros(len(array), bool)
    return CheckedSamples(array, usable, _counts(masks))


def _check_probabilities(array: Array) -> CheckedSamples:
    values = array.astype(np.float64)
    finite: Array = np.asarray(np.isfinite(values).all(axis=1))
    with np.errstate(all="ignore"):
        sums = values.sum(axis=1)
        in_range = ((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all(axis=1) & (np.abs(sums - 1) <= SUM_TOLERANCE)
    usable = finite & in_range
    # as in the deployed model: a probability of 0 becomes very small, and the sum may differ a little from 1
    logits = log_probabilities(np.where(usable[:, None], values, 1.0)).astype(np.float32)
    return CheckedSamples(logits, usable, _counts({"not finite": ~finite, "not probabilities": finite & ~in_range}))


def _counts(masks: dict[str, Array]) -> Counter[str]:
    return Counter({reason: int(mask.sum()) for reason, mask in masks.items() if mask.any()})
