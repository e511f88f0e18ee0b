"""What a row of logits or probabilities says about its label, in six numbers: all that any metric but the class-wise
ones needs. The n·C scores are read once and never kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from driftcal import checks
from driftcal.chunks import class_order
from driftcal.errors import InputError, LabelsError, WeightsError
from driftcal.numerics import MASKED, exp, kernel, log, row_argmax, row_max
from driftcal.rows import Rows, map_blocks
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Probs, Weights

#: Probabilities of the true class are clipped here in the NLL, and clipped rows are counted.
CLIP = 1e-15
WORST_NLL = -math.log(CLIP)
#: Confidence, outcome, correct, NLL, Brier score, entropy.
WIDTH = 6


@dataclass(frozen=True, eq=False)
class Scores:
    """Six numbers per row with positive weight, in the caller's order.

    `confidence` is what the model claims and `outcome` is 1 where the claim came true: the probability of the most
    probable class and whether it is the label or, where ``positive``, the probability of class 1 and whether the label
    is 1. `correct` is 1 where the most probable class is the label. `nll` is not clipped yet.
    """

    confidence: Float64
    outcome: Float64
    correct: Float64
    nll: Float64
    brier: Float64
    entropy: Float64
    weights: Weights
    kept: Array
    positive: bool

    @classmethod
    def of_logits(cls, rows: Rows, *, positive: bool = False) -> Scores:
        """The scores of labelled logits, in one pass."""
        columns = rows.each(score_rows, WIDTH + 1, positive)
        return cls._of(columns[:, :WIDTH], columns[:, WIDTH].copy(), positive)

    @classmethod
    def of_probabilities(
        cls,
        y_true: AnyArray,
        probabilities: AnyArray,
        sample_weight: AnyArray = None,
        classes: Sequence[Any] | None = None,
    ) -> Scores:
        """The scores of probabilities as they are given: rows are not normalised again."""
        labels, p, weights, positive = check_pair(y_true, probabilities, sample_weight, classes)
        return cls.of_checked(labels, p, weights, positive)

    @classmethod
    def of_checked(cls, labels: Labels, p: Probs, weights: Weights | None, positive: bool) -> Scores:
        """The scores of what :func:`check_pair` returned."""
        top, argmax, squares, entropy = map_blocks(_describe_rows, p, 4).T
        p_true = np.minimum(p[np.arange(len(p)), labels], 1)
        correct = (argmax == labels).astype(np.float64)
        confidence, outcome = (p[:, 1], (labels == 1).astype(np.float64)) if positive else (top, correct)
        with np.errstate(divide="ignore"):
            nll = -np.log(p_true)
        brier = (1 - p_true) ** 2 if positive else np.maximum(squares - 2 * p_true + 1, 0)
        columns = np.stack([np.minimum(confidence, 1), outcome, correct, nll, brier, entropy], axis=1)
        return cls._of(columns, weights, positive)

    @classmethod
    def _of(cls, columns: Float64, weights: Weights | None, positive: bool) -> Scores:
        kept = np.arange(len(columns))
        if weights is None:
            weights = np.ones(len(columns))
        elif not weights.all():
            kept = np.flatnonzero(weights)
            columns, weights = columns[kept], weights[kept]
        confidence, outcome, correct, nll, brier, entropy = np.ascontiguousarray(columns.T)
        return cls(confidence, outcome, correct, nll, brier, entropy, weights, kept, positive)

    def __len__(self) -> int:
        return len(self.confidence)

    @cached_property
    def certainty(self) -> Float64:
        """The probability of the most probable class."""
        return np.maximum(self.confidence, 1 - self.confidence) if self.positive else self.confidence

    @cached_property
    def columns(self) -> Float64:
        """(n, 6), as the kernels want it."""
        six = (self.confidence, self.outcome, self.correct, self.nll, self.brier, self.entropy)
        return np.ascontiguousarray(np.stack(six, axis=1))


@kernel
def score_row(row: Array, y: int, positive: bool, out: Float64) -> None:
    """The six numbers of a row of logits, with one exponential per class."""
    top = row_max(row)
    total = 0.0
    squares = 0.0
    slope = 0.0
    for c in range(row.shape[0]):
        d = max(np.float64(row[c]) - top, MASKED)
        e = exp(d)
        total += e
        squares += e * e
        slope += e * d
    log_total = math.log(total)
    d_true = max(np.float64(row[y]) - top, MASKED)  # the max also keeps the compiler from reordering this difference
    p_true = exp(d_true) / total
    out[2] = 1.0 if row[y] == top and row_argmax(row) == y else 0.0
    out[3] = log_total - d_true
    out[5] = log_total - slope / total
    if positive:
        out[0] = exp(max(np.float64(row[1]) - top, MASKED)) / total
        out[1] = np.float64(y)
        out[4] = (1.0 - p_true) * (1.0 - p_true)
    else:
        out[0] = 1.0 / total
        out[1] = out[2]
        out[4] = max(squares / (total * total) - 2.0 * p_true + 1.0, 0.0)


@kernel
def score_rows(logits: Logits, labels: Labels, weights: Weights, out: Float64, positive: bool) -> None:
    """:func:`score_row` for each row of a block, and its weight."""
    for i in range(logits.shape[0]):
        score_row(logits[i], labels[i], positive, out[i])
        out[i, WIDTH] = weights[i]


@kernel
def _describe_rows(p: Probs, out: Float64) -> None:
    """Largest probability, its first position, the sum of squares and the entropy of each row."""
    for i in range(p.shape[0]):
        row = p[i]
        squares = 0.0
        entropy = 0.0
        for c in range(row.shape[0]):
            squares += row[c] * row[c]
            entropy -= row[c] * log(max(row[c], 1e-300))  # 0 log 0 is 0
        out[i, 0] = row_max(row)
        out[i, 1] = row_argmax(row)
        out[i, 2] = squares
        out[i, 3] = max(entropy, 0.0)


def is_positive(scores: Any) -> bool:
    """Whether scores or probabilities are those of class 1 alone: one axis, or a last axis of length 1."""
    if isinstance(scores, Rows):
        return False
    if checks.is_chunked(scores):
        first = next(iter(scores), None)
        return is_positive(first[0]) if isinstance(first, tuple) and len(first) > 0 else False
    shape = np.shape(scores)
    return len(shape) == 1 or (len(shape) > 1 and shape[-1] == 1)


def rows_of(logits: AnyArray, y: AnyArray, sample_weight: AnyArray, classes: Sequence[Any] | None = None) -> Rows:
    """Checked rows from logits and labels, or rows that were checked before."""
    if not isinstance(logits, Rows):
        refuse_swapped(y, logits, "(logits, y)")
        return Rows(logits, y, sample_weight, classes=class_order(logits, y, classes))
    if y is not None or sample_weight is not None or classes is not None:
        raise InputError(
            "y, sample_weight and classes must be left out when Rows are given, which hold them; they were given. "
            "Pass Rows alone, or logits and labels."
        )
    return logits


def check_pair(
    y_true: AnyArray, probabilities: AnyArray, sample_weight: AnyArray = None, classes: Sequence[Any] | None = None
) -> tuple[Labels, Probs, Weights | None, bool]:
    """Labels, probabilities, weights and whether the probabilities are those of class 1, all checked."""
    refuse_swapped(y_true, probabilities, "(y_true, probabilities)")
    p = checks.as_probabilities(probabilities)
    n, n_classes = p.shape
    if n == 0:
        raise InputError("probabilities must hold at least one row; they are empty. Check the filter that made them.")
    labels, _ = checks.as_labels(y_true, n_classes, n, classes=class_order(probabilities, y_true, classes))
    bad = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(bad):
        raise LabelsError(
            f"labels must be 0..{n_classes - 1} for probabilities with {n_classes} classes; row {bad[0]} holds {labels[bad[0]]}. "
            "If your file counts from 1, subtract 1."
        )
    weights = checks.as_weights(sample_weight, n)
    if weights is not None and not weights.sum() > 0:
        raise WeightsError(
            "sample_weight must have a positive sum; all weights are 0. Leave it out to weight all rows alike."
        )
    return labels, p, weights, is_positive(probabilities)


def refuse_swapped(y: AnyArray, scores: AnyArray, order: str) -> None:
    """Raise where `y` holds what only scores can hold, and `scores` what labels look like."""
    if y is None or isinstance(scores, Rows) or checks.is_chunked(scores):
        return
    first, second = checks.as_array(y, "y"), checks.as_array(scores, "scores")
    if second.ndim == 1 and first.dtype.kind == "f" and not _whole(first) and _whole(second):
        raise InputError(
            f"arguments must come as {order}; the labels hold fractions (shape {first.shape}) and the scores hold labels "
            f"(shape {second.shape}). Swap them."
        )


def _whole(values: Array) -> bool:
    return values.dtype.kind != "f" or bool((values == np.floor(values)).all())
