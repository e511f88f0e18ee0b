"""Pruning of the breakpoints of an isotonic curve: most cannot begin or end a block, so they need no exact sums.

An isotonic fit is the greatest convex minorant of a path. The path goes through the scores in order: to the right by
their weight, upwards by the weight of true classes. A block is a straight piece of the minorant. Counts of scores in
buckets are points of the path. Inside a bucket, the path is lowest if all other classes come before all true classes.
If even this corner is above the minorant of the counted points, no block ends in the bucket, so the bucket belongs to
one block. The curve stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.types import Array, Float64, Weights

#: Rounding could move a point of the path by this share of the weight of all true classes. Closer buckets stay open.
_MARGIN = 1e-7


@dataclass(frozen=True, eq=False)
class Pruned:
    """The breakpoints that are left; `kept` are their numbers.

    `weights` holds the weight of each breakpoint and of those pruned after it, which belong to the same block.
    `counted` is the weight in closed buckets in the interval below each breakpoint. `is_open` says for each bucket
    whether its scores need exact sums.
    """

    kept: Array
    breakpoints: Float64
    weights: Weights
    counted: Float64
    is_open: Array


def n_counters(n_samples: int) -> int:
    """The number of counters: about one per sample, up to a core's cache, and one for classes without a score."""
    return (1 << min(max(n_samples.bit_length() - 1, 8), 17)) + 2


@kernel
def find_buckets(scores: Float64, n: int, buckets: Array) -> None:
    """The counter of each score among n; the last one is for classes without a score.

    Buckets are equally wide in the fourth root of a score: most scores are small, most breakpoints are large, and both
    need buckets.
    """
    width, no_score = np.float32(n - 2), np.int32(n - 1)
    for c in range(scores.shape[0]):
        root = np.sqrt(np.sqrt(np.float32(scores[c])))
        buckets[c] = np.int32(root * width) if (scores[c] >= 0.0) & (scores[c] <= 1.0) else no_score


@kernel
def count_scores(row: Array, label: int, weight: float, scores: Float64, buckets: Array, counts: Float64) -> None:
    """Count the scores of one sample, without its true class and its masked classes."""
    no_score = counts.shape[0] - 1
    find_buckets(scores, counts.shape[0], buckets)
    for c in range(scores.shape[0]):
        buckets[c] = buckets[c] if row[c] > -np.inf else no_score
    buckets[label] = no_score
    for c in range(scores.shape[0]):
        counts[buckets[c]] += weight


def prune(breakpoints: Float64, weights: Weights, counts: Float64) -> Pruned:
    """Prune the breakpoints of one curve by the counts of the other scores; the last breakpoint is infinite."""
    buckets = np.empty(len(breakpoints), np.int64)
    find_buckets(breakpoints, len(counts), buckets)
    is_open = _open_buckets(counts, _sums(buckets[:-1], weights[:-1], len(counts)))
    kept = is_open[buckets]
    kept[0] = kept[-1] = True
    left = np.flatnonzero(kept)
    closed = np.flatnonzero(~is_open[:-1])
    counted = _sums(np.searchsorted(buckets[left], closed), counts[closed], len(left))
    return Pruned(left, breakpoints[left], np.add.reduceat(weights, left), counted, is_open)


def _sums(indices: Array, weights: Weights, n: int) -> Float64:
    return np.bincount(indices, weights, n).astype(np.float64, copy=False)  # numpy returns integers without any index


@kernel
def _open_buckets(others: Float64, true: Float64) -> Array:
    """The buckets in which or next to which a block may begin or end."""
    n = others.shape[0] - 1
    x, y = np.zeros(n + 1), np.zeros(n + 1)  # the path at the edges of the buckets
    for b in range(n):
        x[b + 1], y[b + 1] = x[b] + others[b] + true[b], y[b] + true[b]
    corners = _minorant(x, y)
    margin = _MARGIN * y[n]
    is_open = np.zeros(n + 1, np.bool_)
    k, begins = 0, True
    for b in range(n):
        corner = x[b] + others[b]
        k = _piece_at(corner, k, x, corners)
        within = true[b] > 0 and y[b] - margin <= _height(corner, k, x, y, corners)
        k = _piece_at(x[b + 1], k, x, corners)
        ends = y[b + 1] - margin <= _height(x[b + 1], k, x, y, corners)
        is_open[b] = begins or within or ends
        begins = ends
    # before the first true class the curve is 0, and only the greatest of these scores matters
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
    """The corners of the greatest convex minorant of points, which are ordered from left to right."""
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
    """The piece of the minorant at x; the search begins at piece k."""
    while k + 2 < corners.shape[0] and xs[corners[k + 1]] < x:
        k += 1
    return k


@kernel
def _height(x: float, k: int, xs: Float64, ys: Float64, corners: Array) -> float:
    """The height of piece k of the minorant at x."""
    a, b = corners[k], corners[k + 1]
    height: float = ys[a] + (x - xs[a]) * ((ys[b] - ys[a]) / (xs[b] - xs[a]))
    return height
