"""Six numbers per sample, from which all metrics but the class-wise ones are computed.

The n·C scores are read once and not stored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, differences, exp, kernel, log, row_argmax, row_max, with_small
from driftcal.core.passes import map_blocks
from driftcal.metrics.scores_and_labels import LabelledProbabilities
from driftcal.types import Array, Float64, Labels, Logits, Probs, Weights

#: The smallest probability of the true class in the NLL. Clipped samples are counted.
CLIP = 1e-15
WORST_NLL = -math.log(CLIP)
#: Positions of the six numbers in `SampleScores.columns`.
CONFIDENCE, OUTCOME, CORRECT, NLL, BRIER, ENTROPY = range(6)
N_SCORES = 6


@dataclass(frozen=True, eq=False)
class SampleScores:
    """Six numbers per sample with positive weight, in the caller's order.

    `confidence` is the probability of the most probable class, and `outcome` is 1 if that class is the label. If
    `positive_class`, they are the probability of class 1 and whether the label is 1. `correct` is 1 if the most
    probable class is the label. `nll` is not clipped yet. `kept` holds the positions of these samples among those of
    the caller.
    """

    confidence: Float64
    outcome: Float64
    correct: Float64
    nll: Float64
    brier: Float64
    entropy: Float64
    weights: Weights
    kept: Array
    positive_class: bool

    @classmethod
    def of(cls, data: LabelledLogits | LabelledProbabilities, *, positive_class: bool = False) -> SampleScores:
        """The scores of checked data, in one pass. Probabilities are not normalised again."""
        if isinstance(data, LabelledProbabilities):
            return cls.of_probabilities(data.labels, data.probabilities, data.weights, positive_class=positive_class)
        columns = data.map_samples(score_samples, N_SCORES + 1, positive_class)
        return cls.of_columns(columns[:, :N_SCORES], columns[:, N_SCORES].copy(), positive_class=positive_class)

    @classmethod
    def of_probabilities(
        cls, labels: Labels, p: Probs, weights: Weights | None = None, *, positive_class: bool = False
    ) -> SampleScores:
        """The scores of checked probabilities (n, C) and labels."""
        top, argmax, squares, entropy = map_blocks(_summarise_samples, p, 4).T
        p_true = np.minimum(p[np.arange(len(p)), labels], 1)
        correct = (argmax == labels).astype(np.float64)
        confidence, outcome = (p[:, 1], (labels == 1).astype(np.float64)) if positive_class else (top, correct)
        with np.errstate(divide="ignore"):
            nll = -np.log(p_true)
        brier = (1 - p_true) ** 2 if positive_class else np.maximum(squares - 2 * p_true + 1, 0)
        columns = np.stack([np.minimum(confidence, 1), outcome, correct, nll, brier, entropy], axis=1)
        return cls.of_columns(columns, weights, positive_class=positive_class)

    @classmethod
    def of_columns(
        cls, columns: Float64, weights: Weights | None = None, *, positive_class: bool = False
    ) -> SampleScores:
        """The scores from the (n, 6) numbers of :attr:`columns`; samples of weight 0 are left out."""
        kept = np.arange(len(columns))
        if weights is None:
            weights = np.ones(len(columns))
        elif not weights.all():
            kept = np.flatnonzero(weights)
            columns, weights = columns[kept], weights[kept]
        confidence, outcome, correct, nll, brier, entropy = np.ascontiguousarray(columns.T)
        return cls(confidence, outcome, correct, nll, brier, entropy, weights, kept, positive_class)

    def __len__(self) -> int:
        return len(self.confidence)

    @cached_property
    def top_confidence(self) -> Float64:
        """The probability of the most probable class, also if `positive_class`."""
        return np.maximum(self.confidence, 1 - self.confidence) if self.positive_class else self.confidence

    @cached_property
    def columns(self) -> Float64:
        """(n, 6): the numbers of each sample, as the kernels read them."""
        scores = (self.confidence, self.outcome, self.correct, self.nll, self.brier, self.entropy)
        return np.ascontiguousarray(np.stack(scores, axis=1))


@kernel
def score_sample(row: Array, y: int, positive_class: bool, out: Float64) -> None:
    """Write the six numbers of one sample's logits into `out`, with one exponential per class."""
    top = row_max(row)
    total = 0.0
    squares = 0.0
    weighted = 0.0
    for c in range(row.shape[0]):
        d = max(np.float64(row[c]) - top, MASKED)
        e = exp(d)
        total += e
        squares += e * e
        weighted += e * d
    log_total = math.log(total)
    d_true = max(np.float64(row[y]) - top, MASKED)  # the max also keeps the compiler from reordering this difference
    p_true = exp(d_true) / total
    out[CORRECT] = 1.0 if row[y] == top and row_argmax(row) == y else 0.0
    out[NLL] = log_total - d_true
    out[ENTROPY] = log_total - weighted / total
    if positive_class:
        out[CONFIDENCE] = exp(max(np.float64(row[1]) - top, MASKED)) / total
        out[OUTCOME] = np.float64(y)
        out[BRIER] = (1.0 - p_true) * (1.0 - p_true)
    else:
        out[CONFIDENCE] = 1.0 / total
        out[OUTCOME] = out[CORRECT]
        out[BRIER] = max(squares / (total * total) - 2.0 * p_true + 1.0, 0.0)


def small_score_samples(logits: Logits, labels: Labels, weights: Weights, out: Float64, positive_class: bool) -> None:
    """:func:`score_samples` in numpy."""
    d, _ = differences(logits)
    e = np.exp(d)
    total = e.sum(axis=1)
    true = np.arange(len(labels)), labels
    p_true, log_total = e[true] / total, np.log(total)
    out[:, CORRECT] = logits.argmax(axis=1) == labels
    out[:, NLL] = log_total - d[true]
    out[:, ENTROPY] = log_total - (e * d).sum(axis=1) / total
    if positive_class:
        out[:, CONFIDENCE] = e[:, 1] / total
        out[:, OUTCOME] = labels
        out[:, BRIER] = (1.0 - p_true) * (1.0 - p_true)
    else:
        out[:, CONFIDENCE] = 1.0 / total
        out[:, OUTCOME] = out[:, CORRECT]
        out[:, BRIER] = np.maximum((e * e).sum(axis=1) / (total * total) - 2.0 * p_true + 1.0, 0.0)
    out[:, N_SCORES:] = weights[:, None]


@with_small(small_score_samples)
def score_samples(logits: Logits, labels: Labels, weights: Weights, out: Float64, positive_class: bool) -> None:
    """:func:`score_sample` for each sample of a block, and its weight in the last column."""
    for i in range(logits.shape[0]):
        score_sample(logits[i], labels[i], positive_class, out[i])
        out[i, N_SCORES] = weights[i]


def _small_summarise_samples(p: Probs, out: Float64) -> None:
    out[:, 0] = p.max(axis=1)
    out[:, 1] = p.argmax(axis=1)
    out[:, 2] = (p * p).sum(axis=1)
    out[:, 3] = np.maximum(-(p * np.log(np.maximum(p, 1e-300))).sum(axis=1), 0.0)


@with_small(_small_summarise_samples)
def _summarise_samples(p: Probs, out: Float64) -> None:
    """Write the largest probability, its first position, the sum of squares and the entropy of each sample."""
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
