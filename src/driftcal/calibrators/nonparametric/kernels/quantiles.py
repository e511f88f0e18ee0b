"""Order statistics of scores without sorting all of them, and the count and sum of the scores up to each."""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import bits_of_float, kernel
from driftcal.types import Array, Float64, Labels

#: Buckets of the first pass: their counters fit into a core's first cache.
_N_BUCKETS = 4096


def order_statistics(scores: Float64, ranks: Labels) -> Float64:
    """The ranks[k]-th smallest of `scores`, all of them 0 or more; ranks ascend from 0.

    >>> import numpy as np
    >>> order_statistics(np.array([0.4, 0.1, 0.9, 0.2]), np.array([0, 2]))
    array([0.1, 0.4])
    """
    candidates, candidate_ranks = _candidates(scores, ranks)
    chosen: Float64 = np.sort(candidates)[candidate_ranks]
    return chosen


@kernel
def _candidates(scores: Float64, ranks: Labels) -> tuple[Float64, Labels]:
    """Scores that include those of the requested ranks, and the requested ranks among them.

    The bits of non-negative floats are whole numbers in the same order. Their leading digits between the least and the
    greatest give the bucket of a score. Only the buckets that hold one of the ranks are kept.
    """
    n = scores.shape[0]
    least = greatest = bits_of_float(scores[0])
    for i in range(n):
        bits = bits_of_float(scores[i])
        least, greatest = min(least, bits), max(greatest, bits)
    shift = 0
    while (greatest - least) >> shift >= _N_BUCKETS:
        shift += 1
    counts = np.zeros(_N_BUCKETS, np.int64)
    for i in range(n):
        counts[(bits_of_float(scores[i]) - least) >> shift] += 1
    is_kept = np.zeros(_N_BUCKETS, np.bool_)
    candidate_ranks = np.empty_like(ranks)
    bucket = before = kept = 0
    for k in range(ranks.shape[0]):
        while before + counts[bucket] <= ranks[k]:
            before += counts[bucket]
            if is_kept[bucket]:
                kept += counts[bucket]
            bucket += 1
        is_kept[bucket] = True
        candidate_ranks[k] = kept + ranks[k] - before
    candidates = np.empty(n)
    n_candidates = 0
    for i in range(n):
        candidates[n_candidates] = scores[i]  # always written, but counted only if kept: this needs no branch
        n_candidates += is_kept[(bits_of_float(scores[i]) - least) >> shift]
    return candidates[:n_candidates], candidate_ranks


@kernel
def sums_up_to(scores: Float64, edges: Float64) -> tuple[Array, Float64]:
    """How many scores are at most each edge, and their sum."""
    counts, sums = np.empty(edges.shape[0], np.int64), np.empty(edges.shape[0])
    for k in range(edges.shape[0]):
        edge = edges[k]
        count, total = 0, 0.0
        for i in range(scores.shape[0]):
            inside = scores[i] <= edge
            count += inside
            total += scores[i] if inside else 0.0
        counts[k], sums[k] = count, total
    return counts, sums
