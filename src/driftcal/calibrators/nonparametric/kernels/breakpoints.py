"""Cells of isotonic curves: the pivots of a curve, and what lies on them and in the gaps between.

Scores are compared as the integers that their bits make: these have the same order, and a loop over them is a vector loop.
"""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import float_of_bits, kernel
from driftcal.types import Array, Float64

# A cell is a pivot and the gap below it: weight in the gap, its greatest score, weight of others on the pivot.
# The last cell of a curve has no pivot: infinity. Cells are followed by a place per curve, whose GREATEST is minus its least score.
GAP, GREATEST, EQUAL = range(3)
# The bits of 2**-60: scores below share the first bucket of the search index.
_SMALLEST = (1023 - 60) << 52


def empty_cells(n_cells: int, n_curves: int) -> Float64:
    """Cells that no score fell into."""
    cells = np.zeros((3, n_cells + n_curves))
    cells[GREATEST] = -np.inf
    return cells


def search_index(pivots: Float64, starts: Array) -> Array:
    """For each curve and bucket of scores the first cell of the buckets from there on, so that a search is short.

    Buckets are equally wide in the bits of the score, hence about equally wide in its logarithm.
    """
    n_curves = len(starts) - 1
    fineness = int(np.clip(np.log2(max(1, len(pivots) / n_curves - 1) / 16), 0, 14))
    bucket = np.maximum(pivots.view(np.int64) - _SMALLEST, 0) >> (52 - fineness)
    width = (60 << fineness) + 2
    curve = np.repeat(np.arange(n_curves), np.diff(starts))
    finite = np.isfinite(pivots)
    index = np.zeros((n_curves, width), np.int64)
    count = np.bincount((curve * width + bucket)[finite], minlength=n_curves * width)
    index[:, 1:] = count.reshape(index.shape)[:, :-1]
    index[:, 0] += starts[:-1]
    found: Array = index.cumsum(axis=1).astype(np.int32)
    return found


def merge_cells(into: Float64, other: Float64) -> None:
    """Add the cells that other rows filled."""
    into[GAP] += other[GAP]
    into[EQUAL] += other[EQUAL]
    np.maximum(into[GREATEST], other[GREATEST], out=into[GREATEST])


@kernel
def bucket_of(score: int, shift: int) -> int:
    """The bucket of a score, given as its bits."""
    found: int = max(score - _SMALLEST, 0) >> shift
    return found


@kernel
def bucket_shift(cell_of: Array) -> int:
    """How far bits are shifted to make buckets of the size that an index has."""
    shift = 52
    while (60 << (52 - shift)) + 2 < cell_of.shape[0]:
        shift -= 1
    return shift


@kernel
def find_cell(pivots: Array, score: int, low: int, high: int) -> int:
    """The cell that a score belongs to, which is one of low..high."""
    while high - low > 1:
        middle = (low + high) >> 1
        if pivots[middle] < score:
            low = middle + 1
        else:
            high = middle
    low += (high - low) * (pivots[low] < score)  # mostly all there is to do, and no branch
    return low


@kernel
def put(cells: Float64, pivots: Array, score: int, weight: float, at: int) -> None:
    """Add a score to the cell it belongs to."""
    if pivots[at] == score:
        cells[EQUAL, at] += weight
    else:
        cells[GAP, at] += weight
        cells[GREATEST, at] = max(cells[GREATEST, at], float_of_bits(score))


@kernel
def note_least(cells: Float64, place: int, least: float) -> None:
    """Remember the least score of a curve."""
    cells[GREATEST, place] = max(cells[GREATEST, place], -least)
