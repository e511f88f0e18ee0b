"""Cells of isotonic curves: the pivots of a curve, and what lies on them and in the gaps between.

Filling them is where the time of a fit goes: every score of every row is looked up once.
Scores are compared as the integers that their bits make: these have the same order, and a loop over them is a vector loop.
"""

from __future__ import annotations

import numpy as np

from driftcal.numerics import MASKED, exact, exp, float_of_bits, kernel
from driftcal.rows import LANES, Block, Rows, in_threads
from driftcal.types import Array, Float64, Labels, Logits, Weights

# A cell is a pivot and the gap below it: weight in the gap, its greatest score, weight of others on the pivot.
# The last cell of a curve has no pivot: infinity. Cells are followed by a place per curve, whose GREATEST is minus its least score.
GAP, GREATEST, EQUAL = range(3)
#: What another pass noted of each row: see softmax_row.
TOP, INVERSE = range(2)
# The bits of 2**-60: scores below share the first bucket of the search index.
_SMALLEST = (1023 - 60) << 52
#: Bits above those of any score.
_NONE = 0x7FFF << 48
#: Rows that are brought from rows to classes at once: a cache line of scores.
_TOGETHER = 8
#: Scores from which on cells leave the cache, and larger blocks, which use each of them more often, are worth their room.
_MANY = 1 << 26
#: Cells of the least pivots, where most scores belong: so many stay in the cache. Others are filled in order.
_NEAR = 1 << 14
#: Parts that far scores are sorted into, at most.
_PARTS = 1 << 10


def fill_cells(rows: Rows, norms: Float64, pivots: Float64, starts: Array, scale: float) -> Float64:
    """Cells filled with the scores of all classes but the true one: of one curve for all classes, or one for each.

    `pivots` are those of curve k at ``starts[k]:starts[k + 1]``, in order, the last one infinite.
    """
    n_curves = len(starts) - 1
    cells = np.zeros((3, len(pivots) + n_curves))
    cells[GREATEST] = -np.inf
    index = _search_index(pivots, starts)
    bits = pivots.view(np.int64)
    many = rows.n * rows.n_classes >= _MANY
    if n_curves == 1:
        together = 16 if many else 1
        return rows.fold(_fill_one, cells, _merge, bits, index[0], scale, beside=norms, together=together)
    room = np.empty(0)
    for block in rows.blocks(together=32 if many else 4):
        size = len(block.labels) * n_curves
        if len(room) < size:
            room = np.empty(size)
        scores = room[:size].reshape(n_curves, -1)
        _score_classes(block, norms[block.start :][: len(block.labels)], scale, scores)
        _fill_classes(scores, block.weights, cells, bits, starts, index)
    return cells


def _search_index(pivots: Float64, starts: Array) -> Array:
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


def _merge(into: Float64, other: Float64) -> None:
    """Add the cells that other rows filled."""
    into[GAP] += other[GAP]
    into[EQUAL] += other[EQUAL]
    np.maximum(into[GREATEST], other[GREATEST], out=into[GREATEST])


