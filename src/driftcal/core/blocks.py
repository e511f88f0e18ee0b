"""Blocks: consecutive labelled samples in the form that compiled kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from driftcal.core.validation import for_kernel, unlocked
from driftcal.types import Array, Labels, Logits, Weights

#: Scores in a block: 1 MB of float32 stays in a core's cache.
BLOCK_SCORES = 1 << 18

#: Logits, labels and sample weights (None: all 1) of consecutive samples.
Chunk: TypeAlias = tuple[Logits, Labels, Weights | None]


def block_length(n_classes: int) -> int:
    """Samples in a block."""
    return max(1, BLOCK_SCORES // max(1, n_classes))


def count_blocks(n_samples: int, n_classes: int) -> int:
    """Blocks of a data set, about."""
    return -(-n_samples * n_classes // BLOCK_SCORES)


@dataclass(frozen=True)
class Block:
    """Consecutive samples, ready for a kernel: float32 or float64, contiguous, labels checked."""

    start: int
    logits: Logits
    labels: Labels
    weights: Weights

    def of(self, per_sample: Array | None) -> tuple[Array, ...]:
        """The part of an array with one entry per sample that belongs to this block; () without an array."""
        return () if per_sample is None else (per_sample[self.start : self.start + len(self.labels)],)


def cut(chunk: Chunk, low: int, high: int, offset: int) -> Block:
    """The samples [low, high) of a chunk that begins at sample `offset`."""
    logits, labels, weights = chunk
    scores = for_kernel(logits[low:high])
    block_weights = np.ones(len(scores)) if weights is None else unlocked(weights[low:high])
    return Block(offset + low, scores, unlocked(labels[low:high]), block_weights)
