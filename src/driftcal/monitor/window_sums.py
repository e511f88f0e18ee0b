"""What a window of traffic leaves behind: whole numbers that add exactly, in any order and over any workers.

A number in [0, 1] is kept as a multiple of 2⁻³². Integers add without rounding, so merged sums are those of one who saw
every row; 2³¹ rows fit a window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.drift.estimators import DRIFT_STATISTICS
from driftcal.types import Array, Float64, Labels

UNIT = 2.0**32
BINS = 15
#: Bets of the sequential test: how much is put on (outcome − confidence), either way.
STAKES = (1 / 32, 1 / 8, 1 / 2, -1 / 32, -1 / 8, -1 / 2)
#: Bands of confidence that are bet on apart; the first bet is on all rows.
BANDS = ((0.0, 1.0), (0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.0))

_GAUGES = slice(2, 2 + len(DRIFT_STATISTICS))
_SQUARES = slice(_GAUGES.stop, _GAUGES.stop + len(DRIFT_STATISTICS))
_LABELLED, _CORRECT = _SQUARES.stop, _SQUARES.stop + 1
_BIN_ROWS = slice(_CORRECT + 1, _CORRECT + 1 + BINS)
_BIN_CONFIDENCE = slice(_BIN_ROWS.stop, _BIN_ROWS.stop + BINS)
_BIN_CORRECT = slice(_BIN_CONFIDENCE.stop, _BIN_CONFIDENCE.stop + BINS)
_BETS = slice(_BIN_CORRECT.stop, _BIN_CORRECT.stop + len(STAKES) * len(BANDS))
_CLASSES = _BETS.stop


def width(n_classes: int) -> int:
    """How many whole numbers a window is."""
    return _CLASSES + n_classes


def fixed(values: Float64) -> Array:
    """Numbers as multiples of 2⁻³²."""
    whole: Array = np.rint(values * UNIT).astype(np.int64)
    return whole


def sums_of_rows(gauges: Float64, predicted: Labels, n_classes: int, *, low: float) -> Array:
    """The sums of unlabelled rows from their gauges and predicted classes; `low` is the least confidence that is none."""
    sums = np.zeros(width(n_classes), np.int64)
    sums[0] = len(gauges)
    sums[1] = int((gauges[:, 0] < low).sum())
    sums[_GAUGES] = fixed(gauges).sum(axis=0)
    sums[_SQUARES] = fixed(gauges**2).sum(axis=0)
    sums[_CLASSES:] = np.bincount(predicted, minlength=n_classes)
    return sums


def sums_of_labels(confidence: Array, correct: Array, n_classes: int, *, tolerance: float) -> Array:
    """The sums of labels: fixed-point confidence of rows, and whether the prediction was right."""
    sums = np.zeros(width(n_classes), np.int64)
    right, stated = correct.astype(np.int64), confidence / UNIT
    bins = np.clip(np.ceil(stated * BINS).astype(np.int64) - 1, 0, BINS - 1)
    sums[_LABELLED], sums[_CORRECT] = len(right), right.sum()
    for place, weights in ((_BIN_ROWS, np.ones_like(right)), (_BIN_CONFIDENCE, confidence), (_BIN_CORRECT, right)):
        np.add.at(sums[place], bins, weights)
    sums[_BETS] = _bets(stated, right - stated, tolerance).reshape(-1)
    return sums


def _bets(stated: Float64, surprise: Float64, tolerance: float) -> Array:
    """(bands, stakes): log of what each bet's money is multiplied by, rounded down so that no rounding ever wins."""
    won = np.empty((len(BANDS), len(STAKES)), np.int64)
    logs = [np.floor(np.log1p(s * (surprise - math.copysign(tolerance, s))) * UNIT).astype(np.int64) for s in STAKES]
    for b, (begin, end) in enumerate(BANDS):
        inside = (stated > begin) & (stated <= end)
        won[b] = [log[inside].sum() for log in logs]
    return won


@dataclass(frozen=True, eq=False)
class Sums:
    """The numbers of one window, or of several together, read by name."""

    values: Array

    @property
    def rows(self) -> int:
        """Rows seen, with or without a label."""
        return int(self.values[0])

    @property
    def low_share(self) -> float:
        """Share of rows with low confidence."""
        return float(self.values[1] / self.rows)

    @property
    def means(self) -> Float64:
        """Mean gauges, in the order of `DRIFT_STATISTICS`."""
        means: Float64 = self.values[_GAUGES] / UNIT / self.rows
        return means

    @property
    def errors(self) -> Float64:
        """Standard errors of the mean gauges."""
        variance = np.maximum(self.values[_SQUARES] / UNIT / self.rows - self.means**2, 0)
        errors: Float64 = np.sqrt(variance / max(1, self.rows - 1))
        return errors

    @property
    def shares(self) -> Float64:
        """Share of every class among the predictions."""
        shares: Float64 = self.values[_CLASSES:] / self.rows
        return shares

    @property
    def labelled(self) -> int:
        """Rows whose label has come."""
        return int(self.values[_LABELLED])

    @property
    def correct(self) -> int:
        """Labelled rows that were predicted right."""
        return int(self.values[_CORRECT])

    @property
    def bins(self) -> tuple[Array, Float64, Array]:
        """Labelled rows, sum of confidence and rows predicted right, per bin of confidence."""
        values = self.values
        return values[_BIN_ROWS], values[_BIN_CONFIDENCE] / UNIT, values[_BIN_CORRECT]

    @property
    def bets(self) -> Array:
        """Fixed-point log money of every bet."""
        bets: Array = self.values[_BETS]
        return bets
