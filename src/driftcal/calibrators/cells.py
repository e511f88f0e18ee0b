"""Cells of isotonic curves: the pivots of a curve, and what lies on them and in the gaps between.

Filling them is where the time of a fit goes: every score of every row is looked up once.
"""

from __future__ import annotations

import numpy as np

from driftcal.numerics import bits_of_float, kernel, softmax_row
from driftcal.types import Array, Float64, Labels, Logits, Weights

# A cell is a pivot and the gap below it: weight in the gap, its greatest score, the pivot, weight of others on the pivot.
# Half a cache line that one look-up needs as a whole. The last cell of a curve has no pivot: infinity.
GAP, GREATEST, PIVOT, EQUAL = range(4)
# The bits of 2**-60: scores below share the first bucket of the search index.
_SMALLEST = (1023 - 60) << 52
#: Classes whose scores lie side by side: a cache line.
_TOGETHER = 8
#: Cells of the least pivots, where most scores belong: so many stay in the cache. Others are filled in order.
_NEAR = 1 << 14
#: Parts that far scores are sorted into, at most.
_PARTS = 1 << 10


def search_index(pivots: Float64, starts: Array) -> Array:
    """For each curve and bucket of scores the first cell of the buckets from there on, so that a search is short.

    Buckets are equally wide in the bits of the score, hence about equally wide in its logarithm.
    """
    n_curves = len(starts) - 1
    fineness = int(np.clip(np.log2(max(1, len(pivots) / n_curves) / 16), 0, 14))
    bucket = np.maximum(pivots.view(np.int64) - _SMALLEST, 0) >> (52 - fineness)
    width = (60 << fineness) + 2
    curve = np.repeat(np.arange(n_curves), np.diff(starts))
    index = np.zeros((n_curves, width), np.int64)
    index[:, 1:] = np.bincount(curve * width + bucket, minlength=n_curves * width).reshape(index.shape)[:, :-1]
    index[:, 0] += starts[:-1] + np.arange(n_curves)
    found: Array = index.cumsum(axis=1).astype(np.int32)
    return found


@kernel
def fill_curve(
    logits: Logits, labels: Labels, weights: Weights, cells: Float64, scale: float, starts: Array, index: Array
) -> None:
    """Put the scores of all classes but the true one into the gap between pivots, or onto the pivot, they belong to."""
    n, n_classes = logits.shape
    scores = np.empty(n_classes)
    lows = np.empty(n_classes, np.int64)
    highs = np.empty(n_classes, np.int64)
    far_scores = np.empty(n * n_classes)
    far_rows = np.empty(n * n_classes, np.int32)
    n_far = 0
    least = np.inf
    shift = _bucket_shift(index)
    cell_of = index[0]
    for i in range(n):
        if weights[i] == 0:
            continue
        cells[-1, GAP] += weights[i] * _others(logits[i], labels[i], scale, scores)
        # Where to look, for all classes first: a loop without branches keeps many loads from memory under way at once.
        for c in range(n_classes):
            bucket = _bucket(scores[c], shift)
            lows[c] = cell_of[bucket]
            highs[c] = cell_of[bucket + 1]
        for c in range(n_classes):
            if scores[c] >= 0:
                least = min(least, scores[c])
                if lows[c] < _NEAR:
                    _put(cells, scores[c], weights[i], lows[c], highs[c])
                else:
                    far_scores[n_far] = scores[c]
                    far_rows[n_far] = i
                    n_far += 1
    _put_in_order(cells, far_scores[:n_far], far_rows[:n_far], weights, cell_of, shift)
    _note_least(cells, starts[1] + 1, least)


@kernel
def _put_in_order(cells: Float64, scores: Float64, rows: Array, weights: Weights, cell_of: Array, shift: int) -> None:
    """Put scores whose cells are not in the cache, roughly from the lowest to the highest: each cell is then fetched once."""
    coarse = shift
    while _bucket(1.0, coarse) >= _PARTS:
        coarse += 1
    ends = np.zeros(_PARTS + 1, np.int64)
    for score in scores:
        ends[_bucket(score, coarse) + 1] += 1
    for part in range(_PARTS):
        ends[part + 1] += ends[part]
    sorted_scores, sorted_rows = np.empty_like(scores), np.empty_like(rows)
    for j in range(scores.shape[0]):
        part = _bucket(scores[j], coarse)
        sorted_scores[ends[part]] = scores[j]
        sorted_rows[ends[part]] = rows[j]
        ends[part] += 1
    for j in range(scores.shape[0]):
        bucket = _bucket(sorted_scores[j], shift)
        _put(cells, sorted_scores[j], weights[sorted_rows[j]], cell_of[bucket], cell_of[bucket + 1])


