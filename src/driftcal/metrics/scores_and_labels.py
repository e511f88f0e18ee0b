"""Checks of the arguments of a metric: labels first, then scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.labels import as_columns, check_range, declared_classes
from driftcal.core.score_type import has_one_column, resolve_score_type
from driftcal.core.validation import ROUNDED_SUM_TOLERANCE
from driftcal.errors import InputError, WeightsError
from driftcal.types import AnyArray, Array, Labels, Probs, Weights


@dataclass(frozen=True, eq=False)
class LabelledProbabilities:
    """Checked probabilities (n, C) with their labels.

    `positive_class` is true if the caller passed one column: metrics then evaluate the probability of class 1.
    """

    labels: Labels
    probabilities: Probs
    weights: Weights | None
    positive_class: bool

    @property
    def n_classes(self) -> int:
        """C, the number of columns."""
        return int(self.probabilities.shape[1])

    def __len__(self) -> int:
        return len(self.probabilities)


def check_scores(
    y_true: AnyArray,
    scores: AnyArray,
    *,
    score_type: str | None = None,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
) -> tuple[LabelledLogits | LabelledProbabilities, bool]:
    """Checked scores, and whether they are those of class 1 alone.

    Without `scores`, `y_true` may be :class:`LabelledLogits` or a source of chunks, which hold labels and logits.
    """
    if isinstance(y_true, LabelledLogits) or (scores is None and validation.is_chunked(y_true)):
        return _check_data(y_true, scores, score_type, sample_weight, classes)
    if isinstance(scores, LabelledLogits) or validation.is_chunked(scores):
        raise InputError(
            "y_true must be left out when scores are a source of chunks or LabelledLogits, which hold labels. Pass the "
            "source alone."
        )
    refuse_swapped(y_true, scores, "(y_true, scores)")
    if resolve_score_type(scores, score_type) == "probabilities":
        data = check_probabilities(y_true, scores, sample_weight, classes)
        return data, data.positive_class
    logits, _ = validation.as_logits(scores)
    if len(logits) > 1 and validation.looks_like_probabilities(logits, ROUNDED_SUM_TOLERANCE):
        raise InputError(
            "scores must be logits or log-probabilities unless score_type says otherwise; all of them lie in [0, 1] and sum "
            'to 1 per sample. Pass score_type="probabilities".'
        )
    order = declared_classes(scores, y_true, classes)
    return LabelledLogits(logits, y_true, sample_weight, classes=order), has_one_column(scores)


def _check_data(
    data: Any, scores: AnyArray, score_type: str | None, sample_weight: AnyArray, classes: Sequence[Any] | None
) -> tuple[LabelledLogits, bool]:
    """:func:`check_scores` of :class:`LabelledLogits` or a source of chunks."""
    if score_type == "probabilities":
        raise InputError(
            'LabelledLogits and sources of chunks must hold logits; score_type is "probabilities". '
            "Yield driftcal.from_probabilities(p) instead of p."
        )
    is_labelled = isinstance(data, LabelledLogits)
    if scores is not None or sample_weight is not None or (is_labelled and classes is not None):
        raise InputError(
            "scores, sample_weight and classes must be left out when LabelledLogits or a source of chunks is passed, which "
            "holds them. Pass it alone, or labels and scores."
        )
    if is_labelled:
        return data, False
    return LabelledLogits(data, classes=classes, score_type=score_type), has_one_column(data)


def check_probabilities(
    y_true: AnyArray, probabilities: AnyArray, sample_weight: AnyArray = None, classes: Sequence[Any] | None = None
) -> LabelledProbabilities:
    """Checked probabilities; one column is the probability of class 1, as in scikit-learn."""
    refuse_swapped(y_true, probabilities, "(y_true, probabilities)")
    p = validation.as_probabilities(probabilities)
    n_samples, n_classes = p.shape
    if n_samples == 0:
        raise InputError(
            "probabilities must hold at least one sample; they are empty. Check the filter that made them."
        )
    order = declared_classes(probabilities, y_true, classes)
    labels, _ = as_columns(y_true, n_classes, n_samples, classes=order)
    check_range(labels, n_classes)
    weights = validation.as_weights(sample_weight, n_samples)
    if weights is not None and not weights.sum() > 0:
        raise WeightsError(
            "sample_weight must have a positive sum; all weights are 0. Leave it out to weight all samples alike."
        )
    return LabelledProbabilities(labels, p, weights, has_one_column(probabilities))


def refuse_swapped(y_true: AnyArray, scores: AnyArray, order: str) -> None:
    """Refuse fractions as `y_true` together with whole numbers as `scores`."""
    if y_true is None or scores is None or validation.is_chunked(scores) or validation.is_chunked(y_true):
        return
    first, second = validation.as_array(y_true, "y_true"), validation.as_array(scores, "scores")
    if second.ndim == 1 and first.dtype.kind == "f" and not _are_whole(first) and _are_whole(second):
        raise InputError(
            f"arguments must come as {order}; the labels hold fractions (shape {first.shape}) and the scores hold labels "
            f"(shape {second.shape}). Swap them."
        )


def _are_whole(values: Array) -> bool:
    return values.dtype.kind != "f" or bool((values == np.floor(values)).all())