def _score_classes(block: Block, norms: Float64, scale: float, scores: Float64) -> None:
    """Write the scores of a block, class by class."""
    n = len(block.labels)
    edges = [n * k // LANES // _TOGETHER * _TOGETHER for k in range(LANES)] + [n]

    def run(k: int) -> None:
        _scores_by_class(block.logits, block.labels, block.weights, norms, scale, scores, edges[k], edges[k + 1])

    in_threads(run, range(LANES))


def _fill_classes(scores: Float64, weights: Weights, cells: Float64, pivots: Array, starts: Array, index: Array) -> None:
    """Put all scores of one class after the other: its cells stay in the cache, and no two threads share one."""
    edges = [len(scores) * k // LANES for k in range(LANES + 1)]
    in_threads(
        lambda k: _fill_each(scores, weights, cells, pivots, starts, index, edges[k], edges[k + 1]), range(LANES)
    )


@exact
def _others(row: Array, label: int, norms: Float64, scale: float, scores: Float64) -> None:
    """Write the scores of a row, to the bit those of softmax_row; -1 for the true class and for masked ones."""
    top, inverse = norms[TOP], norms[INVERSE]
    for c in range(row.shape[0]):
        score = exp(scale * max(np.float64(row[c]) - top, MASKED)) * inverse
        scores[c] = score if row[c] > -np.inf else -1.0
    scores[label] = -1.0


@kernel
def _scores_by_class(
    logits: Logits, labels: Labels, weights: Weights, norms: Float64, scale: float, scores: Float64, low: int, high: int
) -> None:
    n_classes = logits.shape[1]
    rows = np.empty((_TOGETHER, n_classes))
    for start in range(low, high, _TOGETHER):
        stop = min(start + _TOGETHER, high)
        for i in range(start, stop):
            if weights[i] > 0:
                _others(logits[i], labels[i], norms[i], scale, rows[i - start])
            else:
                rows[i - start] = -1.0
        if stop - start == _TOGETHER:  # a whole line of memory each time
            for c in range(n_classes):
                for i in range(_TOGETHER):
                    scores[c, start + i] = rows[i, c]
        else:
            for c in range(n_classes):
                for i in range(start, stop):
                    scores[c, i] = rows[i - start, c]


@kernel
def _fill_each(
    scores: Float64, weights: Weights, cells: Float64, pivots: Array, starts: Array, index: Array, low: int, high: int
) -> None:
    n = scores.shape[1]
    bits = scores.view(np.int64)
    later, their_weights, where = np.empty(n, np.int64), np.empty(n), np.empty(n, np.uint32)
    shift = _bucket_shift(index[0])
    for c in range(low, high):
        first = starts[c]
        # Most scores of most classes lie below all of its pivots.
        below, greatest, least = _survey(bits[c], weights, pivots[first])
        if greatest >= 0:
            cells[GAP, first] += below
            cells[GREATEST, first] = max(cells[GREATEST, first], float_of_bits(greatest))
        if least < _NONE:
            _note_least(cells, starts[-1] + c, float_of_bits(least))
        n_later = _above(bits[c], weights, pivots[first], later, their_weights)
        # Looked up first, then added: nothing that a search has to wait for.
        for j in range(n_later):
            bucket = _bucket(later[j], shift)
            where[j] = _cell(pivots, later[j], index[c, bucket], index[c, bucket + 1])
        for j in range(n_later):
            _put(cells, pivots, later[j], their_weights[j], where[j])


@kernel
def _survey(bits: Array, weights: Weights, lowest: int) -> tuple[float, int, int]:
    """Weight and greatest of the scores below `lowest`, -1 if there is none; the least of all."""
    below, greatest, least = 0.0, np.int64(-1), np.int64(_NONE)
    for i in range(bits.shape[0]):
        score = bits[i]
        in_gap = (score >= 0) & (score < lowest)
        below += weights[i] if in_gap else 0.0
        greatest = max(greatest, score if in_gap else np.int64(-1))
        least = min(least, score if score >= 0 else np.int64(_NONE))
    return below, greatest, least


@kernel
def _above(bits: Array, weights: Weights, lowest: int, later: Array, their_weights: Weights) -> int:
    """Gather the scores from `lowest` on and their weights, without a branch that nobody could foresee."""
    found = np.uint64(0)
    for i in range(bits.shape[0]):
        later[found] = bits[i]
        their_weights[found] = weights[i]
        found += np.uint64(bits[i] >= lowest)
    return np.int64(found)


@kernel
def _fill_one(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    norms: Float64,
    cells: Float64,
    pivots: Array,
    cell_of: Array,
    scale: float,
) -> None:
    """Put scores into the cells of the one curve of all classes."""
    n, n_classes = logits.shape
    scores = np.empty(n_classes)
    bits = scores.view(np.int64)
    lows = np.empty(n_classes, np.int64)
    highs = np.empty(n_classes, np.int64)
    far = np.empty(n * n_classes, np.int64)
    far_rows = np.empty(n * n_classes, np.int32)
    n_far = 0
    least = np.int64(_NONE)
    shift = _bucket_shift(cell_of)
    for i in range(n):
        if weights[i] == 0:
            continue
        _others(logits[i], labels[i], norms[i], scale, scores)
        # Where to look, for all classes first: a loop without branches keeps many loads from memory under way at once.
        for c in range(n_classes):
            bucket = _bucket(bits[c], shift)
            lows[c] = cell_of[bucket]
            highs[c] = cell_of[bucket + 1]
        for c in range(n_classes):
            if bits[c] >= 0:
                least = min(least, bits[c])
                if lows[c] < _NEAR:
                    _put(cells, pivots, bits[c], weights[i], _cell(pivots, bits[c], lows[c], highs[c]))
                else:
                    far[n_far] = bits[c]
                    far_rows[n_far] = i
                    n_far += 1
    _put_in_order(cells, pivots, far[:n_far], far_rows[:n_far], weights, cell_of, shift)
    if least < _NONE:
        _note_least(cells, pivots.shape[0], float_of_bits(least))


@kernel
def _put_in_order(
    cells: Float64, pivots: Array, scores: Array, rows: Array, weights: Weights, cell_of: Array, shift: int
) -> None:
    """Put scores whose cells are not in the cache, roughly from the lowest to the highest: each cell is then fetched once."""
    coarse = shift
    while (60 << 52) >> coarse >= _PARTS:
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
        at = _cell(pivots, sorted_scores[j], cell_of[bucket], cell_of[bucket + 1])
        _put(cells, pivots, sorted_scores[j], weights[sorted_rows[j]], at)


@kernel
def _note_least(cells: Float64, place: int, least: float) -> None:
    cells[GREATEST, place] = max(cells[GREATEST, place], -least)


@kernel
def _bucket(score: int, shift: int) -> int:
    found: int = max(score - _SMALLEST, 0) >> shift
    return found


@kernel
def _bucket_shift(cell_of: Array) -> int:
    shift = 52
    while (60 << (52 - shift)) + 2 < cell_of.shape[0]:
        shift -= 1
    return shift


@kernel
def _cell(pivots: Array, score: int, low: int, high: int) -> int:
    """The cell that a score belongs to, which is one of low..high."""
    while high - low > 1:
        middle = (low + high) >> 1
        if pivots[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low + (high - low) * (pivots[low] < score)  # mostly all there is to do, and no branch


@kernel
def _put(cells: Float64, pivots: Array, score: int, weight: float, at: int) -> None:
    if pivots[at] == score:
        cells[EQUAL, at] += weight
    else:
        cells[GAP, at] += weight
        cells[GREATEST, at] = max(cells[GREATEST, at], float_of_bits(score))
