"""Binary searches without branches, as plain numbers: what a torch module and an ONNX graph can both follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.types import Array, Float64


@dataclass(frozen=True)
class Search:
    """A binary search among sorted numbers, one stretch of `sorted` per class, as steps without branches.

    Probe sorted[at], starting at `start`; each step adds `above` where the probe is less than the score, else `below`.
    After the last step, at is first + (how many of the class' numbers are less) + class. A stretch may have any length:
    the first step of class c splits it into two overlapping windows of length 2^k − 1, and while longer ones are
    still being halved the steps of c are 0. `start` and the rows of `above` and `below` have one entry per class, or
    one for all. `length` is how long each stretch is.
    """

    sorted: Float64
    start: Array
    above: Array
    below: Array
    length: Array

    @classmethod
    def among(cls, numbers: Float64, starts: Array) -> Search:
        """The search in numbers[starts[c]:starts[c + 1]] for each class c; no stretch is empty."""
        first, length = starts[:-1], np.diff(starts)
        own = np.frexp(length)[1].astype(np.int64) - 1  # floor(log2(length))
        class_number = np.arange(len(length))
        steps = int(own.max()) + 1
        above = np.zeros((steps, len(length)), np.int64)
        below = np.zeros_like(above)
        for j, t in enumerate(range(steps - 1, -1, -1)):
            half = 1 << t
            # where the next probe lies, relative to the lowest place still possible
            ahead = (half >> 1) - 1 if t else class_number
            opening, going = own == t, own > t
            here = half - 1
            above[j] = np.where(opening, length - half + 1 + ahead - here, np.where(going, half + ahead - here, 0))
            below[j] = np.where(opening | going, ahead - here, 0)
        return cls(numbers, first + (np.int64(1) << own) - 1, above, below, length)

    def locate(self, scores: Float64) -> Array:
        """The same search in numpy, for (n, classes) scores.

        >>> Search.among(np.array([0.1, 0.2, 0.3, 0.5]), np.array([0, 3, 4])).locate(np.array([[0.25, 0.5], [0.3, 0.6]]))
        array([[2, 4],
               [2, 5]])
        """
        at = np.broadcast_to(self.start, scores.shape)
        for above, below in zip(self.above, self.below, strict=True):
            at = at + np.where(self.sorted[at] < scores, above, below)
        return np.asarray(at)


#: More buckets than this would not fit the cache beside a model.
_MOST_BUCKETS = 1 << 15


@dataclass(frozen=True)
class Buckets:
    """A shorter way into one long curve: the bucket of a score says where its search starts.

    Buckets are equally wide in the score's fourth root. Roots, products and their whole part are exact to the bit
    everywhere and never decrease, so a bucket holds the same scores wherever it is computed.
    """

    scale: float
    start: Array
    sorted: Float64
    above: Array
    below: Array

    @classmethod
    def of(cls, search: Search) -> Buckets | None:
        """Buckets for a search among one stretch, where they save at least two of its steps."""
        scale = float(_MOST_BUCKETS - 1)
        if len(search.start) > 1:
            return None
        bucket = (np.sqrt(np.sqrt(search.sorted)) * scale).astype(np.int64)
        first = np.searchsorted(bucket, np.arange(_MOST_BUCKETS))
        steps = int(np.diff(first, append=len(bucket)).max()).bit_length()
        if steps + 2 > len(search.above):
            return None
        # beyond a bucket's own numbers lie greater ones, which no probe mistakes; the last bucket needs some, too
        padded = np.concatenate([search.sorted, np.full(1 << steps, np.inf)])
        half = (np.int64(1) << np.arange(steps - 1, -1, -1))[:, None]
        last = half == 1
        ahead = half // 2
        return cls(scale, first + half[0, 0] - 1, padded, np.where(last, 1, ahead), np.where(last, 0, -ahead))
