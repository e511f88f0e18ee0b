"""All scores of one class side by side, for fits per class that sort or iterate.

Groups of classes are gathered one after the other into one buffer. So memory stays bounded, and the scores of a class stay in a
core's cache while it is fitted.
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

#: Scores gathered at once: at least 32 MB (fresh memory costs more than another pass), at most 256 MB of float64.
_MIN_BUFFER, _MAX_BUFFER = 1 << 22, 1 << 25
_PASSES = 8
#: Classes that a thread takes at a time: few enough to share evenly, enough to make the hand-over cheap.
_CLASSES_PER_TASK = 8

SOFTMAX, LOG_ODDS = 0, 1


@dataclass(frozen=True)
class ClassScores:
    """One class: its scores for all samples of positive weight, in a buffer that may be changed but not kept."""

    column: int
    scores: Float64
    labels: Labels
    weights: Weights
    equal_weights: bool


def for_each_class(data: LabelledLogits, kind: int, function: Callable[[ClassScores], T]) -> tuple[list[T], int]:
    """``function(class_scores)`` for every class, on all cores; the results in order of classes, and the passes taken.

    `kind` says which scores: SOFTMAX, or LOG_ODDS of one class against the rest. A masked class has the score -1 or MASKED.
    """
    n, n_classes = data.n_samples, data.n_classes
    budget = min(max(n * n_classes // _PASSES, _MIN_BUFFER), _MAX_BUFFER)
    step = max(1, min(n_classes, budget // n))
    buffer = np.empty((step, n))
    labels, weights = np.empty(n, np.int64), np.empty(n)
    sample_sums = data.map_samples(_sample_sums, 4, kind)
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
        classes = list(_with_weight(first, group, labels, weights))
        tasks = [classes[low : low + _CLASSES_PER_TASK] for low in range(0, len(classes), _CLASSES_PER_TASK)]
        for part in map_in_threads(lambda task: [function(scores) for scores in task], tasks):
            results += part
    return results, passes


def _with_weight(first: int, group: Float64, labels: Labels, weights: Weights) -> Iterator[ClassScores]:
    """The classes of a group, without the samples of weight 0."""
    used = weights > 0
    all_used = bool(used.all())
    if not all_used:
        labels, weights = labels[used], weights[used]
    equal = bool((weights == weights[0]).all())
    for k, scores in enumerate(group):
        yield ClassScores(first + k, scores if all_used else scores[used], labels, weights, equal)


@kernel
def _sample_sums(logits: Logits, labels: Labels, weights: Weights, out: Float64, kind: int) -> None:
    """What every score of a sample needs, once: its top logit, the sum of exponentials, the top class and its log-odds."""
    scratch = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        if kind == SOFTMAX:
            out[i, 0] = row_max(logits[i])
            out[i, 1] = 1.0 / softmax_row(logits[i], 1.0, scratch)
        else:
            best, out[i, 0], out[i, 1], out[i, 3] = log_odds_of_top(logits[i], scratch)
            out[i, 2] = best


@kernel
def _gather(logits: Logits, sample_sums: Float64, kind: int, first: int, out: Float64) -> None:
    """Write the scores of classes first, first + 1, … into the rows of `out`: 16 samples at a time fill cache lines."""
    tile = np.empty((16, out.shape[0]))
    for low in range(0, logits.shape[0], 16):
        high = min(low + 16, logits.shape[0])
        for i in range(low, high):
            row = logits[i, first : first + out.shape[0]]
            scores = tile[i - low]
            top, total = sample_sums[i, 0], sample_sums[i, 1]
            if kind == SOFTMAX:
                for c in range(out.shape[0]):
                    score = exp(max(np.float64(row[c]) - top, MASKED)) * total
                    scores[c] = score if row[c] > -np.inf else -1.0  # one that underflows is 0, and still a score
            else:
                for c in range(out.shape[0]):
                    difference = np.float64(row[c]) - top
                    scores[c] = log_odds_below(difference, exp(max(difference, MASKED)), total)
                best = int(sample_sums[i, 2]) - first
                if best >= 0 and best < out.shape[0]:
                    scores[best] = sample_sums[i, 3]
        for c in range(out.shape[0]):
            for i in range(low, high):
                out[c, i] = tile[i - low, c]
