"""The rule of `method="auto"`: in domain about as well calibrated as TS, and the lowest error under shift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import CALIBRATORS
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.pipeline.tuning.candidates import TS
from driftcal.pipeline.tuning.cross_validation import N_BINS, ShiftedScores, Trial
from driftcal.types import Array, Float64

#: A candidate may lower the accuracy on clean samples by this much.
MAX_ACCURACY_LOSS = 0.02
#: Bootstrap resamples behind the admission bound and the standard error.
N_RESAMPLES = 200
#: The confidence of the one-sided bound of the in-domain difference to TS.
ADMISSION_CONFIDENCE = 0.9
#: The confidence of the one-sided bound behind "clearly lower".
CLEAR_CONFIDENCE = 0.95
#: Windows are recommended if they lower the ECE by at least this much.
LEAST_WINDOW_GAIN = 0.01


@dataclass(frozen=True, eq=False)
class _Replicates:
    """The ECE in domain, and its mean under shift and over the levels, in each bootstrap replicate."""

    in_domain: Float64
    under_shift: Float64
    levels: Float64


class SelectionRule:
    """In domain no worse than TS by more than the tolerance, the lowest ECE under shift, the simplest near it.

    `cost_bound` is an upper bound of how much the in-domain ECE of a candidate exceeds that of TS. For candidates that
    are tuned on shifted samples it is the distance between their confidences and those of TS (`Trial.confidence_distance`). That
    needs no labels, so it has hardly any sampling error. The bootstrap bound has much of it, and admits the luckiest of
    many similar candidates. For all others it is the smaller one of this distance and the one-sided 90 % bound of the
    difference (paired bootstrap over images).

    Without shifted samples only the in-domain figures count, and their differences are mostly noise. There a candidate
    replaces TS only if its ECE is clearly lower and its NLL not higher (`is_clearly_better`).
    """

    def __init__(self, ts: Trial, tolerance: float, model_accuracy: float) -> None:
        self.ts, self.tolerance, self.model_accuracy = ts, tolerance, model_accuracy
        self._bootstrap = ImageBootstrap(len(ts.by_level[0]), N_RESAMPLES, N_BINS)
        self._position: Array = np.argsort(ts.images)  # of each image among the samples of a level
        self._replicates: dict[int, _Replicates] = {}

    def best(self, trials: Sequence[Trial]) -> Trial:
        """The choice among per-sample trials, which include TS."""
        admits = self._is_admitted if self.ts.has_shifted_samples else self._replaces_ts
        return self.simplest_near_lowest([trial for trial in trials if trial is self.ts or admits(trial)])

    def simplest_near_lowest(self, admitted: Sequence[Trial]) -> Trial:
        """The simplest of those within one standard error of the lowest ECE under shift; in domain if there is no shift."""
        lowest = min(admitted, key=lambda trial: trial.shift_ece)
        near = [t for t in admitted if t.shift_ece - lowest.shift_ece <= self._standard_error(t, lowest)]
        return min(near, key=_simplicity)

    def best_windowed(self, trials: Sequence[Trial]) -> Trial | None:
        """The lowest ECE under shift of those admitted in domain; the lowest ECE in domain if none is admitted."""
        admitted = [trial for trial in trials if trial.in_domain_ece <= self.ts.in_domain_ece + self.tolerance]
        if admitted:
            return min(admitted, key=lambda trial: trial.shift_ece)
        return min(trials, key=lambda trial: trial.in_domain_ece, default=None)

    def is_clearly_better(self, trial: Trial) -> bool:
        """Whether the ECE in domain is clearly lower than that of TS, and the NLL not higher.

        "Clearly": the one-sided 95 % bound of the difference (paired bootstrap over images) is below 0. The NLL needs no
        such margin: a candidate that predicts as well as TS has no higher one in half of all cases, and TS stays otherwise.
        """
        difference = self._of(trial).in_domain - self._of(self.ts).in_domain
        return trial.in_domain_ece - self.ts.in_domain_ece + _margin(difference) < 0 and trial.nll <= self.ts.nll

    def windows_gain(self, trial: Trial) -> bool:
        """Whether the mean ECE over the levels is clearly lower than that of TS, and by one percentage point or more."""
        difference = self._of(trial).levels - self._of(self.ts).levels
        gain = self.ts.level_ece - trial.level_ece
        return gain > max(_margin(difference), LEAST_WINDOW_GAIN)

    def cost_bound(self, trial: Trial) -> float:
        """How much the in-domain ECE of a candidate may exceed that of TS."""
        distance = trial.confidence_distance(self.ts)
        if trial.variant.tuned_on_shift and math.isfinite(distance):
            return distance
        margin = _margin(self._of(trial).in_domain - self._of(self.ts).in_domain, ADMISSION_CONFIDENCE)
        return min(trial.in_domain_ece - self.ts.in_domain_ece + margin, distance)

    def _is_admitted(self, trial: Trial) -> bool:
        return self._keeps_accuracy(trial) and self.cost_bound(trial) <= self.tolerance

    def _replaces_ts(self, trial: Trial) -> bool:
        return self._keeps_accuracy(trial) and self.is_clearly_better(trial)

    def _keeps_accuracy(self, trial: Trial) -> bool:
        return self.model_accuracy - trial.accuracy <= MAX_ACCURACY_LOSS

    def _standard_error(self, trial: Trial, other: Trial) -> float:
        return float((self._of(trial).under_shift - self._of(other).under_shift).std())

    def _of(self, trial: Trial) -> _Replicates:
        if id(trial) not in self._replicates:
            in_domain = self._bootstrap.ece(trial.by_level[0])
            levels = np.mean([self._bootstrap.ece(level) for level in trial.by_level[1:]] or [in_domain], axis=0)
            families = [self._ece_of_family(family) for family in trial.shifted]
            under_shift = np.mean(families, axis=0) if families else levels
            self._replicates[id(trial)] = _Replicates(in_domain, under_shift, levels)
        return self._replicates[id(trial)]

    def _ece_of_family(self, family: ShiftedScores) -> Float64:
        """The ECE of a family of shifts in each replicate; an image may occur in it several times, or not at all."""
        scores, n_images = family.scores, self._bootstrap.counts.shape[1]
        bins = bin_indices(scores.confidence, bin_edges(N_BINS))
        image_bins = self._position[family.images] * N_BINS + bins
        shape = n_images, N_BINS
        residuals = np.bincount(image_bins, scores.confidence - scores.outcome, n_images * N_BINS).reshape(shape)
        n_samples = self._bootstrap.counts @ np.bincount(self._position[family.images], minlength=n_images)
        sums: Float64 = np.abs(self._bootstrap.counts @ residuals).sum(axis=1)
        return sums / np.maximum(n_samples, 1)


def _margin(replicates: Float64, confidence: float = CLEAR_CONFIDENCE) -> float:
    """How far the upper bound of a difference lies above its estimate."""
    return float(np.quantile(replicates - replicates.mean(), confidence))


def _simplicity(trial: Trial) -> tuple[bool, int, float]:
    """Plain TS first, then the order of the registry with TS first, then the lowest error under shift."""
    order = ["ts", *(name for name in CALIBRATORS if name != "ts")]
    return trial.variant != TS, order.index(trial.variant.method), trial.shift_ece
