"""What logits alone tell about a window of inputs: how far it has drifted, and how often the model is right on it.

Everything here needs labels when it is fitted, on validation rows, and none when it is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal import checks
from driftcal.errors import InputError, UnknownName
from driftcal.numerics import exp, kernel, log, row_max
from driftcal.rows import Rows, map_blocks
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights

#: What one row tells, by name: each falls as the model grows unsure, and ignores a constant added to the row.
STATISTICS: dict[str, str] = {
    "confidence": "the largest probability",
    "certainty": "minus the entropy of the probabilities",
    "margin": "the largest logit minus the second",
    "energy": "log-sum-exp of the logits above their mean",
}


def row_statistics(logits: AnyArray, temperature: float = 1.0) -> Float64:
    """(n, 4): the `STATISTICS` of softmax(z / T) for every row, in their order; margin and energy of z itself.

    >>> import numpy as np
    >>> row_statistics(np.log([[0.9, 0.1], [0.5, 0.5]])).round(3)
    array([[ 0.9  , -0.325,  2.197,  1.204],
           [ 0.5  , -0.693,  0.   ,  0.693]])
    """
    scores, _ = checks.as_logits(logits)
    scale = 1 / temperature
    return map_blocks(lambda block, out: _row_statistics(block, scale, out), scores, len(STATISTICS))


def row_statistic(name: str, logits: AnyArray, temperature: float = 1.0) -> Float64:
    """One of the `STATISTICS` by name, (n,)."""
    return row_statistics(logits, temperature)[:, _column(name)]


def _column(name: str) -> int:
    if name not in STATISTICS:
        raise UnknownName.of("statistic", name, STATISTICS)
    return list(STATISTICS).index(name)


@kernel
def _row_statistics(logits: Logits, scale: float, out: Float64) -> None:
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        second = -np.inf
        seen_top = False
        total = 0.0
        weighted = 0.0
        plain = 0.0
        mean = 0.0
        finite = 0
        for c in range(row.shape[0]):
            value = np.float64(row[c])
            if value == -np.inf:
                continue
            d = value - top
            if value == top and not seen_top:
                seen_top = True
            else:
                second = max(second, value)
            e = exp(max(scale * d, -745.0))
            total += e
            weighted += e * max(scale * d, -745.0)
            plain += exp(max(d, -745.0))
            mean += d
            finite += 1
        out[i, 0] = 1.0 / total
        out[i, 1] = weighted / total - log(total)
        # the only class that is not masked has no second: as sure as a finite number can say
        out[i, 2] = top - second if finite > 1 else 745.0
        out[i, 3] = log(plain) - mean / finite if finite > 1 else 745.0


def rung_statistic(name: str, rows: Rows, temperature: float = 1.0) -> float:
    """The weighted mean of a statistic over labelled rows: what a rung of the ladder looks like without labels."""
    column, scale = _column(name), 1 / temperature

    def add(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
        found = np.empty((len(logits), len(STATISTICS)))
        _row_statistics(logits, scale, found)
        sums[0] += weights @ found[:, column]

    return float(rows.sums(add, 1)[0] / rows.weight)


def window_statistic(name: str, logits: AnyArray, temperature: float = 1.0) -> float:
    """The mean of a statistic over a window of unlabelled logits."""
    return float(_window(row_statistic(name, logits, temperature)).mean())


def row_correct(name: str, rows: Rows, temperature: float = 1.0) -> tuple[Float64, Array, Float64]:
    """A statistic of every labelled row, whether the model gets it right, and the row's weight."""
    column, scale = _column(name), 1 / temperature

    def write(logits: Logits, labels: Labels, weights: Weights, out: Float64) -> None:
        found = np.empty((len(logits), len(STATISTICS)))
        _row_statistics(logits, scale, found)
        out[:, 0], out[:, 1], out[:, 2] = found[:, column], logits.argmax(axis=1) == labels, weights

    table = rows.each(write, 3)
    return table[:, 0], table[:, 1] > 0, table[:, 2]


