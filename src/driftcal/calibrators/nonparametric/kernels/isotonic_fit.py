"""Exact isotonic curves from n·C scores in two passes.

The true class' scores are the breakpoints. Between two neighbouring breakpoints all scores belong to other classes, so they
share one value in the isotonic fit: their weight and the greatest of them suffice (and the least of all, where the curve
begins). Two passes therefore reduce n·C scores to at most n breakpoints and n + 1 intervals, and pooling adjacent violators
runs on those. The one curve of all classes needs far fewer: see :mod:`driftcal.calibrators.nonparametric.kernels.prune`. Nothing
is approximated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.certify import certify
from driftcal.calibrators.nonparametric.kernels.accumulate import (
    accumulate_curve_per_class,
    accumulate_one_curve,
)
from driftcal.calibrators.nonparametric.kernels.breakpoints import BELOW, EQUAL, GREATEST
from driftcal.calibrators.nonparametric.kernels.prune import count_scores, n_counters, prune
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_max, softmax_row
from driftcal.types import Array, Float64, Labels, Logits, Weights


@dataclass(frozen=True, eq=False)
class Curves:
    """Points of several curves: curve k has scores[starts[k]:starts[k + 1]] and the values there."""

    scores: Float64
    values: Float64
    starts: Array


def fit_curves(data: LabelledLogits, n_curves: int, scale: float = 1.0) -> tuple[Curves, FitReport]:
    """The isotonic curves of softmax(scale·z) against "is the true class": one for all classes, or one for each."""
    first, counts = data.map_and_sum(_first_pass, 6, n_counters(data.n_samples) if n_curves == 1 else 0, scale)
    norms, (scores, labels, weights, squares) = first[:, :2].copy(), first[:, 2:].T
    curve = np.zeros(data.n_samples, np.int64) if n_curves == 1 else labels.astype(np.int64)
    points = _breakpoints(scores, weights, curve, n_curves)
    if n_curves == 1:
        pruned = prune(points.scores, points.weights, counts)
        points = Breakpoints(pruned.breakpoints, pruned.weights, np.array([0, len(pruned.breakpoints)]))
        sums = accumulate_one_curve(data, norms, points.scores, pruned.is_open, scale)
        sums[BELOW, :-1] += pruned.counted
    else:
        sums = accumulate_curve_per_class(data, norms, points.scores, points.starts, scale)
    curves, error = _pool(sums, points)
    before, after = float(weights @ squares) / data.total_weight, error / data.total_weight
    certify("squared error", before, after)
    return curves, FitReport("squared error before normalising", before, after, passes=2)


@kernel
def _first_pass(logits: Logits, labels: Labels, weights: Weights, out: Float64, counts: Float64, scale: float) -> None:
    """Write for each sample what later passes need, and count its other scores, if there are counters.

    The columns of `out`: the largest logit, 1 over the sum of exponentials, the score of the true class, the true class, the
    weight, and the squared error without calibration.
    """
    scores, buckets = np.empty(logits.shape[1]), np.empty(logits.shape[1], np.int32)
    for i in range(logits.shape[0]):
        total = softmax_row(logits[i], scale, scores)
        true_class = scores[labels[i]]
        squares = 1.0 - 2.0 * true_class
        for c in range(scores.shape[0]):
            squares += scores[c] * scores[c]
        out[i, 0], out[i, 1] = row_max(logits[i]), 1.0 / total
        out[i, 2], out[i, 3], out[i, 4], out[i, 5] = true_class, labels[i], weights[i], squares
        if counts.shape[0]:
            count_scores(logits[i], labels[i], weights[i], scores, buckets, counts)


@dataclass(frozen=True, eq=False)
class Breakpoints:
    """The distinct true-class scores of each curve in order, then infinity; their weights; where each curve starts."""

    scores: Float64
    weights: Weights
    starts: Array


def _breakpoints(scores: Float64, weights: Float64, curve: Array, n_curves: int) -> Breakpoints:
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
    return Breakpoints(scores[first], np.add.reduceat(weights, first), starts)


def _pool(sums: Float64, points: Breakpoints) -> tuple[Curves, float]:
    """Pool adjacent violators within each curve; also the weighted squared error that is left."""
    size = 4 * len(points.scores)
    scores, values = np.empty(size), np.empty(size)
    ends = np.empty(len(points.starts) - 1, np.int64)
    error = _pool_curves(sums, points.scores, points.weights, points.starts, scores, values, ends)
    used = int(ends[-1])
    return Curves(scores[:used].copy(), values[:used].copy(), np.concatenate([[0], ends])), error


@kernel
def _pool_curves(
    sums: Float64,
    breakpoints: Float64,
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
            b = j >> 1
            if j & 1:
                w, t, low, high = weights[b] + sums[EQUAL, b], weights[b], breakpoints[b], breakpoints[b]
            else:  # the interval below a breakpoint joins the block before it, except where the curve begins
                w, t, low, high = sums[BELOW, b], 0.0, -sums[GREATEST, starts[-1] + k], sums[GREATEST, b]
            if w == 0:
                continue
            while top >= 0 and true[top] * w >= t * total[top]:  # its value is not below the new one: pool
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
        if top < 0:  # a class that is masked in every sample: any curve does
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
