"""Which pivots of an isotonic curve can begin or end one of its blocks: mostly few, and these alone need exact cells.

An isotonic fit is the greatest convex minorant of the path that runs through the scores in order, by their weight to the
right and by that of true classes upwards; a block is a straight piece of it. Counts of scores in buckets are points of that
path. Inside a bucket it runs no lower than by all others first, then all true classes. Where even that corner stays above
the minorant of the known points, no block ends, so the whole bucket may move as one. The curve stays exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.types import Array, Float64, Weights

# Share of all weight of true classes by which rounding could move a point of the path. Closer ones stay exact.
_MARGIN = 1e-7


class Narrowed(NamedTuple):
    """The pivots that are left."""

    pivots: Float64
    #: of each of them and of those that followed, which belong to the same block
    weights: Weights
    #: in the gap of each of them, what closed buckets hold
    counted: Float64
    #: of each bucket, whether its scores still have to be put into cells
    open: Array


def places(n_rows: int) -> int:
    """Places to count the scores of so many rows in: about as many buckets, up to what a core's cache holds, and a last
    place for what is no score.
    """
    return (1 << min(max(n_rows.bit_length() - 1, 8), 17)) + 2


@kernel
def find_buckets(scores: Float64, n_places: int, buckets: Array) -> None:
    """The bucket of each score, of places for buckets and for what is no score.

    Buckets are equally wide in the fourth root of a score: most scores are small, most pivots are not, and both need some.
    """
    width, nowhere = np.float32(n_places - 2), np.int32(n_places - 1)
    for c in range(scores.shape[0]):
        root = np.sqrt(np.sqrt(np.float32(scores[c])))
        buckets[c] = np.int32(root * width) if (scores[c] >= 0.0) & (scores[c] <= 1.0) else nowhere


@kernel
def count_row(row: Array, label: int, weight: float, scores: Float64, buckets: Array, counts: Float64) -> None:
    """Count the scores of a row, but for its true class and masked ones."""
    nowhere = counts.shape[0] - 1
    find_buckets(scores, counts.shape[0], buckets)
    for c in range(scores.shape[0]):
        buckets[c] = buckets[c] if row[c] > -np.inf else nowhere
    buckets[label] = nowhere
    for c in range(scores.shape[0]):
        counts[buckets[c]] += weight


def narrow(pivots: Float64, weights: Weights, counts: Float64) -> Narrowed:
    """Narrow the pivots of one curve, the last one infinite, by what was counted of the other scores."""
    buckets = np.empty(len(pivots), np.int64)
    find_buckets(pivots, len(counts), buckets)
    is_open = _open_buckets(counts, _sums(buckets[:-1], weights[:-1], len(counts)))
    kept = is_open[buckets]
    kept[0] = kept[-1] = True
    left = np.flatnonzero(kept)
    closed = np.flatnonzero(~is_open[:-1])
    counted = _sums(np.searchsorted(buckets[left], closed), counts[closed], len(left))
    return Narrowed(pivots[left], np.add.reduceat(weights, left), counted, is_open)


def _sums(places: Array, weights: Weights, n: int) -> Float64:
    return np.bincount(places, weights, n).astype(np.float64, copy=False)  # integers of no places


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
    # Before the first true class all is zero, and only the greatest of these scores is of interest.
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
    """The piece of the minorant above x, from piece k on."""
    while k + 2 < corners.shape[0] and xs[corners[k + 1]] < x:
        k += 1
    return k


@kernel
def _height(x: float, k: int, xs: Float64, ys: Float64, corners: Array) -> float:
    a, b = corners[k], corners[k + 1]
    height: float = ys[a] + (x - xs[a]) * ((ys[b] - ys[a]) / (xs[b] - xs[a]))
    return height