def atc_threshold(scores: AnyArray, correct: AnyArray, weights: AnyArray = None) -> float:
    """The score that as many validation rows lie below as are wrong: average thresholded confidence.

    Garg et al. 2022, section 4. `scores` rise with certainty (confidence, or minus the entropy), `correct` says which
    rows the model gets right.

    >>> atc_threshold([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.7
    """
    values = np.asarray(scores, np.float64)
    right = np.asarray(correct, bool)
    mass = np.ones(values.shape) if weights is None else np.asarray(weights, np.float64)
    if values.ndim != 1 or values.shape != right.shape or values.shape != mass.shape or not mass.sum() > 0:
        raise InputError(
            f"scores and correct must hold one entry per validation row; their shapes are {values.shape} and {right.shape}. "
            "Pass the confidence of each row and whether the model got it right."
        )
    values, right, mass = values[mass > 0], right[mass > 0], mass[mass > 0]
    order = np.argsort(values)
    reached = np.cumsum(mass[order])
    wrong = mass[~right].sum()
    # rows at or above the threshold count as right; none at all where all are wrong
    place = int(np.searchsorted(reached, wrong + 1e-9 * reached[-1], side="right"))
    return float(values[order[place]]) if place < len(values) else float(np.nextafter(values.max(), np.inf))


def atc_accuracy(scores: AnyArray, threshold: float) -> float:
    """The estimated accuracy of unlabelled rows: the share whose score reaches the threshold.

    >>> atc_accuracy([0.9, 0.75, 0.5], 0.7)  # doctest: +ELLIPSIS
    0.666...
    """
    values = _window(scores)
    return float(np.mean(values >= threshold))


def doc_accuracy(scores: AnyArray, clean_score: float, clean_accuracy: float) -> float:
    """Clean accuracy minus what the mean confidence lost: difference of confidences. Guillory et al. 2021, section 3.

    >>> round(doc_accuracy([0.5, 0.7], clean_score=0.8, clean_accuracy=0.9), 3)
    0.7
    """
    return float(np.clip(clean_accuracy - (clean_score - _window(scores).mean()), 0, 1))


def mean_confidence(probabilities: AnyArray) -> float:
    """The mean of the largest probability of each row: what a calibrated model says about its own accuracy.

    >>> round(mean_confidence([[0.9, 0.1], [0.3, 0.7]]), 3)
    0.8
    """
    return float(checks.as_probabilities(probabilities).max(axis=1).mean())


def _window(scores: AnyArray) -> Float64:
    values: Float64 = np.asarray(scores, np.float64).reshape(-1)
    if not len(values):
        raise InputError("a window must hold at least one row; it is empty. Wait for the first inputs.")
    return values


@dataclass(frozen=True)
class LadderScale:
    """A ruler for drift: the mean of a statistic on each rung of a ladder, the clean one first.

    A statistic need not fall from rung to rung, so the ruler reads its running minimum: `position` of a window is where
    its mean lies between the rungs, 0 for clean rows and below, L - 1 for the last rung and beyond.

    >>> scale = LadderScale.of([0.97, 0.87, 0.89, 0.60])
    >>> [round(scale.position(value), 2) for value in (0.99, 0.92, 0.5)]
    [0.0, 0.75, 3.0]
    >>> scale.position(0.87)  # 0.87 and 0.89 are one step of the ruler: its middle
    1.5
    """

    minima: tuple[float, ...]

    @classmethod
    def of(cls, means: AnyArray) -> LadderScale:
        """The ruler for the rungs' mean statistics."""
        values = np.asarray(means, np.float64).reshape(-1)
        if not len(values) or not np.isfinite(values).all():
            raise InputError(
                f"means must hold one finite number per rung; they are {values}. Fit on at least one rung."
            )
        return cls(tuple(np.minimum.accumulate(values).tolist()))

    def position(self, value: float) -> float:
        """Where a window with this mean statistic stands, in rungs."""
        falls = np.asarray(self.minima)
        if not math.isfinite(value):
            raise InputError(f"a window's statistic must be finite; it is {value}. Does a row hold NaN?")
        if value > falls[0]:
            return 0.0
        # a flat stretch of the ruler is one place: the middle of the rungs on it
        steps, first, counts = np.unique(-falls, return_index=True, return_counts=True)
        places = first + (counts - 1) / 2
        return float(np.interp(-value, steps, places))

    def window_position(self, scores: AnyArray) -> float:
        """The position of a window from the statistic of each of its rows."""
        return self.position(float(_window(scores).mean()))


def between(values: AnyArray, position: float) -> float:
    """A quantity known on every rung, read at a position between them by straight lines.

    >>> between([1.0, 2.0, 4.0], 1.5)
    3.0
    """
    known: Array = np.asarray(values, np.float64)
    return float(np.interp(position, np.arange(len(known)), known))
