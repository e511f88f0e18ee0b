"""Equal-width bins of confidence: ((m−1)/M, m/M]. An edge belongs to the bin below; 0.0 is in the first bin."""

from __future__ import annotations

import math

import numpy as np

from driftcal.core.numerics import kernel, with_small
from driftcal.core.scalars import is_whole
from driftcal.errors import InputError
from driftcal.types import Array, Float64

#: More bins than this are a mistake, and would take gigabytes.
MAX_BINS = 1_000_000


def bin_edges(n_bins: int) -> Float64:
    """The M + 1 edges 0, 1/M, ..., 1, each the float nearest to m/M, so that a confidence of m/M is in the bin below.

    ``linspace`` multiplies by a rounded step, and its products are not always the nearest floats (M = 7, 30, ...).

    >>> all(bin_indices(np.array([m / n]), bin_edges(n))[0] == m - 1 for n in (7, 10, 15, 30) for m in range(1, n + 1))
    True
    """
    if not is_whole(n_bins) or not 1 <= n_bins <= MAX_BINS:
        value = "far too large" if is_whole(n_bins) and n_bins > MAX_BINS else repr(n_bins)
        raise InputError(
            f"n_bins must be a whole number of at least 1 and at most {MAX_BINS:,}; it is {value}. The usual choice is 15."
        )
    n = int(n_bins)
    edges: Float64 = np.arange(n + 1) / n
    return edges


@kernel
def bin_index(confidence: float, edges: Float64) -> int:
    """``searchsorted(edges, confidence, side="left") - 1`` within the bins; the first guess is at most one off."""
    last = edges.shape[0] - 2
    m: int = min(max(math.ceil(confidence * (last + 1)) - 1, 0), last)
    while m > 0 and confidence <= edges[m]:
        m -= 1
    while m < last and confidence > edges[m + 1]:
        m += 1
    return m


def _small_bin_indices(confidence: Float64, edges: Float64) -> Array:
    last = len(edges) - 2
    indices: Array = np.clip(np.ceil(confidence * (last + 1)).astype(np.int64) - 1, 0, last)
    indices -= (indices > 0) & (confidence <= edges[indices])
    indices += (indices < last) & (confidence > edges[np.minimum(indices, last) + 1])
    return indices


@with_small(_small_bin_indices)
def bin_indices(confidence: Float64, edges: Float64) -> Array:
    """:func:`bin_index` of each entry."""
    indices = np.empty(confidence.shape[0], np.int64)
    for i in range(confidence.shape[0]):
        indices[i] = bin_index(confidence[i], edges)
    return indices
