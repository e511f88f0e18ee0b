"""Breakpoints of isotonic curves, and the weights on them and in the intervals between them.

Scores are compared by their bits, as integers. These have the same order, and a loop over them uses vector
instructions.
"""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import float_of_bits, kernel
from driftcal.types import Array, Float64

#: Rows of the interval sums, which have a column per breakpoint: the weight in the interval below it, the greatest
#: score there, and the weight of other classes on the breakpoint itself. The last breakpoint of a curve is infinity. A
#: column per curve follows, where GREATEST is minus the least score of the curve.
BELOW, GREATEST, EQUAL = range(3)
#: The bits of 2**-60: smaller scores share the first bucket of the search index.
_SMALLEST = (1023 - 60) << 52


def empty_intervals(n_breakpoints: int, n_curves: int) -> Float64:
    """Interval sums without any score."""
    sums = np.zeros((3, n_breakpoints + n_curves))
    sums[GREATEST] = -np.inf
    return sums


def merge_intervals(into: Float64, other: Float64) -> None:
    """Add the interval sums of other samples."""
    into[BELOW] += other[BELOW]
    into[EQUAL] += other[EQUAL]
    np.maximum(into[GREATEST], other[GREATEST], out=into[GREATEST])


def search_index(breakpoints: Float64, starts: Array) -> Array:
    """For each curve and bucket of scores, the first breakpoint in this bucket or a later one: it shortens a search.

    Buckets are equally wide in the bits of the score, so about equally wide in its logarithm.
    """
    n_curves = len(starts) - 1
    fineness = int(np.clip(np.log2(max(1, len(breakpoints) / n_curves - 1) / 16), 0, 14))
    bucket = np.maximum(breakpoints.view(np.int64) - _SMALLEST, 0) >> (52 - fineness)
    width = (60 << fineness) + 2
    curve = np.repeat(np.arange(n_curves), np.diff(starts))
    finite = np.isfinite(breakpoints)
    counts = np.zeros((n_curves, width), np.int64)
    in_bucket = np.bincount((curve * width + bucket)[finite], minlength=n_curves * width)
    counts[:, 1:] = in_bucket.reshape(counts.shape)[:, :-1]
    counts[:, 0] += starts[:-1]
    index: Array = counts.cumsum(axis=1).astype(np.int32)
    return index


@kernel
def bucket_of(score: int, shift: int) -> int:
    """The bucket of a score, given as its bits."""
    bucket: int = max(score - _SMALLEST, 0) >> shift
    return bucket


@kernel
def bucket_shift(index: Array) -> int:
    """How far the bits of a score are shifted to give its bucket in this index."""
    shift = 52
    while (60 << (52 - shift)) + 2 < index.shape[0]:
        shift -= 1
    return shift


@kernel
def first_not_below(values: Float64, score: float, low: int, high: int) -> int:
    """The first of the sorted values[low:high] that is not below a score; `high` if all are."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def find_interval(breakpoints: Array, score: int, low: int, high: int) -> int:
    """The first breakpoint that is not below a score; it is between `low` and `high`."""
    while high - low > 1:
        middle = (low + high) >> 1
        if breakpoints[middle] < score:
            low = middle + 1
        else:
            high = middle
    low += (high - low) * (breakpoints[low] < score)  # usually the only step, and without a branch
    return low


@kernel
def add_score(sums: Float64, breakpoints: Array, score: int, weight: float, at: int) -> None:
    """Add a score to the interval sums at breakpoint `at`, the result of `find_interval`."""
    if breakpoints[at] == score:
        sums[EQUAL, at] += weight
    else:
        sums[BELOW, at] += weight
        sums[GREATEST, at] = max(sums[GREATEST, at], float_of_bits(score))


@kernel
def add_least(sums: Float64, column: int, least: float) -> None:
    """Update the least score of a curve."""
    sums[GREATEST, column] = max(sums[GREATEST, column], -least)
