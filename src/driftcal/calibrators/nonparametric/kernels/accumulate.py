"""Interval sums of isotonic curves. Most of the time of a fit is spent here: every score of every sample is located."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftcal.calibrators.nonparametric.kernels.breakpoints import (
    BELOW,
    GREATEST,
    add_least,
    add_score,
    bucket_of,
    bucket_shift,
    empty_intervals,
    find_interval,
    merge_intervals,
    search_index,
)
from driftcal.calibrators.nonparametric.kernels.prune import find_buckets
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exact, exp, float_of_bits, kernel
from driftcal.core.parallel import run_in_threads
from driftcal.core.passes import N_ACCUMULATORS
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Columns of the norms from the first pass: the largest logit of a sample, and 1 over its sum of exponentials.
TOP, INVERSE = range(2)
#: Bits above those of any score: there is no score.
_NONE = 0x7FFF << 48
#: Samples that are transposed at once: a cache line of scores.
_TRANSPOSED = 8
#: With up to this many scores in a block, starting threads takes longer than the work.
_SERIAL_SCORES = 1 << 15
#: With this many scores the interval sums leave the cache. Larger blocks then use each of them more often.
_MANY_SCORES = 1 << 26


def accumulate_one_curve(
    data: LabelledLogits, norms: Float64, breakpoints: Float64, is_open: Array, scale: float
) -> Float64:
    """Interval sums of one curve for all classes, from the scores in open buckets of all classes but the true one.

    `breakpoints` are in order, and the last one is infinite.
    """
    sums = empty_intervals(len(breakpoints), 1)
    index = search_index(breakpoints, np.array([0, len(breakpoints)]))[0]
    bits = breakpoints.view(np.int64)
    return data.reduce(_add_to_one_curve, sums, merge_intervals, bits, index, is_open, scale, per_sample=norms)


def accumulate_curve_per_class(
    data: LabelledLogits, norms: Float64, breakpoints: Float64, starts: Array, scale: float
) -> Float64:
    """Interval sums of one curve for each class, from its scores in samples of other classes.

    The breakpoints of curve k are ``breakpoints[starts[k]:starts[k + 1]]``, in order, and the last one is infinite.
    """
    n_curves = len(starts) - 1
    sums = empty_intervals(len(breakpoints), n_curves)
    index = search_index(breakpoints, starts)
    bits = breakpoints.view(np.int64)
    if not data.is_local:
        return data.reduce(_add_to_each_curve, sums, merge_intervals, bits, starts, index, scale, per_sample=norms)
    leaves_cache = data.n_samples * data.n_classes >= _MANY_SCORES
    buffer = np.empty(0)
    for block in data.blocks(multiple=32 if leaves_cache else 4):
        n = len(block.labels)
        if len(buffer) < n_curves * n:
            buffer = np.empty(n_curves * n)
        scores = buffer[: n_curves * n].reshape(n_curves, n)
        # split by samples first, then by classes: no two threads write to the same sums, so one copy is enough
        samples = block.logits, block.labels, block.weights, *block.part_of(norms), scale
        _in_parts(n, _write_scores, scores, *samples)
        _in_parts(n_curves, _add_classes, scores, block.weights, sums, bits, starts, index)
    return sums


def _in_parts(n: int, function: Callable[..., None], scores: Float64, *args: Any) -> None:
    """Call ``function(scores, *args, low, high)`` for parts of range(n), on several cores if there are many scores."""
    parts = min(N_ACCUMULATORS, 1 + scores.size // _SERIAL_SCORES)
    edges = [n * k // parts for k in range(parts + 1)]
    run_in_threads(lambda k: function(scores, *args, edges[k], edges[k + 1]), range(parts))


@exact
def _write_other_scores(row: Array, label: int, norms: Float64, scale: float, scores: Float64) -> None:
    """Write the scores of one sample, equal to the bit to those of softmax_row; -1 for the true and masked classes.

    Norms come from an earlier pass. If a source yields other logits now, scores are cut at 1: no interval holds more.
    """
    top, inverse = norms[TOP], norms[INVERSE]
    for c in range(row.shape[0]):
        score = exp(scale * max(np.float64(row[c]) - top, MASKED)) * inverse
        score = score if score <= 1.0 else 1.0
        scores[c] = score if row[c] > -np.inf else -1.0
    scores[label] = -1.0


@kernel
def _write_scores(
    scores: Float64, logits: Logits, labels: Labels, weights: Weights, norms: Float64, scale: float, low: int, high: int
) -> None:
    """Write the scores of samples low..high, class by class."""
    n_classes = logits.shape[1]
    tile = np.empty((_TRANSPOSED, n_classes))
    for start in range(low, high, _TRANSPOSED):
        stop = min(start + _TRANSPOSED, high)
        for i in range(start, stop):
            if weights[i] > 0:
                _write_other_scores(logits[i], labels[i], norms[i], scale, tile[i - start])
            else:
                tile[i - start] = -1.0
        if stop - start == _TRANSPOSED:  # a whole cache line each time
            for c in range(n_classes):
                for i in range(_TRANSPOSED):
                    scores[c, start + i] = tile[i, c]
        else:
            for c in range(n_classes):
                for i in range(start, stop):
                    scores[c, i] = tile[i - start, c]


@kernel
def _add_classes(
    scores: Float64,
    weights: Weights,
    sums: Float64,
    breakpoints: Array,
    starts: Array,
    index: Array,
    low: int,
    high: int,
) -> None:
    """Add all scores, one class after the other, so that the interval sums of a class stay in the cache."""
    n = scores.shape[1]
    bits = scores.view(np.int64)
    above, their_weights, at = np.empty(n, np.int64), np.empty(n), np.empty(n, np.uint32)
    shift = bucket_shift(index[0])
    for c in range(low, high):
        first = starts[c]
        # most scores of most classes are below all breakpoints of the class
        below, greatest, least = _below(bits[c], weights, breakpoints[first])
        if greatest >= 0:
            sums[BELOW, first] += below
            sums[GREATEST, first] = max(sums[GREATEST, first], float_of_bits(greatest))
        if least < _NONE:
            add_least(sums, starts[-1] + c, float_of_bits(least))
        n_above = _gather_above(bits[c], weights, breakpoints[first], above, their_weights)
        # all searches first, then all sums: no search waits for a sum
        for j in range(n_above):
            bucket = bucket_of(above[j], shift)
            at[j] = find_interval(breakpoints, above[j], index[c, bucket], index[c, bucket + 1])
        for j in range(n_above):
            add_score(sums, breakpoints, above[j], their_weights[j], at[j])


@kernel
def _add_to_each_curve(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    norms: Float64,
    sums: Float64,
    breakpoints: Array,
    starts: Array,
    index: Array,
    scale: float,
) -> None:
    """Add the scores of a block to the interval sums of the curves of their classes."""
    n, n_classes = logits.shape
    scores = np.empty((n_classes, n))
    _write_scores(scores, logits, labels, weights, norms, scale, 0, n)
    _add_classes(scores, weights, sums, breakpoints, starts, index, 0, n_classes)


@kernel
def _below(bits: Array, weights: Weights, lowest: int) -> tuple[float, int, int]:
    """Weight and greatest of the scores below `lowest`, -1 if there is none, and the least of all scores."""
    below, greatest, least = 0.0, np.int64(-1), np.int64(_NONE)
    for i in range(bits.shape[0]):
        score = bits[i]
        is_below = (score >= 0) & (score < lowest)
        below += weights[i] if is_below else 0.0
        greatest = max(greatest, score if is_below else np.int64(-1))
        least = min(least, score if score >= 0 else np.int64(_NONE))
    return below, int(greatest), int(least)


@kernel
def _gather_above(bits: Array, weights: Weights, lowest: int, above: Array, their_weights: Weights) -> int:
    """Gather the scores from `lowest` on, and their weights. The loop has no branch, which could not be predicted."""
    n_above = np.uint64(0)
    for i in range(bits.shape[0]):
        above[n_above] = bits[i]
        their_weights[n_above] = weights[i]
        n_above += np.uint64(bits[i] >= lowest)
    return int(n_above)


@kernel
def _add_to_one_curve(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    norms: Float64,
    sums: Float64,
    breakpoints: Array,
    index: Array,
    is_open: Array,
    scale: float,
) -> None:
    """Add the scores in open buckets to the interval sums of the one curve of all classes."""
    n, n_classes = logits.shape
    scores = np.empty(n_classes)
    bits = scores.view(np.int64)
    buckets, chosen, at = np.empty(n_classes, np.int32), np.empty(n_classes, np.int64), np.empty(n_classes, np.int64)
    least = np.int64(_NONE)
    shift = bucket_shift(index)
    for i in range(n):
        if weights[i] == 0:
            continue
        _write_other_scores(logits[i], labels[i], norms[i], scale, scores)
        for c in range(n_classes):
            least = min(least, bits[c] if bits[c] >= 0 else np.int64(_NONE))
        find_buckets(scores, is_open.shape[0], buckets)
        n_chosen = np.uint64(0)
        for c in range(n_classes):  # no branch, which could not be predicted
            chosen[n_chosen] = bits[c]
            n_chosen += np.uint64(is_open[buckets[c]])
        # all searches first, then all sums: no search waits for a sum
        for j in range(int(n_chosen)):
            bucket = bucket_of(chosen[j], shift)
            at[j] = find_interval(breakpoints, chosen[j], index[bucket], index[bucket + 1])
        for j in range(int(n_chosen)):
            add_score(sums, breakpoints, chosen[j], weights[i], at[j])
    if least < _NONE:
        add_least(sums, breakpoints.shape[0], float_of_bits(least))
