"""The sums of a window: whole numbers that add exactly, in any order and over any number of workers.

A number in [0, 1] is stored as a multiple of 2⁻³². So merged sums equal those of one process that received every
sample. A window may hold 2³¹ samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.drift.estimators import CALIBRATED_CONFIDENCE, DRIFT_STATISTICS
from driftcal.drift.window_statistics import N_TEMPERATURES, SIGNED, WindowStatistics
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.monitor.fixed_point import UNIT, to_fixed_point
from driftcal.monitor.sequential_test import N_BETS, log_bets
from driftcal.types import Array, Float64, Labels

#: Bins of the ECE.
N_BINS = 15
#: The edges in the steps of the confidences: one that is an edge stays in the bin below it, as in `evaluate`.
_EDGES = to_fixed_point(bin_edges(N_BINS)) / UNIT
#: Samples that a window may hold.
_MAX_SAMPLES = 1 << 31

# The index of each sum: the counts of samples and of low confidences, the drift statistics and their squares, all sums
# that need labels, the counts of the predicted classes; then those that only some calibrators need, see `SumLayout`.
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


@dataclass(frozen=True, eq=False)
class SumLayout:
    """Which sums a window has.

    Parameters
    ----------
    n_classes : number of classes.
    statistics : statistics of a windowed calibrator that estimates the accuracy; None without one.
    threshold : the confidence from which on predictions are accepted; None without a threshold.
    """

    n_classes: int
    statistics: WindowStatistics | None = None
    threshold: float | None = None

    @property
    def classes(self) -> slice:
        """The counts of the predicted classes."""
        return slice(_CLASSES, _CLASSES + self.n_classes)

    @property
    def window_statistics(self) -> slice:
        """The statistics of the windowed calibrator without the count, which is `N_SAMPLES`."""
        start = self.classes.stop
        return slice(start, start if self.statistics is None else start + self.statistics.n_statistics - 1)

    @property
    def accepted(self) -> slice:
        """The count and the confidence of accepted predictions, and their confidence at each temperature."""
        start = self.window_statistics.stop
        if self.threshold is None:
            return slice(start, start)
        return slice(start, start + 2 + (0 if self.statistics is None else N_TEMPERATURES))

    @property
    def n_sums(self) -> int:
        """The number of sums of a window."""
        return int(self.accepted.stop)

    @property
    def units(self) -> Float64:
        """Steps from 0 to 1 of each window statistic: a statistic with larger values has larger steps, so sums fit into 64 bits."""
        return np.zeros(0) if self.statistics is None else UNIT / self.statistics.bounds[1:]


@dataclass(frozen=True, eq=False)
class MeasuredSamples:
    """What the sums need of samples: drift statistics (n, 4), predicted classes, window statistics (n, k)."""

    statistics: Float64
    predicted: Labels
    window_statistics: Float64 | None = None

    def part(self, chosen: Array) -> MeasuredSamples:
        """Some of the samples."""
        window_statistics = None if self.window_statistics is None else self.window_statistics[chosen]
        return MeasuredSamples(self.statistics[chosen], self.predicted[chosen], window_statistics)


def sums_of_samples(samples: MeasuredSamples, layout: SumLayout, *, low_confidence: float) -> Array:
    """The sums of unlabelled samples."""
    sums = np.zeros(layout.n_sums, np.int64)
    statistics, windowed = samples.statistics, layout.statistics
    confidence = statistics[:, CALIBRATED_CONFIDENCE]
    sums[N_SAMPLES] = len(statistics)
    sums[_N_LOW_CONFIDENCE] = int((confidence < low_confidence).sum())
    sums[_STATISTICS] = to_fixed_point(statistics).sum(axis=0)
    sums[_SQUARES] = to_fixed_point(statistics**2).sum(axis=0)
    sums[layout.classes] = np.bincount(samples.predicted, minlength=layout.n_classes)
    if windowed is not None and samples.window_statistics is not None:
        sums[layout.window_statistics] = to_fixed_point(samples.window_statistics[:, 1:], layout.units).sum(axis=0)
    if layout.threshold is not None:
        accepted = confidence >= layout.threshold
        values = [np.array([accepted.sum(), to_fixed_point(confidence[accepted]).sum()])]
        if windowed is not None and samples.window_statistics is not None:
            confidences = samples.window_statistics[accepted, windowed.confidence_columns]
            values.append(to_fixed_point(confidences).sum(axis=0))
        sums[layout.accepted] = np.concatenate(values)
    return sums


def sums_of_labels(confidence: Array, correct: Array, layout: SumLayout, *, tolerance: float) -> Array:
    """The sums of labelled samples, from their fixed-point confidence and whether each prediction is correct."""
    sums = np.zeros(layout.n_sums, np.int64)
    is_correct, probability = correct.astype(np.int64), confidence / UNIT
    bins = bin_indices(probability, _EDGES)
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
    layout: SumLayout

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
        shares: Float64 = self.class_counts / self.n_samples
        return shares

    @property
    def class_counts(self) -> Array:
        """The number of predictions of each class."""
        counts: Array = self.values[self.layout.classes]
        return counts

    @property
    def window_statistics(self) -> Float64:
        """(k,): the sums of the windowed calibrator's statistics, the count first."""
        sums = self.values[self.layout.window_statistics] / self.layout.units
        return np.concatenate([[float(self.n_samples)], sums])

    @property
    def n_accepted(self) -> int | None:
        """Accepted predictions; None without a threshold."""
        return None if self.layout.threshold is None else int(self.values[self.layout.accepted.start])

    @property
    def accepted_confidences(self) -> Float64:
        """The mean confidence of accepted predictions; then, with a windowed calibrator, that at each temperature."""
        sums = self.values[self.layout.accepted]
        confidences: Float64 = sums[1:] / UNIT / sums[0]
        return confidences

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


def are_possible(sums: Array, layout: SumLayout) -> bool:
    """Whether rows of sums can be those of windows: no negative count, and no part larger than the whole."""
    samples, labelled, correct = sums[:, N_SAMPLES], sums[:, _LABELLED], sums[:, _CORRECT]
    in_bins, correct_in_bins = sums[:, _BIN_COUNT], sums[:, _BIN_CORRECT]
    statistics, accepted = sums[:, layout.window_statistics], sums[:, layout.accepted]
    signed = (
        [] if layout.statistics is None else [layout.window_statistics.start + SIGNED - 1]
    )  # no column of the count
    counts = np.delete(sums, [*range(_BETS.start, _BETS.stop), *signed], axis=1)
    return bool(
        (counts >= 0).all()
        and (samples <= _MAX_SAMPLES).all()
        and (sums[:, _N_LOW_CONFIDENCE] <= samples).all()
        and (sums[:, _STATISTICS] <= samples[:, None] * UNIT).all()
        and (sums[:, _SQUARES] <= samples[:, None] * UNIT).all()
        and (sums[:, layout.classes] <= samples[:, None]).all()
        and (np.abs(statistics.astype(np.float64)) <= samples[:, None] * UNIT).all()
        and (accepted[:, :1] <= samples[:, None]).all()
        and (accepted[:, 1:] <= accepted[:, :1] * UNIT).all()
        and (labelled <= samples).all()
        and (correct <= labelled).all()
        and (in_bins <= labelled[:, None]).all()
        and (correct_in_bins <= in_bins).all()
        and (sums[:, _BIN_CONFIDENCE] <= in_bins * UNIT).all()
    )
