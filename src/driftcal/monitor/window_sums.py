"""The sums of a window: whole numbers that add exactly, in any order and over any number of workers.

A number in [0, 1] is stored as a multiple of 2⁻³². So merged sums equal those of one process that received every
sample. A window may hold 2³¹ samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.drift.estimators import CALIBRATED_CONFIDENCE, DRIFT_STATISTICS
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.monitor.fixed_point import UNIT, to_fixed_point
from driftcal.monitor.sequential_test import N_BETS, log_bets
from driftcal.types import Array, Float64, Labels

#: Bins of the ECE.
N_BINS = 15
#: Samples that a window may hold.
_MAX_SAMPLES = 1 << 31

# The index of each sum: the counts of samples and of low confidences, the drift statistics and their squares, then all
# sums that need labels, then the counts of the predicted classes.
#: The index of the number of samples.
N_SAMPLES = 0
_N_LOW_CONFIDENCE = 1
_STATISTICS = slice(2, 2 + len(DRIFT_STATISTICS))
_SQUARES = slice(_STATISTICS.stop, _STATISTICS.stop + len(DRIFT_STATISTICS))
_LABELLED, _CORRECT = _SQUARES.stop, _SQUARES.stop + 1
_BIN_COUNT = slice(_CORRECT + 1, _CORRECT + 1 + N_BINS)
_BIN_CONFIDENCE = slice(_BIN_COUNT.stop, _BIN_COUNT.stop + N_BINS)
_BIN_CORRECT = slice(_BIN_CONFIDENCE.stop, _BIN_CONFIDENCE.stop + N_BINS)
_BETS = slice(_BIN_CORRECT.stop, _BIN_CORRECT.stop + N_BETS)
_CLASSES = _BETS.stop


def n_sums(n_classes: int) -> int:
    """The number of sums of a window."""
    return _CLASSES + n_classes


def sums_of_samples(statistics: Float64, predicted: Labels, n_classes: int, *, low_confidence: float) -> Array:
    """The sums of unlabelled samples, from their drift statistics and predicted classes."""
    sums = np.zeros(n_sums(n_classes), np.int64)
    sums[N_SAMPLES] = len(statistics)
    sums[_N_LOW_CONFIDENCE] = int((statistics[:, CALIBRATED_CONFIDENCE] < low_confidence).sum())
    sums[_STATISTICS] = to_fixed_point(statistics).sum(axis=0)
    sums[_SQUARES] = to_fixed_point(statistics**2).sum(axis=0)
    sums[_CLASSES:] = np.bincount(predicted, minlength=n_classes)
    return sums


def sums_of_labels(confidence: Array, correct: Array, n_classes: int, *, tolerance: float) -> Array:
    """The sums of labelled samples, from their fixed-point confidence and whether each prediction is correct."""
    sums = np.zeros(n_sums(n_classes), np.int64)
    is_correct, probability = correct.astype(np.int64), confidence / UNIT
    bins = bin_indices(probability, bin_edges(N_BINS))
    sums[_LABELLED], sums[_CORRECT] = len(is_correct), is_correct.sum()
    parts = ((_BIN_COUNT, np.ones_like(is_correct)), (_BIN_CONFIDENCE, confidence), (_BIN_CORRECT, is_correct))
    for part, values in parts:
        np.add.at(sums[part], bins, values)
    sums[_BETS] = log_bets(probability, is_correct, tolerance)
    return sums


@dataclass(frozen=True, eq=False)
class LabelledBins:
    """Labelled samples, their summed confidence and their correct predictions, per bin of confidence."""

    count: Array
    confidence: Float64
    correct: Array


@dataclass(frozen=True, eq=False)
class WindowSums:
    """The sums of one window, or of several together, by name."""

    values: Array

    @property
    def n_samples(self) -> int:
        """Samples, with or without a label."""
        return int(self.values[N_SAMPLES])

    @property
    def low_confidence_share(self) -> float:
        """The share of samples with low confidence."""
        return float(self.values[_N_LOW_CONFIDENCE] / self.n_samples)

    @property
    def means(self) -> Float64:
        """Mean drift statistics, in the order of `DRIFT_STATISTICS`."""
        means: Float64 = self.values[_STATISTICS] / UNIT / self.n_samples
        return means

    @property
    def standard_errors(self) -> Float64:
        """Standard errors of the means."""
        variance = np.maximum(self.values[_SQUARES] / UNIT / self.n_samples - self.means**2, 0)
        errors: Float64 = np.sqrt(variance / max(1, self.n_samples - 1))
        return errors

    @property
    def class_shares(self) -> Float64:
        """The share of each class among the predictions."""
        shares: Float64 = self.values[_CLASSES:] / self.n_samples
        return shares

    @property
    def n_labelled(self) -> int:
        """Samples with a label."""
        return int(self.values[_LABELLED])

    @property
    def n_correct(self) -> int:
        """Labelled samples whose prediction is correct."""
        return int(self.values[_CORRECT])

    @property
    def bins(self) -> LabelledBins:
        """The bins of the ECE."""
        return LabelledBins(self.values[_BIN_COUNT], self.values[_BIN_CONFIDENCE] / UNIT, self.values[_BIN_CORRECT])

    @property
    def log_bets(self) -> Array:
        """The fixed-point log capital of each bet of the sequential test."""
        bets: Array = self.values[_BETS]
        return bets


def are_possible(sums: Array) -> bool:
    """Whether rows of sums can be those of windows: no negative count, and no part larger than the whole."""
    counts = np.delete(sums, np.r_[_BETS], axis=1)
    samples, labelled, correct = sums[:, N_SAMPLES], sums[:, _LABELLED], sums[:, _CORRECT]
    in_bins, correct_in_bins = sums[:, _BIN_COUNT], sums[:, _BIN_CORRECT]
    return bool(
        (counts >= 0).all()
        and (samples <= _MAX_SAMPLES).all()
        and (sums[:, _N_LOW_CONFIDENCE] <= samples).all()
        and (sums[:, _STATISTICS] <= samples[:, None] * UNIT).all()
        and (sums[:, _SQUARES] <= samples[:, None] * UNIT).all()
        and (sums[:, _CLASSES:] <= samples[:, None]).all()
        and (labelled <= samples).all()
        and (correct <= labelled).all()
        and (in_bins <= labelled[:, None]).all()
        and (correct_in_bins <= in_bins).all()
        and (sums[:, _BIN_CONFIDENCE] <= in_bins * UNIT).all()
    )
