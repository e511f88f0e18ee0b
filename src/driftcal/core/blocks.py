"""Consecutive rows as kernels take them, and the first look at them: what cannot be used, and what every fit asks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from driftcal import checks
from driftcal.errors import LogitsError
from driftcal.numerics import kernel, row_argmax
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Largest size of a logit and of a sum of weights in a fit: products of four of them still fit into float64.
HUGE = 1e70


#: How far from 1 the sum of probabilities may be that a file holds with two digits.
ROUNDED = 0.02


def no_logits(name: str) -> LogitsError:
    """The error for probabilities in the place of logits."""
    return LogitsError(
        f"{name} must be unnormalised scores or log-probabilities; every row lies in [0, 1] and sums to 1 (or nearly), so these are "
        "probabilities. Convert them with driftcal.from_probabilities(p), divided by their sums if they were rounded."
    )


@dataclass(frozen=True)
class Block:
    """Consecutive rows, ready for a kernel: float32 or float64, contiguous, labels checked."""

    start: int
    logits: Logits
    labels: Labels
    weights: Weights

    def of(self, beside: Array | None) -> tuple[Array, ...]:
        """What an array with a line for every row holds of these rows; nothing of no array."""
        return () if beside is None else (beside[self.start : self.start + len(self.labels)],)


def cut(chunk: tuple[Logits, Labels, Weights | None], low: int, high: int, offset: int) -> Block:
    """The rows [low, high) of a chunk that begins at row `offset`, ready for a kernel."""
    logits, labels, weights = chunk
    scores = checks.for_kernel(logits[low:high])
    own = np.ones(len(scores)) if weights is None else checks.unlocked(weights[low:high])
    return Block(offset + low, scores, checks.unlocked(labels[low:high]), own)


def empty_scan(n_classes: int) -> tuple[Array, Array, Array]:
    """Weight per class; rows, weight of the right ones, rows that weigh anything; the first row of each kind that cannot be used."""
    return np.zeros(n_classes), np.zeros(3), np.full(5, np.iinfo(np.int64).max)


def scan_blocks(blocks: Iterable[Block], n_classes: int) -> tuple[tuple[Array, Array, Array], bool]:
    """The scan of one lane."""
    lane, maybe_probabilities = empty_scan(n_classes), True
    for block in blocks:
        maybe_probabilities = scan(block, lane, maybe_probabilities)
    return lane, maybe_probabilities


def scan(block: Block, lane: tuple[Array, Array, Array], maybe_probabilities: bool) -> bool:
    """Add a block to a lane; whether it could hold probabilities, if those before it could."""
    if maybe_probabilities and not checks.looks_like_probabilities(block.logits, ROUNDED):
        maybe_probabilities = False
    _scan_block(block.logits, block.labels, block.weights, block.start, *lane)
    if block.logits.dtype == np.float64:  # float32 ends far below
        _find_huge(block.logits, block.start, lane[2])
    return maybe_probabilities


@kernel
def _scan_block(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    start: int,
    per_class: Float64,
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
            first_bad[0] = min(first_bad[0], start + i)
        elif top == np.inf:
            first_bad[1] = min(first_bad[1], start + i)
        elif top == -np.inf:
            first_bad[2] = min(first_bad[2], start + i)
        counts[2] += weights[i] > 0
        y = labels[i]
        if y < 0 or y >= row.shape[0]:
            first_bad[4] = min(first_bad[4], start + i)
        else:
            per_class[y] += weights[i]
            if not nan and row[y] == top and row_argmax(row) == y:
                counts[1] += weights[i]
    counts[0] += logits.shape[0]


@kernel
def _find_huge(logits: Logits, start: int, first_bad: Array) -> None:
    for i in range(logits.shape[0]):
        huge = False
        for z in logits[i]:
            huge |= (abs(z) > HUGE) & (z > -np.inf)
        if huge:
            first_bad[3] = min(first_bad[3], start + i)
