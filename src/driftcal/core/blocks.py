"""Blocks: consecutive labelled samples in the form that compiled kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from driftcal.core.validation import for_kernel, unlocked
from driftcal.types import Array, Labels, Logits, Weights

#: Scores in a block: 1 MB of float32 stays in a core's cache.
BLOCK_SCORES = 1 << 18


class Chunk(NamedTuple):
    """Consecutive samples as the caller's arrays hold them."""

    logits: Logits
    labels: Labels
    weights: Weights | None  # None: all 1


def block_length(n_classes: int) -> int:
    """The number of samples in a block."""
    return max(1, BLOCK_SCORES // max(1, n_classes))


def count_blocks(n_samples: int, n_classes: int) -> int:
    """The approximate number of blocks of a data set."""
    return -(-n_samples * n_classes // BLOCK_SCORES)


@dataclass(frozen=True)
class Block:
    """Consecutive samples, ready for a kernel: float32 or float64, contiguous, labels checked."""

    start: int
    logits: Logits
    labels: Labels
    weights: Weights

    def part_of(self, per_sample: Array | None) -> tuple[Array, ...]:
        """This block's part of an array with one entry per sample, as an extra argument of a kernel; () for None."""
        return () if per_sample is None else (per_sample[self.start : self.start + len(self.labels)],)


def cut(chunk: Chunk, low: int, high: int, offset: int) -> Block:
    """The samples [low, high) of a chunk that begins at sample `offset`."""
    logits = for_kernel(chunk.logits[low:high])
    weights = np.ones(len(logits)) if chunk.weights is None else unlocked(chunk.weights[low:high])
    return Block(offset + low, logits, unlocked(chunk.labels[low:high]), weights)
