"""All scores of one class in one array, for fits per class that sort or iterate.

Groups of classes are gathered one after the other into one buffer. So memory stays bounded, and the scores of a class
stay in a core's cache while it is fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log_odds_below, log_odds_of_top, row_max, softmax_row
from driftcal.core.parallel import map_in_threads
from driftcal.types import Float64, Labels, Logits, Weights

T = TypeVar("T")

#: Scores gathered at once: at least 32 MB of float64, since smaller buffers take more passes; at most 256 MB.
_MIN_BUFFER, _MAX_BUFFER = 1 << 22, 1 << 25
#: Between these limits the buffer holds this part of all scores, so that the fit takes this many passes.
_PASSES = 8
#: Classes of one task: few, so that threads get equal shares, but enough that starting a task takes no time.
_CLASSES_PER_TASK = 8
#: Samples that are transposed at once: two cache lines of scores.
_TILE = 16

#: Kinds of scores: softmax(z), or the log-odds of a class against the rest.
SOFTMAX, LOG_ODDS = 0, 1
#: Columns of what is computed once per sample: its top logit, the factor or sum of the exponentials, the top class, and
#: the log-odds of that class.
_TOP, _TOTAL, _TOP_CLASS, _TOP_LOG_ODDS = range(4)


@dataclass(frozen=True)
class ClassScores:
    """The scores of one class for all samples of positive weight, in a buffer that may be changed but not kept."""

    column: int
    scores: Float64
    labels: Labels
    weights: Weights
    equal_weights: bool


def for_each_class(data: LabelledLogits, kind: int, function: Callable[[ClassScores], T]) -> tuple[list[T], int]:
    """Call ``function(class_scores)`` for every class on all cores; return the results in order, and the passes taken.

    `kind` is SOFTMAX or LOG_ODDS. The score of a masked class is -1 (SOFTMAX) or MASKED (LOG_ODDS).
    """
    n, n_classes = data.n_samples, data.n_classes
    budget = min(max(n * n_classes // _PASSES, _MIN_BUFFER), _MAX_BUFFER)
    step = max(1, min(n_classes, budget // n))
    buffer = np.empty((step, n))
    labels, weights = np.empty(n, np.int64), np.empty(n)
    sample_sums = data.map_samples(_write_sample_sums, 4, kind)
    results: list[T] = []
    passes = 1
    for first in range(0, n_classes, step):
        group = buffer[: n_classes - first]

        def gather(logits: Logits, y: Labels, w: Weights, start: int, group: Any = group, first: int = first) -> None:
            stop = start + len(y)
            labels[start:stop], weights[start:stop] = y, w
            _gather(logits, sample_sums[start:stop], kind, first, group[:, start:stop])

        data.for_each_block(gather)
        passes += 1
        classes = list(_classes_of(first, group, labels, weights))
        tasks = [classes[low : low + _CLASSES_PER_TASK] for low in range(0, len(classes), _CLASSES_PER_TASK)]
        for part in map_in_threads(lambda task: [function(scores) for scores in task], tasks):
            results += part
    return results, passes


def _classes_of(first: int, group: Float64, labels: Labels, weights: Weights) -> Iterator[ClassScores]:
    """The classes of a group, without the samples of weight 0."""
    used = weights > 0
    all_used = bool(used.all())
    if not all_used:
        labels, weights = labels[used], weights[used]
    equal = bool((weights == weights[0]).all())
    for k, scores in enumerate(group):
        yield ClassScores(first + k, scores if all_used else scores[used], labels, weights, equal)


@kernel
def _write_sample_sums(logits: Logits, labels: Labels, weights: Weights, out: Float64, kind: int) -> None:
    """Write for each sample: its top logit, the sum of exponentials, the top class and the log-odds of that class."""
    scratch = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        if kind == SOFTMAX:
            out[i, _TOP] = row_max(logits[i])
            out[i, _TOTAL] = 1.0 / softmax_row(logits[i], 1.0, scratch)
        else:
            best, out[i, _TOP], out[i, _TOTAL], out[i, _TOP_LOG_ODDS] = log_odds_of_top(logits[i], scratch)
            out[i, _TOP_CLASS] = best


@kernel
def _gather(logits: Logits, sample_sums: Float64, kind: int, first: int, out: Float64) -> None:
    """Write the scores of classes first, first + 1, … into `out`, which has a row per class."""
    tile = np.empty((_TILE, out.shape[0]))
    for low in range(0, logits.shape[0], _TILE):
        high = min(low + _TILE, logits.shape[0])
        for i in range(low, high):
            row = logits[i, first : first + out.shape[0]]
            scores = tile[i - low]
            top, total = sample_sums[i, _TOP], sample_sums[i, _TOTAL]
            if kind == SOFTMAX:
                for c in range(out.shape[0]):
                    score = exp(max(np.float64(row[c]) - top, MASKED)) * total
                    scores[c] = score if row[c] > -np.inf else -1.0  # a score that underflows is 0, which is a score
            else:
                for c in range(out.shape[0]):
                    difference = np.float64(row[c]) - top
                    scores[c] = log_odds_below(difference, exp(max(difference, MASKED)), total)
                best = int(sample_sums[i, _TOP_CLASS]) - first
                if best >= 0 and best < out.shape[0]:
                    scores[best] = sample_sums[i, _TOP_LOG_ODDS]
        for c in range(out.shape[0]):
            for i in range(low, high):
                out[c, i] = tile[i - low, c]
