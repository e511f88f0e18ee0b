"""Expectation consistency: a label-free estimate of a window's accuracy, and the temperature that agrees with it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.scaling.temperature import fit_nll
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import exp, kernel, log_softmax_kernel, row_max, softmax_kernel
from driftcal.drift.estimators import atc_accuracy, atc_threshold, doc_accuracy
from driftcal.drift.statistics import data_statistic, sample_statistic, statistic_and_correctness
from driftcal.types import Float64, Logits

#: A window's temperature stays within this factor of the clean one: accuracies at or below chance would ask for infinity.
WIDEST = 100.0


def consistent_temperature(logits: Logits, accuracy: float, near: float = 1.0) -> float:
    """The T with mean confidence of softmax(z / T) = `accuracy`, within a factor of `WIDEST` of `near`.

    Mean confidence falls as T rises, so there is one. Clarté et al. 2023, section 2.

    >>> import numpy as np
    >>> round(consistent_temperature(np.log([[0.9, 0.1], [0.1, 0.9]]), 0.75), 6)
    2.0
    """
    rows = validation.for_kernel(validation.as_logits(logits)[0])

    def surplus(log_t: float) -> float:
        return float(_mean_confidence(rows, math.exp(-log_t)) - accuracy)

    low, high = math.log(near / WIDEST), math.log(near * WIDEST)
    if surplus(low) <= 0:
        return math.exp(low)
    if surplus(high) >= 0:
        return math.exp(high)
    return math.exp(brentq(surplus, low, high, xtol=1e-10))


@kernel
def _mean_confidence(logits: Logits, scale: float) -> float:
    """Without threads and without the other statistics: a search asks for it a dozen times per window."""
    confidence = 0.0
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        total = 0.0
        for c in range(row.shape[0]):
            d = np.float64(row[c]) - top
            total += exp(max(scale * d, -745.0)) if d > -np.inf else 0.0
        confidence += 1.0 / total
    mean: float = confidence / logits.shape[0]
    return mean


class _Consistent(WindowedCalibrator):
    """Temperature scaling on clean rows, moved so that a window's mean confidence is its estimated accuracy."""

    temperature_: float

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    @abstractmethod
    def estimate(self, window: Logits) -> float:
        """The estimated accuracy of a window of unlabelled logits."""

    @abstractmethod
    def _learn(self, clean: LabelledLogits) -> None:
        """What the estimate needs to know of clean rows."""

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        beta, report = fit_nll(by_level[0], self.t_max)
        self.temperature_ = float(1 / beta)
        self._learn(by_level[0])
        return report

    def _adapted(self, window: Logits) -> Calibrator:
        return self._temperature(consistent_temperature(window, self.estimate(window), self.temperature_))

    def _static(self) -> Calibrator:
        return self._temperature(self.temperature_)

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1 / self.temperature_, out)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        log_softmax_kernel(logits, 1 / self.temperature_, out)


class AverageThresholdedConfidence(_Consistent):
    """ATC + EC: a window's accuracy is the share of rows whose certainty reaches a threshold, T follows from it.

    The threshold lets as many clean rows fail as the model gets wrong; certainty is minus the entropy at the clean
    temperature. Uses clean rows only and ignores the ladder. Garg et al. 2022; Clarté et al. 2023.
    """

    fitted = ("temperature_", "threshold_")

    def _learn(self, clean: LabelledLogits) -> None:
        scores, correct, weights = statistic_and_correctness("negative_entropy", clean, self.temperature_)
        self.threshold_ = atc_threshold(scores, correct, weights)

    def estimate(self, window: Logits) -> float:
        """The share of rows that reach the threshold."""
        return atc_accuracy(sample_statistic("negative_entropy", window, self.temperature_), self.threshold_)


class DifferenceOfConfidences(_Consistent):
    """DoC + EC: a window's accuracy is the clean one minus what the mean confidence lost, T follows from it.

    Uses clean rows only and ignores the ladder. Guillory et al. 2021; Clarté et al. 2023.
    """

    fitted = ("temperature_", "clean_confidence_", "clean_accuracy_")

    def _learn(self, clean: LabelledLogits) -> None:
        self.clean_confidence_ = float(data_statistic("confidence", clean, self.temperature_))
        self.clean_accuracy_ = float(clean.accuracy)

    def estimate(self, window: Logits) -> float:
        """Clean accuracy minus the fall of the mean confidence."""
        scores: Float64 = sample_statistic("confidence", window, self.temperature_)
        return doc_accuracy(scores, self.clean_confidence_, self.clean_accuracy_)


__all__ = ["AverageThresholdedConfidence", "DifferenceOfConfidences", "consistent_temperature"]
