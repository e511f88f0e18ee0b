"""All metrics for one vector of weights: the estimate and every bootstrap replicate are computed here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.metrics.bins import bin_edges
from driftcal.metrics.bootstrap import for_each_replicate_range, resample_weights, uniforms
from driftcal.metrics.sample_scores import WORST_NLL, SampleScores
from driftcal.metrics.smooth_ece import GRID, add_to_grid, fixed_points
from driftcal.metrics.sorted_samples import (
    CONFIDENCE_SUM,
    OUTCOME_SUM,
    WEIGHT_SUM,
    SortedSamples,
    debiased_squared_error,
    equal_mass_error,
    ks_error,
    prefix_sums,
    selective_scores,
    sweep_error,
)
from driftcal.types import Array, Float64, Weights

#: The metrics of :class:`AllMetrics` in their order, and the range of each.
RANGES: dict[str, tuple[float, float]] = {
    "accuracy": (0, 1),
    "nll": (0, math.inf),
    "brier": (0, 2),
    "entropy": (0, math.inf),
    "calibration_gap": (-1, 1),
    "ece": (0, 1),
    "mce": (0, 1),
    "equal_mass_ece": (0, 1),
    "sweep_ece": (0, 1),
    "debiased_ece": (0, 1),
    "smooth_ece": (0, 1),
    "ks": (0, 1),
    "reliability": (0, 1),
    "resolution": (0, 1),
    "uncertainty": (0, 0.25),
    "aurc": (0, 1),
    "error_auroc": (0, 1),
}
NAMES = tuple(RANGES)
# Positions in an array of all metrics. The first four are means over samples, the last two need the top confidence.
(
    _ACCURACY, _NLL, _BRIER, _ENTROPY, _CALIBRATION_GAP, _ECE, _MCE, _EQUAL_MASS, _SWEEP, _DEBIASED, _SMOOTH, _KS,
    _RELIABILITY, _RESOLUTION, _UNCERTAINTY, _AURC, _ERROR_AUROC,
) = range(len(NAMES))  # fmt: skip
#: Metrics that are 0 for a calibrated model, but above 0 in a finite sample of it.
CALIBRATION_ERRORS = (
    "ece", "mce", "equal_mass_ece", "sweep_ece", "debiased_ece", "smooth_ece", "ks", "reliability",
)  # fmt: skip
#: Number of equal-mass bins of the debiased error; it does not depend on the bins of the ECE.
DEBIASED_BINS = 15
#: Grids of the smooth error that are transformed together.
_BATCH = 64


@dataclass(frozen=True, eq=False)
class AllMetrics:
    """Samples sorted as the metrics need them: for any weights, all metrics are a few passes over n numbers."""

    samples: SampleScores
    n_bins: int
    by_confidence: SortedSamples
    by_top_confidence: SortedSamples
    bin_ends: Array
    sample_values: Float64
    residuals: Float64

    @classmethod
    def of(cls, samples: SampleScores, n_bins: int) -> AllMetrics:
        """Sort the samples once for all weights."""
        by_confidence = SortedSamples.by_confidence(samples)
        by_top_confidence = SortedSamples.by_top_confidence(samples) if samples.positive_class else by_confidence
        bin_ends = np.searchsorted(by_confidence.confidence, bin_edges(n_bins)[1:], side="right")
        bin_ends[-1] = len(samples)
        values = np.stack([samples.correct, np.minimum(samples.nll, WORST_NLL), samples.brier, samples.entropy])
        residuals = samples.confidence - samples.outcome
        return cls(samples, n_bins, by_confidence, by_top_confidence, bin_ends, values, residuals)

    def values(self, weights: Weights) -> Float64:
        """All metrics for these weights, in the order of `NAMES`."""
        values, grid = np.empty(len(NAMES)), np.zeros(GRID + 1)
        self._compute(weights, values, grid)
        values[_SMOOTH] = fixed_points(grid[None])[0]
        return values

    def replicates(self, images: Array, n_resamples: int, seed: int) -> Float64:
        """(n_resamples, metrics): all metrics of each bootstrap replicate."""
        values = np.empty((n_resamples, len(NAMES)))

        def run(first: int, last: int) -> None:
            weights, counts = np.empty(len(images)), np.empty(int(images.max()) + 1)
            for low in range(first, last, _BATCH):
                grids = np.zeros((min(_BATCH, last - low), GRID + 1))
                for r in range(len(grids)):
                    resample_weights(seed, low + r, images, self.samples.weights, counts, weights)
                    self._compute(weights, values[low + r], grids[r])
                values[low : low + len(grids), _SMOOTH] = fixed_points(grids)

        for_each_replicate_range(run, n_resamples)
        return values

    def null_replicates(self, n_resamples: int, seed: int) -> Float64:
        """(n_resamples, metrics): the calibration errors of simulated outcomes of a calibrated model.

        An outcome is 1 with a probability equal to the confidence.
        """
        values = np.zeros((n_resamples, len(NAMES)))
        ordered = self.by_confidence
        weights = self.samples.weights[ordered.order]

        def run(first: int, last: int) -> None:
            draws, sums = np.empty(len(weights)), np.empty((3, len(weights) + 1))
            order = np.arange(len(weights))
            for low in range(first, last, _BATCH):
                grids = np.zeros((min(_BATCH, last - low), GRID + 1))
                for r in range(len(grids)):
                    uniforms(seed, low + r, draws)
                    outcome = (draws < ordered.confidence).astype(np.float64)
                    prefix_sums(order, ordered.confidence, outcome, weights, sums)
                    _from_prefix_sums(
                        ordered.confidence, sums, self.bin_ends, ordered.whole_weights, ordered.samples_per_weight,
                        values[low + r],
                    )  # fmt: skip
                    add_to_grid(ordered.confidence, ordered.confidence - outcome, weights, grids[r])
                values[low : low + len(grids), _SMOOTH] = fixed_points(grids)

        for_each_replicate_range(run, n_resamples)
        return values

    def _compute(self, weights: Weights, values: Float64, grid: Float64) -> None:
        """Write all metrics but the smooth ECE into `values`, and the grid of the smooth ECE into `grid`."""
        ordered, by_top = self.by_confidence, self.by_top_confidence
        sums = np.empty((3, len(weights) + 1))
        prefix_sums(ordered.order, ordered.confidence, ordered.outcome, weights, sums)
        values[_ACCURACY : _ENTROPY + 1] = self.sample_values @ weights / sums[WEIGHT_SUM, -1]
        _from_prefix_sums(
            ordered.confidence, sums, self.bin_ends, ordered.whole_weights, ordered.samples_per_weight, values
        )
        if self.samples.positive_class:
            prefix_sums(by_top.order, by_top.confidence, by_top.outcome, weights, sums)
        values[_AURC], values[_ERROR_AUROC] = selective_scores(by_top.confidence, sums)
        add_to_grid(self.samples.confidence, self.residuals, weights, grid)


@kernel
def _from_prefix_sums(
    confidence: Float64, sums: Float64, bin_ends: Array, whole_weights: bool, samples_per_weight: float, values: Float64
) -> None:
    """Write the metrics that are computed from prefix sums in order of confidence.

    An equal-width bin is a range of that order; `bin_ends` holds the ends of the ranges.
    """
    n = confidence.shape[0]
    mass = sums[WEIGHT_SUM, n]
    base_rate = sums[OUTCOME_SUM, n] / mass
    ece, mce, reliability, resolution = 0.0, 0.0, 0.0, 0.0
    start = 0
    for end in bin_ends:
        w = sums[WEIGHT_SUM, end] - sums[WEIGHT_SUM, start]
        if w > 0:
            outcome = sums[OUTCOME_SUM, end] - sums[OUTCOME_SUM, start]
            residual = (sums[CONFIDENCE_SUM, end] - sums[CONFIDENCE_SUM, start]) - outcome
            ece += abs(residual)
            mce = max(mce, abs(residual) / w)
            reliability += residual * residual / w
            resolution += w * (outcome / w - base_rate) ** 2
        start = end
    values[_CALIBRATION_GAP] = (sums[CONFIDENCE_SUM, n] - sums[OUTCOME_SUM, n]) / mass
    values[_ECE] = ece / mass
    values[_MCE] = mce
    values[_EQUAL_MASS] = equal_mass_error(confidence, sums, bin_ends.shape[0], whole_weights)
    values[_SWEEP] = sweep_error(confidence, sums, whole_weights)[0]
    values[_DEBIASED] = math.sqrt(
        debiased_squared_error(confidence, sums, DEBIASED_BINS, whole_weights, samples_per_weight)
    )
    values[_KS] = ks_error(confidence, sums)
    values[_RELIABILITY] = reliability / mass
    values[_RESOLUTION] = resolution / mass
    values[_UNCERTAINTY] = base_rate * (1 - base_rate)
