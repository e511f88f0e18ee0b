"""The first pass over labelled logits: it finds unusable samples and sums the totals that every fit needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.blocks import Block
from driftcal.core.numerics import row_argmax, with_small
from driftcal.core.validation import ROUNDED_SUM_TOLERANCE, looks_like_probabilities
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Largest magnitude of a logit and of a sum of weights in a fit: products of four of them still fit into float64.
MAX_MAGNITUDE = 1e70

#: Kinds of unusable samples: positions in `ScanTotals.first_bad`.
NAN, PLUS_INF, ALL_MASKED, TOO_LARGE, BAD_LABEL = range(5)
_N_KINDS = 5
#: Positions in `ScanTotals.counts`.
_SAMPLES, _CORRECT_WEIGHT, _WEIGHTED_SAMPLES = range(3)
_N_COUNTS = 3
#: Stands in `first_bad` for "there is none": larger than the number of any sample.
_NO_SAMPLE = np.iinfo(np.int64).max


@dataclass
class ScanTotals:
    """Totals of the samples of one accumulator; :meth:`merge` joins several."""

    #: Sum of the weights of each class.
    class_weights: Float64
    #: Samples, weight of the correctly predicted ones, samples with a positive weight.
    counts: Float64
    #: The number of the first unusable sample of each kind.
    first_bad: Array
    #: Whether every sample so far could be a vector of probabilities.
    maybe_probabilities: bool = True

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(self.counts[_SAMPLES])

    @property
    def correct_weight(self) -> float:
        """Sum of the weights of the correctly predicted samples."""
        return float(self.counts[_CORRECT_WEIGHT])

    @property
    def n_weighted(self) -> float:
        """Number of samples with a positive weight."""
        return float(self.counts[_WEIGHTED_SAMPLES])

    @classmethod
    def empty(cls, n_classes: int) -> ScanTotals:
        """Totals of no samples."""
        return cls(np.zeros(n_classes), np.zeros(_N_COUNTS), np.full(_N_KINDS, _NO_SAMPLE))

    @classmethod
    def merge(cls, parts: Iterable[ScanTotals]) -> ScanTotals:
        """Totals of all `parts`, summed in their order."""
        totals = list(parts)
        return cls(
            np.sum([part.class_weights for part in totals], axis=0),
            np.sum([part.counts for part in totals], axis=0),
            np.min([part.first_bad for part in totals], axis=0),
            all(part.maybe_probabilities for part in totals),
        )

    def add(self, block: Block) -> None:
        """Add the samples of a block."""
        if self.maybe_probabilities and not looks_like_probabilities(block.logits, ROUNDED_SUM_TOLERANCE):
            self.maybe_probabilities = False
        _scan_block(
            block.logits, block.labels, block.weights, block.start, self.class_weights, self.counts, self.first_bad
        )
        if block.logits.dtype == np.float64:  # the largest float32 is far below the limit
            _find_too_large(block.logits, block.start, self.first_bad)

    @property
    def has_bad_samples(self) -> bool:
        """Whether at least one sample is unusable."""
        return bool((self.first_bad < _NO_SAMPLE).any())


def _small_scan_block(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    start: int,
    class_weights: Float64,
    counts: Float64,
    first_bad: Array,
) -> None:
    """The same in numpy, to the bit: `add.at` adds one number after the other."""
    top, has_nan = logits.max(axis=1), np.isnan(logits).any(axis=1)
    has_label = (labels >= 0) & (labels < logits.shape[1])
    kinds = {NAN: has_nan, PLUS_INF: top == np.inf, ALL_MASKED: top == -np.inf, BAD_LABEL: ~has_label}
    for kind, is_bad in kinds.items():
        _lower_first(first_bad, kind, start, is_bad)
    counts[_WEIGHTED_SAMPLES] += np.count_nonzero(weights > 0)
    np.add.at(class_weights, labels[has_label], weights[has_label])
    is_correct = has_label & ~has_nan & (logits.argmax(axis=1) == labels)
    np.add.at(counts, np.full(np.count_nonzero(is_correct), _CORRECT_WEIGHT), weights[is_correct])
    counts[_SAMPLES] += len(logits)


def _lower_first(first_bad: Array, kind: int, start: int, is_bad: Any) -> None:
    """Remember the first unusable sample of a kind."""
    if is_bad.any():
        first_bad[kind] = min(int(first_bad[kind]), start + int(is_bad.argmax()))


@with_small(_small_scan_block)
def _scan_block(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    start: int,
    class_weights: Float64,
    counts: Float64,
    first_bad: Array,
) -> None:
    for i in range(logits.shape[0]):
        row = logits[i]
        nan = False
        top = row[0]
        for c in range(row.shape[0]):
            nan |= row[c] != row[c]
            top = max(top, row[c])
        if nan:
            first_bad[NAN] = min(first_bad[NAN], start + i)
        elif top == np.inf:
            first_bad[PLUS_INF] = min(first_bad[PLUS_INF], start + i)
        elif top == -np.inf:
            first_bad[ALL_MASKED] = min(first_bad[ALL_MASKED], start + i)
        counts[_WEIGHTED_SAMPLES] += weights[i] > 0
        y = labels[i]
        if y < 0 or y >= row.shape[0]:
            first_bad[BAD_LABEL] = min(first_bad[BAD_LABEL], start + i)
        else:
            class_weights[y] += weights[i]
            if not nan and row[y] == top and row_argmax(row) == y:
                counts[_CORRECT_WEIGHT] += weights[i]
    counts[_SAMPLES] += logits.shape[0]


def _small_find_too_large(logits: Logits, start: int, first_bad: Array) -> None:
    is_too_large = (np.abs(logits) > MAX_MAGNITUDE) & (logits > -np.inf)
    _lower_first(first_bad, TOO_LARGE, start, is_too_large.any(axis=1))


@with_small(_small_find_too_large)
def _find_too_large(logits: Logits, start: int, first_bad: Array) -> None:
    for i in range(logits.shape[0]):
        too_large = False
        for z in logits[i]:
            too_large |= (abs(z) > MAX_MAGNITUDE) & (z > -np.inf)
        if too_large:
            first_bad[TOO_LARGE] = min(first_bad[TOO_LARGE], start + i)
