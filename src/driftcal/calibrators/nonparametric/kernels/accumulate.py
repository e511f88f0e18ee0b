"""Filling the cells of isotonic curves, where the time of a fit goes: every score of every row is looked up once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftcal.calibrators.nonparametric.kernels.breakpoints import (
    GAP,
    GREATEST,
    bucket_of,
    bucket_shift,
    empty_cells,
    find_cell,
    merge_cells,
    note_least,
    put,
    search_index,
)
from driftcal.calibrators.nonparametric.kernels.prune import find_buckets
from driftcal.core.dataset import LANES, LabelledLogits
from driftcal.core.numerics import MASKED, exact, exp, float_of_bits, kernel
from driftcal.core.parallel import run_in_threads
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: What another pass noted of each row: see softmax_row.
TOP, INVERSE = range(2)
#: Bits above those of any score.
_NONE = 0x7FFF << 48
#: Rows that are brought from rows to classes at once: a cache line of scores.
_TOGETHER = 8
#: Scores of a block, up to which threads would take longer to wake than to work.
_FEW = 1 << 15
#: Scores from which on cells leave the cache, and larger blocks, which use each of them more often, are worth their room.
_MANY = 1 << 26


def fill_one(rows: LabelledLogits, norms: Float64, pivots: Float64, is_open: Array, scale: float) -> Float64:
    """Cells of one curve for all classes, filled with the scores in open buckets of all classes but the true one.

    `pivots` are in order, the last one infinite.
    """
    cells = empty_cells(len(pivots), 1)
    index = search_index(pivots, np.array([0, len(pivots)]))[0]
    return rows.reduce(_fill_one, cells, merge_cells, pivots.view(np.int64), index, is_open, scale, beside=norms)


def fill_each(rows: LabelledLogits, norms: Float64, pivots: Float64, starts: Array, scale: float) -> Float64:
    """Cells of one curve for each class, filled with its scores in rows of other classes.

    `pivots` are those of curve k at ``starts[k]:starts[k + 1]``, in order, the last one infinite.
    """
    n_curves = len(starts) - 1
    cells = empty_cells(len(pivots), n_curves)
    index = search_index(pivots, starts)
    bits = pivots.view(np.int64)
    if not rows.here:
        return rows.reduce(_fill_each, cells, merge_cells, bits, starts, index, scale, beside=norms)
    many = rows.n * rows.n_classes >= _MANY
    room = np.empty(0)
    for block in rows.blocks(together=32 if many else 4):
        n = len(block.labels)
        if len(room) < n_curves * n:
            room = np.empty(n_curves * n)
        scores = room[: n_curves * n].reshape(n_curves, n)
        given = block.logits, block.labels, block.weights, *block.of(norms), scale
        # Rows first, then classes: no two threads share a cell, so that there is one of each.
        _in_parts(n, _score_rows, scores, *given)
        _in_parts(n_curves, _fill_classes, scores, block.weights, cells, bits, starts, index)
    return cells


def _in_parts(n: int, function: Callable[..., None], scores: Float64, *args: Any) -> None:
    """``function(scores, *args, low, high)`` for stretches of n, on all cores where that is worth it."""
    parts = min(LANES, 1 + scores.size // _FEW)
    edges = [n * k // parts for k in range(parts + 1)]
    run_in_threads(lambda k: function(scores, *args, edges[k], edges[k + 1]), range(parts))


@exact
def _others(row: Array, label: int, norms: Float64, scale: float, scores: Float64) -> None:
    """Write the scores of a row, to the bit those of softmax_row; -1 for the true class and for masked ones.

    Norms are of an earlier pass. A source that yields other rows now must not lead a score beyond 1, where no cell is.
    """
    top, inverse = norms[TOP], norms[INVERSE]
    for c in range(row.shape[0]):
        score = exp(scale * max(np.float64(row[c]) - top, MASKED)) * inverse
        score = score if score <= 1.0 else 1.0
        scores[c] = score if row[c] > -np.inf else -1.0
    scores[label] = -1.0


@kernel
def _score_rows(
    scores: Float64, logits: Logits, labels: Labels, weights: Weights, norms: Float64, scale: float, low: int, high: int
) -> None:
    """Write the scores of rows, class by class."""
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
def _fill_classes(
    scores: Float64, weights: Weights, cells: Float64, pivots: Array, starts: Array, index: Array, low: int, high: int
) -> None:
    """Put all scores of one class after the other: its cells stay in the cache."""
    n = scores.shape[1]
    bits = scores.view(np.int64)
    later, their_weights, where = np.empty(n, np.int64), np.empty(n), np.empty(n, np.uint32)
    shift = bucket_shift(index[0])
    for c in range(low, high):
        first = starts[c]
        # Most scores of most classes lie below all of its pivots.
        below, greatest, least = _survey(bits[c], weights, pivots[first])
        if greatest >= 0:
            cells[GAP, first] += below
            cells[GREATEST, first] = max(cells[GREATEST, first], float_of_bits(greatest))
        if least < _NONE:
            note_least(cells, starts[-1] + c, float_of_bits(least))
        n_later = _above(bits[c], weights, pivots[first], later, their_weights)
        # Looked up first, then added: nothing that a search has to wait for.
        for j in range(n_later):
            bucket = bucket_of(later[j], shift)
            where[j] = find_cell(pivots, later[j], index[c, bucket], index[c, bucket + 1])
        for j in range(n_later):
            put(cells, pivots, later[j], their_weights[j], where[j])


@kernel
def _fill_each(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    norms: Float64,
    cells: Float64,
    pivots: Array,
    starts: Array,
    index: Array,
    scale: float,
) -> None:
    """Put the scores of a block into the cells of the curves of their classes."""
    n, n_classes = logits.shape
    scores = np.empty((n_classes, n))
    _score_rows(scores, logits, labels, weights, norms, scale, 0, n)
    _fill_classes(scores, weights, cells, pivots, starts, index, 0, n_classes)


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
    return below, int(greatest), int(least)


@kernel
def _above(bits: Array, weights: Weights, lowest: int, later: Array, their_weights: Weights) -> int:
    """Gather the scores from `lowest` on and their weights, without a branch that nobody could foresee."""
    found = np.uint64(0)
    for i in range(bits.shape[0]):
        later[found] = bits[i]
        their_weights[found] = weights[i]
        found += np.uint64(bits[i] >= lowest)
    return int(found)


@kernel
def _fill_one(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    norms: Float64,
    cells: Float64,
    pivots: Array,
    cell_of: Array,
    is_open: Array,
    scale: float,
) -> None:
    """Put scores in open buckets into the cells of the one curve of all classes."""
    n, n_classes = logits.shape
    scores = np.empty(n_classes)
    bits = scores.view(np.int64)
    buckets, chosen, where = np.empty(n_classes, np.int32), np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    least = np.int64(_NONE)
    shift = bucket_shift(cell_of)
    for i in range(n):
        if weights[i] == 0:
            continue
        _others(logits[i], labels[i], norms[i], scale, scores)
        for c in range(n_classes):
            least = min(least, bits[c] if bits[c] >= 0 else np.int64(_NONE))
        find_buckets(scores, is_open.shape[0], buckets)
        n_chosen = np.uint64(0)
        for c in range(n_classes):  # without a branch that nobody could foresee
            chosen[n_chosen] = bits[c]
            n_chosen += np.uint64(is_open[buckets[c]])
        # Looked up first, then added: nothing that a search has to wait for.
        for j in range(int(n_chosen)):
            first = bucket_of(chosen[j], shift)
            where[j] = find_cell(pivots, chosen[j], cell_of[first], cell_of[first + 1])
        for j in range(int(n_chosen)):
            put(cells, pivots, chosen[j], weights[i], where[j])
    if least < _NONE:
        note_least(cells, pivots.shape[0], float_of_bits(least))
