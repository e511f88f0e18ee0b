"""Exact isotonic curves from n·C scores in two passes.

The true class' scores are the pivots. Between two neighbouring pivots all scores belong to other classes, so they share
one value in the isotonic fit: their weight and their greatest say all about them (and the least of all, where the curve
begins). Two passes therefore reduce n·C scores to at most 2n + 1 cells, and pooling adjacent violators runs on those. The
one curve of all classes needs far fewer: see :mod:`driftcal.calibrators.nonparametric.kernels.prune`. Nothing is approximated.
"""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.nonparametric.kernels.accumulate import fill_each, fill_one
from driftcal.calibrators.nonparametric.kernels.breakpoints import EQUAL, GAP, GREATEST
from driftcal.calibrators.nonparametric.kernels.prune import count_row, narrow, places
from driftcal.calibrators.scaling.temperature import certify
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_max, softmax_row
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Curves as (scores, values, starts): curve k is scores[starts[k]:starts[k + 1]] and the values there.
Curves = tuple[Float64, Float64, Array]


def fit_curves(rows: LabelledLogits, n_curves: int, scale: float = 1.0) -> tuple[Curves, FitReport]:
    """The isotonic curves of softmax(scale·z) against "is the true class": one for all classes, or one for each."""
    seen, counts = rows.map_and_sum(_look, 6, places(rows.n) if n_curves == 1 else 0, scale)
    norms, (scores, labels, weights, squares) = seen[:, :2].copy(), seen[:, 2:].T
    curve = np.zeros(rows.n, np.int64) if n_curves == 1 else labels.astype(np.int64)
    pivots, pivot_weights, starts = _pivots(scores, weights, curve, n_curves)
    if n_curves == 1:
        pivots, pivot_weights, counted, is_open = narrow(pivots, pivot_weights, counts)
        starts = np.array([0, len(pivots)])
        cells = fill_one(rows, norms, pivots, is_open, scale)
        cells[GAP, :-1] += counted
    else:
        cells = fill_each(rows, norms, pivots, starts, scale)
    curves, error = _pool(cells, pivots, pivot_weights, starts)
    before, after = float(weights @ squares) / rows.weight, error / rows.weight
    certify("squared error", before, after)
    return curves, FitReport("squared error before normalising", before, after, passes=2)


@kernel
def _look(logits: Logits, labels: Labels, weights: Weights, out: Float64, counts: Float64, scale: float) -> None:
    """Write of each row its largest logit and one over its normaliser, so that no later pass needs to find them;
    then the true class' score, the class, the weight, and the squared error of doing nothing. Count the other scores, if
    there is room for that.
    """
    scores, buckets = np.empty(logits.shape[1]), np.empty(logits.shape[1], np.int32)
    for i in range(logits.shape[0]):
        total = softmax_row(logits[i], scale, scores)
        own = scores[labels[i]]
        squares = 1.0 - 2.0 * own
        for c in range(scores.shape[0]):
            squares += scores[c] * scores[c]
        out[i, 0], out[i, 1] = row_max(logits[i]), 1.0 / total
        out[i, 2], out[i, 3], out[i, 4], out[i, 5] = own, labels[i], weights[i], squares
        if counts.shape[0]:
            count_row(logits[i], labels[i], weights[i], scores, buckets, counts)


def _pivots(scores: Float64, weights: Float64, curve: Array, n_curves: int) -> tuple[Float64, Float64, Array]:
    """The different true-class scores of each curve in order, each curve's last followed by infinity; their weights, and
    where each curve starts.
    """
    scores = np.concatenate([scores[weights > 0], np.full(n_curves, np.inf)])
    curve = np.concatenate([curve[weights > 0], np.arange(n_curves)])
    weights = np.concatenate([weights[weights > 0], np.zeros(n_curves)])
    order = np.argsort(scores)
    short = curve[order].astype(np.min_scalar_type(n_curves))  # integers that numpy sorts digit by digit
    order = order[np.argsort(short, kind="stable")]
    scores, weights, curve = scores[order], weights[order], curve[order]
    new = np.ones(len(scores), bool)
    new[1:] = (scores[1:] != scores[:-1]) | (curve[1:] != curve[:-1])
    first = np.flatnonzero(new)
    starts = np.searchsorted(curve[first], np.arange(n_curves + 1))
    return scores[first], np.add.reduceat(weights, first), starts


def _pool(cells: Float64, pivots: Float64, weights: Float64, starts: Array) -> tuple[Curves, float]:
    """Pool adjacent violators within each curve; also the weighted squared error that is left."""
    room = 4 * len(pivots)
    scores, values = np.empty(room), np.empty(room)
    ends = np.empty(len(starts) - 1, np.int64)
    error = _pool_curves(cells, pivots, weights, starts, scores, values, ends)
    used = int(ends[-1])
    return (scores[:used].copy(), values[:used].copy(), np.concatenate([[0], ends])), error


@kernel
def _pool_curves(
    cells: Float64,
    pivots: Float64,
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
    total = np.empty(2 * longest)
    true = np.empty(2 * longest)
    least = np.empty(2 * longest)
    greatest = np.empty(2 * longest)
    error = 0.0
    written = 0
    for k in range(n_curves):
        top = -1
        for j in range(2 * starts[k], 2 * starts[k + 1]):
            cell = j >> 1
            if j & 1:
                w, t, low, high = weights[cell] + cells[EQUAL, cell], weights[cell], pivots[cell], pivots[cell]
            else:  # a gap is pooled with the block below it, except where the curve begins
                w, t, low, high = cells[GAP, cell], 0.0, -cells[GREATEST, starts[-1] + k], cells[GREATEST, cell]
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
