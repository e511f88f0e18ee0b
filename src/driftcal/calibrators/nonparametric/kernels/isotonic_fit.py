"""Exact isotonic curves from n·C scores in two passes.

The scores of the true classes are the breakpoints. Between two neighbouring breakpoints all scores belong to other
classes, so they have the same value in the isotonic fit. Their weight and the greatest of them are enough, and the
least of all scores, where the curve begins. So two passes reduce n·C scores to at most n breakpoints and n + 1
intervals, and the algorithm of pooling adjacent violators runs on these. One curve for all classes needs far fewer
breakpoints: see :mod:`driftcal.calibrators.nonparametric.kernels.prune`. Nothing is approximated, but scores that differ
by rounding only are one score: see :mod:`driftcal.calibrators.nonparametric.kernels.tied_scores`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.certify import certify
from driftcal.calibrators.nonparametric.kernels.accumulate import (
    INVERSE,
    TOP,
    accumulate_curve_per_class,
    accumulate_one_curve,
)
from driftcal.calibrators.nonparametric.kernels.breakpoints import BELOW, EQUAL, GREATEST, first_not_below
from driftcal.calibrators.nonparametric.kernels.prune import count_scores, n_counters, prune
from driftcal.calibrators.nonparametric.kernels.tied_scores import begins_group, lowered, raised
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_max, softmax_row
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Columns of what the first pass writes for each sample, after TOP and INVERSE: the score of the true class, the true
#: class, the weight, and the squared error without calibration.
TRUE_SCORE, TRUE_CLASS, WEIGHT, SQUARED_ERROR = range(2, 6)


@dataclass(frozen=True, eq=False)
class Curves:
    """Points of several curves: curve k has scores[starts[k]:starts[k + 1]] and the values there."""

    scores: Float64
    values: Float64
    starts: Array


def fit_curves(data: LabelledLogits, n_curves: int, scale: float = 1.0) -> tuple[Curves, FitReport]:
    """The isotonic curves of softmax(scale·z) against "is the true class": one for all classes, or one for each."""
    samples, counts = data.map_and_sum(_first_pass, 6, n_counters(data.n_samples) if n_curves == 1 else 0, scale)
    norms, weights = samples[:, TOP : INVERSE + 1].copy(), samples[:, WEIGHT]
    curve = np.zeros(data.n_samples, np.int64) if n_curves == 1 else samples[:, TRUE_CLASS].astype(np.int64)
    points = _breakpoints(samples[:, TRUE_SCORE], weights, curve, n_curves)
    if n_curves == 1:
        pruned = prune(points.scores, points.weights, counts)
        kept = pruned.kept
        greatest = np.maximum.reduceat(points.greatest, kept)
        starts = np.array([0, len(kept)])
        points = Breakpoints(pruned.breakpoints, points.least[kept], greatest, pruned.weights, starts)
        sums = accumulate_one_curve(data, norms, points.scores, pruned.is_open, scale)
        sums[BELOW, :-1] += pruned.counted
    else:
        sums = accumulate_curve_per_class(data, norms, points.scores, points.starts, scale)
    curves, error = _pool(sums, points)
    before, after = float(weights @ samples[:, SQUARED_ERROR]) / data.total_weight, error / data.total_weight
    certify("squared error", before, after)
    return curves, FitReport("squared error before normalising", before, after, passes=2)


@kernel
def _first_pass(logits: Logits, labels: Labels, weights: Weights, out: Float64, counts: Float64, scale: float) -> None:
    """Write TOP, …, SQUARED_ERROR of each sample, and count its other scores if there are counters."""
    scores, buckets = np.empty(logits.shape[1]), np.empty(logits.shape[1], np.int32)
    for i in range(logits.shape[0]):
        total = softmax_row(logits[i], scale, scores)
        true_score = scores[labels[i]]
        squared_error = 1.0 - 2.0 * true_score
        for c in range(scores.shape[0]):
            squared_error += scores[c] * scores[c]
        out[i, TOP], out[i, INVERSE] = row_max(logits[i]), 1.0 / total
        out[i, TRUE_SCORE], out[i, TRUE_CLASS] = true_score, labels[i]
        out[i, WEIGHT], out[i, SQUARED_ERROR] = weights[i], squared_error
        if counts.shape[0]:
            count_scores(logits[i], labels[i], weights[i], scores, buckets, counts)


@dataclass(frozen=True, eq=False)
class Breakpoints:
    """The distinct true-class scores of each curve, then infinity; their weights, and the start of each curve.

    Equal scores are one breakpoint, with the `least` and the `greatest` of them. `scores` are the least ones lowered to
    the numbers that still count as equal.
    """

    scores: Float64
    least: Float64
    greatest: Float64
    weights: Weights
    starts: Array


def _breakpoints(scores: Float64, weights: Float64, curve: Array, n_curves: int) -> Breakpoints:
    scores = np.concatenate([scores[weights > 0], np.full(n_curves, np.inf)])
    curve = np.concatenate([curve[weights > 0], np.arange(n_curves)])
    weights = np.concatenate([weights[weights > 0], np.zeros(n_curves)])
    order = np.argsort(scores)
    short_integers = curve[order].astype(np.min_scalar_type(n_curves))  # numpy has a fast radix sort for them
    order = order[np.argsort(short_integers, kind="stable")]
    scores, weights, curve = scores[order], weights[order], curve[order]
    first = np.flatnonzero(begins_group(scores, curve))
    starts = np.searchsorted(curve[first], np.arange(n_curves + 1))
    least, greatest = scores[first], scores[np.append(first[1:], len(scores)) - 1]
    return Breakpoints(
        _lower(least, greatest, starts), least, greatest, np.add.reduceat(weights, first), np.asarray(starts)
    )


@kernel
def _lower(least: Float64, greatest: Float64, starts: Array) -> Float64:
    """Each breakpoint lowered to the least number that counts as equal, but not down to the breakpoint before."""
    moved = least.copy()
    for k in range(starts.shape[0] - 1):
        for j in range(starts[k], starts[k + 1] - 1):
            moved[j] = max(lowered(least[j]), 0.0)
            if j > starts[k]:
                moved[j] = max(moved[j], greatest[j - 1] + 0.5 * (least[j] - greatest[j - 1]))
    return moved


def _pool(sums: Float64, points: Breakpoints) -> tuple[Curves, float]:
    """Pool adjacent violators within each curve; return the curves and the weighted squared error that is left."""
    size = 4 * len(points.scores)  # a breakpoint and the interval below it give at most two blocks of two points
    scores, values = np.empty(size), np.empty(size)
    ends = np.empty(len(points.starts) - 1, np.int64)
    error = _pool_curves(sums, points.least, points.greatest, points.weights, points.starts, scores, values, ends)
    used = int(ends[-1])
    return Curves(scores[:used].copy(), values[:used].copy(), np.concatenate([[0], ends])), error


@kernel
def _pool_curves(
    sums: Float64,
    least_true: Float64,
    greatest_true: Float64,
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
                w, t, low, high = weights[b] + sums[EQUAL, b], weights[b], least_true[b], greatest_true[b]
            else:  # the interval below a breakpoint joins the block before it, except at the start of the curve
                w, t, low, high = sums[BELOW, b], 0.0, -sums[GREATEST, starts[-1] + k], sums[GREATEST, b]
            if w == 0:
                continue
            while top >= 0 and true[top] * w >= t * total[top]:  # the value of the last block is not below: pool
                w += total[top]
                t += true[top]
                low, high = least[top], max(greatest[top], high)
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
        if top < 0:  # the class is masked in every sample, so its curve is not used
            scores[written], values[written] = 0.0, 0.0
            written += 1
        ends[k] = written
    return error


@kernel
def apply_curves(probs: Float64, scores: Float64, values: Float64, starts: Array, added_slope: float) -> None:
    """Replace each p by curve(p) + added_slope·p, in place; a p equal to a point up to rounding gets its value."""
    one_curve = starts.shape[0] == 2
    for i in range(probs.shape[0]):
        for c in range(probs.shape[1]):
            p = probs[i, c]
            first = starts[0] if one_curve else starts[c]
            last = (starts[1] if one_curve else starts[c + 1]) - 1
            low = first_not_below(scores, p, first, last + 1)
            if low == first:
                value = values[first]
            elif low > last:
                value = values[last]
            else:
                below, above = scores[low - 1], scores[low]
                # rounding must not lift it above the next block, or two classes could swap their order
                value = min(
                    values[low - 1] + (p - below) / (above - below) * (values[low] - values[low - 1]), values[low]
                )
                middle = below + 0.5 * (above - below)
                value = values[low - 1] if p <= min(raised(below), middle) else value
                value = values[low] if p > max(lowered(above), middle) else value
            probs[i, c] = value + added_slope * p
