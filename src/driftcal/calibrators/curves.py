"""Exact isotonic curves from n·C scores in two passes.

The true class' scores are the pivots. Between two neighbouring pivots all scores belong to other classes, so they share
one value in the isotonic fit: their weight and their greatest say all about them (and the least of all, where the curve
begins). Two passes therefore reduce n·C scores to 2n + 1 cells, and pooling adjacent violators runs on those. Nothing is
approximated.
"""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.temperature import certify
from driftcal.numerics import bits_of_float, kernel, softmax_row
from driftcal.rows import Rows
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Curves as (scores, values, starts): curve k is scores[starts[k]:starts[k + 1]] and the values there.
Curves = tuple[Float64, Float64, Array]

# A cell is a pivot and the gap below it: weight in the gap, its greatest score, the pivot, weight of others on the pivot.
# Half a cache line that one look-up needs as a whole. The last cell of a curve has no pivot: infinity.
_GAP, _GREATEST, _PIVOT, _EQUAL = range(4)
# The bits of 2**-60: scores below share the first bucket of the search index.
_SMALLEST = (1023 - 60) << 52
#: Classes whose cells are filled together: a cache line of scores.
_TOGETHER = 8
#: Scores from which on the cells of all classes leave the cache, and larger blocks are enough of them for all cores.
_MANY = 1 << 26
#: Cells of the least pivots, where most scores belong: so many stay in the cache. Others are filled in order.
_NEAR = 1 << 14
#: In about so many parts.
_PARTS = 1 << 10


def fit_curves(rows: Rows, n_curves: int, scale: float = 1.0) -> tuple[Curves, FitReport]:
    """The isotonic curves of softmax(scale·z) against "is the true class": one for all classes, or one for each."""
    own = rows.each(_own_scores, 3, scale)
    own = own[own[:, 2] > 0]
    curve = np.zeros(len(own), np.int64) if n_curves == 1 else own[:, 1].astype(np.int64)
    pivots, pivot_weights, starts = _pivots(own[:, 0], own[:, 2], curve, n_curves)
    fill = _fill_curve if n_curves == 1 else _fill_curves

    # Then a line per curve, whose _GREATEST is minus its least score, and one for the squared error of doing nothing.
    n_cells = len(pivots) + n_curves
    cells = np.zeros((n_cells + n_curves + 1, 4))
    cells[:, _GREATEST], cells[:, _PIVOT] = -np.inf, np.inf
    cells[np.arange(len(pivots)) + np.repeat(np.arange(n_curves), np.diff(starts)), _PIVOT] = pivots
    index = _search_index(pivots, starts)
    together = 16 if n_curves > 1 and rows.n * rows.n_classes >= _MANY else 1
    cells = rows.fold(fill, cells, _merge_cells, scale, starts, index, together=together)
    curves, error = _pool(cells, pivot_weights, starts)
    before, after = cells[-1, _GAP] / rows.weight, error / rows.weight
    certify("squared error", before, after)
    return curves, FitReport("squared error before normalising", before, after, passes=2)


@kernel
def _own_scores(logits: Logits, labels: Labels, weights: Weights, out: Float64, scale: float) -> None:
    """Write the true class' score, the class and the weight of each row."""
    scores = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        softmax_row(logits[i], scale, scores)
        out[i, 0] = scores[labels[i]]
        out[i, 1] = labels[i]
        out[i, 2] = weights[i]


def _pivots(scores: Float64, weights: Float64, curve: Array, n_curves: int) -> tuple[Float64, Float64, Array]:
    """The different true-class scores of each curve in order, their weights, and where each curve starts."""
    order = np.lexsort((scores, curve))
    scores, weights, curve = scores[order], weights[order], curve[order]
    new = np.ones(len(scores), bool)
    new[1:] = (scores[1:] != scores[:-1]) | (curve[1:] != curve[:-1])
    first = np.flatnonzero(new)
    starts = np.searchsorted(curve[first], np.arange(n_curves + 1))
    return scores[first], np.add.reduceat(weights, first), starts


