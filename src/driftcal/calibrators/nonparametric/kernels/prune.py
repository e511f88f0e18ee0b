"""Pruning of the breakpoints of an isotonic curve: most can neither begin nor end one of its blocks, and need no exact sums.

An isotonic fit is the greatest convex minorant of a path: through the scores in order, to the right by their weight, upwards by
the weight of true classes; a block is a straight piece of it. Counts of scores in buckets are points of that path. Inside a
bucket the path is lowest where all other classes come before all true classes. Where even that corner lies above the minorant
of the counted points, no block ends, so the whole bucket belongs to one block. The curve stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.types import Array, Float64, Weights

# Share of all weight of true classes by which rounding could move a point of the path. Closer buckets stay open.
_MARGIN = 1e-7


@dataclass(frozen=True, eq=False)
class Pruned:
    """The breakpoints that are left.

    `weights` are of each of them and of those pruned after it, which belong to the same block. `counted` is what closed buckets
    hold in the interval below each of them. `is_open` says of each bucket whether its scores need exact sums.
    """

    breakpoints: Float64
    weights: Weights
    counted: Float64
    is_open: Array


def n_counters(n_samples: int) -> int:
    """Counters for the scores of so many samples: about as many buckets, up to a core's cache, and one for what is no score."""
    return (1 << min(max(n_samples.bit_length() - 1, 8), 17)) + 2


@kernel
def find_buckets(scores: Float64, n: int, buckets: Array) -> None:
    """The counter of each score among n; the last one is for what is no score.

    Buckets are equally wide in the fourth root of a score: most scores are small, most breakpoints are not, and both need some.
    """
    width, no_score = np.float32(n - 2), np.int32(n - 1)
    for c in range(scores.shape[0]):
        root = np.sqrt(np.sqrt(np.float32(scores[c])))
        buckets[c] = np.int32(root * width) if (scores[c] >= 0.0) & (scores[c] <= 1.0) else no_score


@kernel
def count_scores(row: Array, label: int, weight: float, scores: Float64, buckets: Array, counts: Float64) -> None:
    """Count the scores of one sample, without its true class and masked ones."""
    no_score = counts.shape[0] - 1
    find_buckets(scores, counts.shape[0], buckets)
    for c in range(scores.shape[0]):
        buckets[c] = buckets[c] if row[c] > -np.inf else no_score
    buckets[label] = no_score
    for c in range(scores.shape[0]):
        counts[buckets[c]] += weight


def prune(breakpoints: Float64, weights: Weights, counts: Float64) -> Pruned:
    """Prune the breakpoints of one curve, the last one infinite, by the counts of the other scores."""
    buckets = np.empty(len(breakpoints), np.int64)
    find_buckets(breakpoints, len(counts), buckets)
    is_open = _open_buckets(counts, _sums(buckets[:-1], weights[:-1], len(counts)))
    kept = is_open[buckets]
    kept[0] = kept[-1] = True
    left = np.flatnonzero(kept)
    closed = np.flatnonzero(~is_open[:-1])
    counted = _sums(np.searchsorted(buckets[left], closed), counts[closed], len(left))
    return Pruned(breakpoints[left], np.add.reduceat(weights, left), counted, is_open)


def _sums(indices: Array, weights: Weights, n: int) -> Float64:
    return np.bincount(indices, weights, n).astype(np.float64, copy=False)  # without any index they are integers


@kernel
def _open_buckets(others: Float64, true: Float64) -> Array:
    """Buckets that a block may begin or end in or next to."""
    n = others.shape[0] - 1
    right, up = np.zeros(n + 1), np.zeros(n + 1)
    for b in range(n):
        right[b + 1], up[b + 1] = right[b] + others[b] + true[b], up[b] + true[b]
    corners = _minorant(right, up)
    margin = _MARGIN * up[n]
    is_open = np.zeros(n + 1, np.bool_)
    k, begins = 0, True
    for b in range(n):
        corner = right[b] + others[b]
        k = _piece_at(corner, k, right, corners)
        within = true[b] > 0 and up[b] - margin <= _height(corner, k, right, up, corners)
        k = _piece_at(right[b + 1], k, right, corners)
        ends = up[b + 1] - margin <= _height(right[b + 1], k, right, up, corners)
        is_open[b] = begins or within or ends
        begins = ends
    # Before the first true class the curve is 0, and of these scores only the greatest matters.
    last = n
    for b in range(n):
        if true[b] > 0:
            break
        is_open[b] = False
        last = b if others[b] > 0 else last
    is_open[last] = last < n
    return is_open


@kernel
def _minorant(x: Float64, y: Float64) -> Array:
    """The corners of the greatest convex minorant of points from left to right."""
    corners = np.empty(x.shape[0], np.int64)
    n = 0
    for i in range(x.shape[0]):
        while n > 1:
            a, b = corners[n - 2], corners[n - 1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            n -= 1
        corners[n] = i
        n += 1
    return corners[:n]


@kernel
def _piece_at(x: float, k: int, xs: Float64, corners: Array) -> int:
    """The piece of the minorant at x, from piece k on."""
    while k + 2 < corners.shape[0] and xs[corners[k + 1]] < x:
        k += 1
    return k


@kernel
def _height(x: float, k: int, xs: Float64, ys: Float64, corners: Array) -> float:
    a, b = corners[k], corners[k + 1]
    height: float = ys[a] + (x - xs[a]) * ((ys[b] - ys[a]) / (xs[b] - xs[a]))
    return height