@kernel
def fill_curves(
    logits: Logits, labels: Labels, weights: Weights, cells: Float64, scale: float, starts: Array, index: Array
) -> None:
    """The same with a curve for each class: all rows of one class after the other, so that its cells stay in the cache."""
    n, n_classes = logits.shape
    n_groups = (n_classes + _TOGETHER - 1) // _TOGETHER
    row = np.empty(n_groups * _TOGETHER)
    scores = np.empty((n_groups, n, _TOGETHER))  # to be read in the order of memory
    later = np.empty(n, np.int64)
    shift = _bucket_shift(index)
    for i in range(n):
        if weights[i] > 0:
            cells[-1, GAP] += weights[i] * _others(logits[i], labels[i], scale, row[:n_classes])
        else:
            row[:] = -1.0
        for k in range(n_groups):
            for c in range(_TOGETHER):
                scores[k, i, c] = row[k * _TOGETHER + c]
    for c in range(n_classes):
        group, column, first = scores[c // _TOGETHER], c % _TOGETHER, starts[c] + c
        lowest, least, greatest, below, n_later = cells[first, PIVOT], np.inf, -np.inf, 0.0, 0
        # Most scores of most classes lie below all of its pivots: without a branch that nobody could foresee.
        for i in range(n):
            score = group[i, column]
            in_gap = (score >= 0) & (score < lowest)
            below += weights[i] if in_gap else 0.0
            greatest = max(greatest, score if in_gap else -np.inf)
            least = min(least, score if score >= 0 else np.inf)
            later[n_later] = i
            n_later += score >= lowest
        cells[first, GAP] += below
        cells[first, GREATEST] = max(cells[first, GREATEST], greatest)
        for i in later[:n_later]:
            bucket = _bucket(group[i, column], shift)
            _put(cells, group[i, column], weights[i], index[c, bucket], index[c, bucket + 1])
        _note_least(cells, starts[-1] + n_classes + c, least)


@kernel
def _others(row: Array, label: int, scale: float, scores: Float64) -> float:
    """Write the scores of a row, -1 for the true class and for masked ones; return the squared error of doing nothing."""
    softmax_row(row, scale, scores)
    squares = 1.0 - 2.0 * scores[label]
    for c in range(scores.shape[0]):
        squares += scores[c] * scores[c]
        scores[c] = scores[c] if row[c] > -np.inf else -1.0
    scores[label] = -1.0
    return float(squares)


@kernel
def _note_least(cells: Float64, line: int, least: float) -> None:
    cells[line, GREATEST] = max(cells[line, GREATEST], -least)


@kernel
def _bucket(score: float, shift: int) -> int:
    found: int = max(bits_of_float(score) - _SMALLEST, 0) >> shift
    return found


@kernel
def _bucket_shift(index: Array) -> int:
    shift = 52
    while (60 << (52 - shift)) + 2 < index.shape[1]:
        shift -= 1
    return shift


@kernel
def _put(cells: Float64, score: float, weight: float, low: int, high: int) -> None:
    """Add a score to the cell it belongs to, which is one of low..high."""
    while high - low > 1:
        middle = (low + high) >> 1
        if cells[middle, PIVOT] < score:
            low = middle + 1
        else:
            high = middle
    low += (high - low) * (cells[low, PIVOT] < score)  # mostly all there is to do, and no branch
    if cells[low, PIVOT] == score:
        cells[low, EQUAL] += weight
    else:
        cells[low, GAP] += weight
        cells[low, GREATEST] = max(cells[low, GREATEST], score)


def merge_cells(into: Float64, other: Float64) -> None:
    """Add the cells that other rows filled."""
    into[:, GAP] += other[:, GAP]
    into[:, EQUAL] += other[:, EQUAL]
    np.maximum(into[:, GREATEST], other[:, GREATEST], out=into[:, GREATEST])