def _search_index(pivots: Float64, starts: Array) -> Array:
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
def _fill_curve(
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
        w = weights[i]
        if w == 0:
            continue
        softmax_row(logits[i], scale, scores)
        cells[-1, _GAP] += w * _squared_error(scores, labels[i])
        # Where to look, for all classes first: a loop without branches keeps many loads from memory under way at once.
        for c in range(n_classes):
            bucket = _bucket(scores[c], shift)
            lows[c] = cell_of[bucket]
            highs[c] = cell_of[bucket + 1]
        for c in range(n_classes):
            if c != labels[i] and logits[i, c] > -np.inf:
                least = min(least, scores[c])
                if lows[c] < _NEAR:
                    _put(cells, scores[c], w, lows[c], highs[c])
                else:
                    far_scores[n_far] = scores[c]
                    far_rows[n_far] = i
                    n_far += 1
    _put_in_order(cells, far_scores[:n_far], far_rows[:n_far], weights, cell_of, shift)
    cells[starts[1] + 1, _GREATEST] = max(cells[starts[1] + 1, _GREATEST], -least)


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
    order = np.empty(scores.shape[0], np.int32)
    for j in range(scores.shape[0]):
        part = _bucket(scores[j], coarse)
        order[ends[part]] = j
        ends[part] += 1
    for j in order:
        bucket = _bucket(scores[j], shift)
        _put(cells, scores[j], weights[rows[j]], cell_of[bucket], cell_of[bucket + 1])


@kernel
def _fill_curves(
    logits: Logits, labels: Labels, weights: Weights, cells: Float64, scale: float, starts: Array, index: Array
) -> None:
    """The same with a curve for each class: all rows of one class after the other, so that its cells stay in the cache."""
    n, n_classes = logits.shape
    n_groups = (n_classes + _TOGETHER - 1) // _TOGETHER
    row = np.zeros(n_groups * _TOGETHER)
    scores = np.empty((n_groups, n, _TOGETHER))  # to be read in the order of memory
    shift = _bucket_shift(index)
    for i in range(n):
        softmax_row(logits[i], scale, row[:n_classes])
        if weights[i] > 0:
            cells[-1, _GAP] += weights[i] * _squared_error(row[:n_classes], labels[i])
        for k in range(n_groups):
            for c in range(_TOGETHER):
                scores[k, i, c] = row[k * _TOGETHER + c]
    for c in range(n_classes):
        group, first = scores[c // _TOGETHER], starts[c] + c
        lowest, least = cells[first, _PIVOT], np.inf
        for i in range(n):
            score = group[i, c % _TOGETHER]
            if weights[i] > 0 and c != labels[i] and (score > 0 or logits[i, c] > -np.inf):
                least = min(least, score)
                low = high = first
                if lowest < score:  # most scores of most classes lie below all of its pivots
                    bucket = _bucket(score, shift)
                    low, high = index[c, bucket], index[c, bucket + 1]
                _put(cells, score, weights[i], low, high)
        line = starts[-1] + n_classes + c
        cells[line, _GREATEST] = max(cells[line, _GREATEST], -least)


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
def _squared_error(scores: Float64, label: int) -> float:
    squares = 0.0
    for c in range(scores.shape[0]):
        squares += scores[c] * scores[c]
    return float(squares - 2.0 * scores[label] + 1.0)


@kernel
def _put(cells: Float64, score: float, weight: float, low: int, high: int) -> None:
    """Add a score to the cell it belongs to, which is one of low..high."""
    while low < high:
        middle = (low + high) >> 1
        if cells[middle, _PIVOT] < score:
            low = middle + 1
        else:
            high = middle
    if cells[low, _PIVOT] == score:
        cells[low, _EQUAL] += weight
    else:
        cells[low, _GAP] += weight
        cells[low, _GREATEST] = max(cells[low, _GREATEST], score)


def _merge_cells(into: Float64, other: Float64) -> None:
    into[:, _GAP] += other[:, _GAP]
    into[:, _EQUAL] += other[:, _EQUAL]
    np.maximum(into[:, _GREATEST], other[:, _GREATEST], out=into[:, _GREATEST])


def _pool(cells: Float64, weights: Float64, starts: Array) -> tuple[Curves, float]:
    """Pool adjacent violators within each curve; also the weighted squared error that is left."""
    room = 2 * (2 * len(weights) + len(starts))
    scores, values = np.empty(room), np.empty(room)
    ends = np.empty(len(starts) - 1, np.int64)
    error = _pool_curves(cells, weights, starts, scores, values, ends)
    used = int(ends[-1])
    return (scores[:used].copy(), values[:used].copy(), np.concatenate([[0], ends])), error


@kernel
def _pool_curves(
    cells: Float64,
    weights: Float64,
    starts: Array,
    scores: Float64,
    values: Float64,
    ends: Array,
) -> float:
    n_curves = starts.shape[0] - 1
    longest = 0
    for k in range(n_curves):
        longest = max(longest, starts[k + 1] - starts[k])
    # a stack of blocks: weight, weight of true classes, least and greatest score
    total = np.empty(2 * longest + 1)
    true = np.empty(2 * longest + 1)
    least = np.empty(2 * longest + 1)
    greatest = np.empty(2 * longest + 1)
    error = 0.0
    written = 0
    for k in range(n_curves):
        top = -1
        for j in range(2 * (starts[k + 1] - starts[k]) + 1):
            pivot = starts[k] + (j >> 1)
            cell = cells[pivot + k]
            if j & 1:
                w, t, low, high = weights[pivot] + cell[_EQUAL], weights[pivot], cell[_PIVOT], cell[_PIVOT]
            else:  # a gap is pooled with the block below it, except where the curve begins
                w, t, low, high = cell[_GAP], 0.0, -cells[starts[-1] + n_curves + k, _GREATEST], cell[_GREATEST]
            if w == 0:
                continue
            while top >= 0 and true[top] * w >= t * total[top]:  # its value is not below ours: pool
                w += total[top]
                t += true[top]
                low = least[top]
                top -= 1
            top += 1
            total[top], true[top], least[top], greatest[top] = w, t, low, high
        for block in range(top + 1):
            value = true[block] / total[block]
            error += true[block] * (1.0 - value)
            scores[written], values[written] = least[block], value
            written += 1
            if greatest[block] > least[block]:
                scores[written], values[written] = greatest[block], value
                written += 1
        if top < 0:  # a class that was masked in every row: it will be masked again, any curve does
            scores[written], values[written] = 0.0, 0.0
            written += 1
        ends[k] = written
    return error


@kernel
def apply_curves(probs: Float64, scores: Float64, values: Float64, starts: Array, strict: float) -> None:
    """Replace each p by curve(p) + strict·p, in place."""
    one_curve = starts.shape[0] == 2
    for i in range(probs.shape[0]):
        for c in range(probs.shape[1]):
            p = probs[i, c]
            first = starts[0] if one_curve else starts[c]
            last = (starts[1] if one_curve else starts[c + 1]) - 1
            low, high = first, last + 1
            while low < high:
                middle = (low + high) >> 1
                if scores[middle] < p:
                    low = middle + 1
                else:
                    high = middle
            if low == first:
                value = values[first]
            elif low > last:
                value = values[last]
            else:
                share = (p - scores[low - 1]) / (scores[low] - scores[low - 1])
                # rounding must not lift it above the next block, or two classes could change places
                value = min(values[low - 1] + share * (values[low] - values[low - 1]), values[low])
            probs[i, c] = value + strict * p
