"""Exact isotonic curves from n·C scores in two passes.

The true class' scores are the pivots. Between two neighbouring pivots all scores belong to other classes, so they share
one value in the isotonic fit: their weight and their greatest say all about them (and the least of all, where the curve
begins). Two passes therefore reduce n·C scores to 2n + 1 cells, and pooling adjacent violators runs on those. Nothing is
approximated.
"""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.cells import EQUAL, GAP, GREATEST, PIVOT, fill_curve, fill_curves, merge_cells, search_index
from driftcal.calibrators.temperature import certify
from driftcal.numerics import kernel, softmax_row
from driftcal.rows import Rows
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Curves as (scores, values, starts): curve k is scores[starts[k]:starts[k + 1]] and the values there.
Curves = tuple[Float64, Float64, Array]

#: Scores from which on cells leave the cache, and larger blocks, which use each of them more often, are enough for all cores.
_MANY = 1 << 26


def fit_curves(rows: Rows, n_curves: int, scale: float = 1.0) -> tuple[Curves, FitReport]:
    """The isotonic curves of softmax(scale·z) against "is the true class": one for all classes, or one for each."""
    own = rows.each(_own_scores, 3, scale)
    own = own[own[:, 2] > 0]
    curve = np.zeros(len(own), np.int64) if n_curves == 1 else own[:, 1].astype(np.int64)
    pivots, pivot_weights, starts = _pivots(own[:, 0], own[:, 2], curve, n_curves)
    fill = fill_curve if n_curves == 1 else fill_curves

    # Then a line per curve, whose GREATEST is minus its least score, and one for the squared error of doing nothing.
    n_cells = len(pivots) + n_curves
    cells = np.zeros((n_cells + n_curves + 1, 4))
    cells[:, GREATEST], cells[:, PIVOT] = -np.inf, np.inf
    cells[np.arange(len(pivots)) + np.repeat(np.arange(n_curves), np.diff(starts)), PIVOT] = pivots
    index = search_index(pivots, starts)
    together = 16 if rows.n * rows.n_classes >= _MANY else 1
    cells = rows.fold(fill, cells, merge_cells, scale, starts, index, together=together)
    curves, error = _pool(cells, pivot_weights, starts)
    before, after = cells[-1, GAP] / rows.weight, error / rows.weight
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
                w, t, low, high = weights[pivot] + cell[EQUAL], weights[pivot], cell[PIVOT], cell[PIVOT]
            else:  # a gap is pooled with the block below it, except where the curve begins
                w, t, low, high = cell[GAP], 0.0, -cells[starts[-1] + n_curves + k, GREATEST], cell[GREATEST]
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
