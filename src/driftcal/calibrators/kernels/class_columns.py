"""All scores of one class side by side: what per-class fits with sorting or many iterations need.

Groups of classes are gathered one after the other into one buffer, so that memory stays bounded and a class' scores stay
in a core's cache while its fit works on them.
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

#: Scores gathered at once: at least 32 MB (fresh memory is dearer than another pass), at most 256 MB of float64.
_LEAST, _MOST = 1 << 22, 1 << 25
_PASSES = 8
#: Classes that a thread takes at a time: few enough to share evenly, enough to make handing over cheap.
_SHARE = 8

SOFTMAX, LOG_ODDS = 0, 1


@dataclass(frozen=True)
class Column:
    """One class: its scores over all rows of positive weight, in a buffer that may be changed but not kept."""

    number: int
    scores: Float64
    labels: Labels
    weights: Weights
    even: bool  # whether all weights are the same


def for_each_column(rows: LabelledLogits, kind: int, function: Callable[[Column], T]) -> tuple[list[T], int]:
    """``function(column)`` for every class, on all cores; the answers in order of classes, and the passes taken.

    `kind` says which scores: SOFTMAX, or LOG_ODDS of one class against the rest. A masked class' score is -1 or MASKED.
    """
    budget = min(max(rows.n * rows.n_classes // _PASSES, _LEAST), _MOST)
    step = max(1, min(rows.n_classes, budget // rows.n))
    buffer = np.empty((step, rows.n))
    labels, weights = np.empty(rows.n, np.int64), np.empty(rows.n)
    of_row = rows.map_samples(_row_sums, 4, kind)
    answers: list[T] = []
    passes = 1
    for first in range(0, rows.n_classes, step):
        group = buffer[: rows.n_classes - first]

        def gather(logits: Logits, y: Labels, w: Weights, start: int, group: Any = group, first: int = first) -> None:
            stop = start + len(y)
            labels[start:stop], weights[start:stop] = y, w
            _gather(logits, of_row[start:stop], kind, first, group[:, start:stop])

        rows.for_each_block(gather)
        passes += 1
        columns = list(_used_columns(first, group, labels, weights))
        shares = [columns[low : low + _SHARE] for low in range(0, len(columns), _SHARE)]
        for done in map_in_threads(lambda share: [function(column) for column in share], shares):
            answers += done
    return answers, passes


def _used_columns(first: int, group: Float64, labels: Labels, weights: Weights) -> Iterator[Column]:
    used = weights > 0
    all_used = bool(used.all())
    if not all_used:
        labels, weights = labels[used], weights[used]
    even = bool((weights == weights[0]).all())
    for k, scores in enumerate(group):
        yield Column(first + k, scores if all_used else scores[used], labels, weights, even)


@kernel
def _row_sums(logits: Logits, labels: Labels, weights: Weights, out: Float64, kind: int) -> None:
    """What every score of a row needs, once: its top logit, the sum of exponentials, the top class and its log-odds."""
    scratch = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        if kind == SOFTMAX:
            out[i, 0] = row_max(logits[i])
            out[i, 1] = 1.0 / softmax_row(logits[i], 1.0, scratch)
        else:
            best, out[i, 0], out[i, 1], out[i, 3] = log_odds_of_top(logits[i], scratch)
            out[i, 2] = best


@kernel
def _gather(logits: Logits, of_row: Float64, kind: int, first: int, out: Float64) -> None:
    """Write the scores of classes first, first + 1, … into the rows of `out`: 16 samples at a time fill cache lines."""
    tile = np.empty((16, out.shape[0]))
    for low in range(0, logits.shape[0], 16):
        high = min(low + 16, logits.shape[0])
        for i in range(low, high):
            row = logits[i, first : first + out.shape[0]]
            scores = tile[i - low]
            top, total = of_row[i, 0], of_row[i, 1]
            if kind == SOFTMAX:
                for c in range(out.shape[0]):
                    score = exp(max(np.float64(row[c]) - top, MASKED)) * total
                    scores[c] = score if row[c] > -np.inf else -1.0  # one that underflows is 0, and still a score
            else:
                for c in range(out.shape[0]):
                    difference = np.float64(row[c]) - top
                    scores[c] = log_odds_below(difference, exp(max(difference, MASKED)), total)
                best = int(of_row[i, 2]) - first
                if best >= 0 and best < out.shape[0]:
                    scores[best] = of_row[i, 3]
        for c in range(out.shape[0]):
            for i in range(low, high):
                out[c, i] = tile[i - low, c]
