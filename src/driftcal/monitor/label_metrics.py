"""Accuracy and calibration error of the labelled samples of a window, from its sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.metrics.intervals import bootstrap_interval, wilson_interval
from driftcal.monitor.window_sums import WindowSums

#: Replicates of the ECE. The ends of its interval are then stable to about a hundredth of its width.
_N_RESAMPLES = 1000


@dataclass(frozen=True)
class LabelMetrics:
    """Accuracy with Wilson's interval, and ECE (15 bins) with its basic bootstrap interval."""

    n_samples: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    ece: float
    ece_interval: tuple[float, float]

    @classmethod
    def of(cls, sums: WindowSums) -> LabelMetrics | None:
        """The metrics of the labelled samples; None if there are none.

        ECE = Σ_b |correct_b − confidence_b| / n. A replicate redraws the number of correct predictions of each bin. The
        interval begins at 0 if the ECE is within the usual range of a calibrated model: there a bin redraws as many as its
        confidence says.
        """
        n = sums.n_labelled
        if not n:
            return None
        bins = sums.bins
        filled = bins.count > 0
        count, confidence, correct = bins.count[filled], bins.confidence[filled], bins.correct[filled]
        ece = float(np.abs(correct - confidence).sum() / n)
        rng = np.random.default_rng(0)  # the same labels give the same interval
        redrawn = rng.binomial(count, (correct + 0.5) / (count + 1), size=(_N_RESAMPLES, len(count)))
        calibrated = rng.binomial(count, np.clip(confidence / count, 0, 1), size=redrawn.shape)
        interval = bootstrap_interval(
            ece,
            np.abs(redrawn - confidence).sum(axis=1) / n,
            bounds=(0, 1),
            null_replicates=np.abs(calibrated - confidence).sum(axis=1) / n,
        )
        accuracy = sums.n_correct / n
        low, high = wilson_interval(np.array([accuracy]), np.array([float(n)]))
        return cls(n, accuracy, (float(low[0]), float(high[0])), ece, (interval.low, interval.high))
