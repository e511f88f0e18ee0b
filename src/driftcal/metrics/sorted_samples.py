"""Metrics of samples in order of confidence: sorted once, then weighted again for each bootstrap replicate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.metrics.sample_scores import SampleScores
from driftcal.types import Array, Float64, Weights

#: Largest number of bins that the sweep tries: more bins would be narrower than any calibration error that matters.
MAX_SWEEP_BINS = 1000
#: Rows of the prefix sums.
WEIGHT_SUM, CONFIDENCE_SUM, OUTCOME_SUM = range(3)


@dataclass(frozen=True, eq=False)
class SortedSamples:
    """Confidence and outcome of each sample, sorted by confidence, and the order that sorts them.

    `whole_weights` is true if weights count repeated samples. `samples_per_weight` is the number of samples that a
    weight of 1 stands for: 1, or more if weights are shares, which sum to less than the number of samples.
    """

    order: Array
    confidence: Float64
    outcome: Float64
    whole_weights: bool
    samples_per_weight: float

    @classmethod
    def of(cls, confidence: Float64, outcome: Float64, weights: Weights) -> SortedSamples:
        """Sort samples by confidence."""
        order, total = np.argsort(confidence), float(weights.sum())
        whole_weights = (
            bool((weights == np.floor(weights)).all()) and total <= 2**53
        )  # whole numbers are exact up to here
        samples_per_weight = max(1.0, np.count_nonzero(weights) / total)
        return cls(order, confidence[order], outcome[order], whole_weights, samples_per_weight)

    @classmethod
    def by_confidence(cls, samples: SampleScores) -> SortedSamples:
        """Samples by their confidence, which may be the probability of class 1."""
        return cls.of(samples.confidence, samples.outcome, samples.weights)

    @classmethod
    def by_top_confidence(cls, samples: SampleScores) -> SortedSamples:
        """Samples by the probability of their most probable class; the outcome is whether that class is the label."""
        return cls.of(samples.top_confidence, samples.correct, samples.weights)

    def prefix(self, weights: Weights) -> Float64:
        """(3, n + 1): prefix sums of weight, weighted confidence and weighted outcome."""
        sums = np.empty((3, len(self.order) + 1))
        prefix_sums(self.order, self.confidence, self.outcome, weights, sums)
        return sums

    def ks(self, weights: Weights) -> float:
        """The Kolmogorov–Smirnov calibration error."""
        return float(ks_error(self.confidence, self.prefix(weights)))

    def equal_mass(self, weights: Weights, n_bins: int) -> float:
        """ECE over bins of equal mass."""
        return float(equal_mass_error(self.confidence, self.prefix(weights), n_bins, self.whole_weights))

    def debiased(self, weights: Weights, n_bins: int) -> float:
        """The squared error of equal-mass bins without its bias, at least 0."""
        sums = self.prefix(weights)
        return float(debiased_squared_error(self.confidence, sums, n_bins, self.whole_weights, self.samples_per_weight))

    def sweep(self, weights: Weights) -> tuple[float, int]:
        """ECE over the largest number of equal-mass bins whose outcomes rise, and that number."""
        error, n_bins = sweep_error(self.confidence, self.prefix(weights), self.whole_weights)
        return float(error), int(n_bins)

    def selective(self, weights: Weights) -> tuple[float, float]:
        """Area under the risk–coverage curve, and AUROC of the confidence for errors."""
        aurc, auroc = selective_scores(self.confidence, self.prefix(weights))
        return float(aurc), float(auroc)


@kernel
def prefix_sums(order: Array, confidence: Float64, outcome: Float64, weights: Weights, sums: Float64) -> None:
    """Write the prefix sums in order of confidence; `weights` are in the caller's order."""
    sums[:, 0] = 0.0
    mass, confidence_sum, outcome_sum = 0.0, 0.0, 0.0
    for i in range(order.shape[0]):
        w = weights[order[i]]
        mass += w
        confidence_sum += w * confidence[i]
        outcome_sum += w * outcome[i]
        sums[WEIGHT_SUM, i + 1] = mass
        sums[CONFIDENCE_SUM, i + 1] = confidence_sum
        sums[OUTCOME_SUM, i + 1] = outcome_sum


@kernel
def ks_error(confidence: Float64, sums: Float64) -> float:
    """max over thresholds of |Σ_{c ≤ t} w (c − o)| / W; samples of equal confidence are added together."""
    n = confidence.shape[0]
    largest = 0.0
    for i in range(n):
        if i + 1 == n or confidence[i + 1] != confidence[i]:
            largest = max(largest, abs(sums[CONFIDENCE_SUM, i + 1] - sums[OUTCOME_SUM, i + 1]))
    result: float = largest / sums[WEIGHT_SUM, n]
    return result


@kernel
def _first_above(values: Float64, target: float, low: int, or_equal: bool) -> int:
    """The first position from `low` on whose value exceeds `target` (or reaches it)."""
    high = values.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > target or (or_equal and values[middle] >= target):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def equal_mass_ends(confidence: Float64, sums: Float64, n_bins: int, whole_weights: bool, ends: Array) -> int:
    """Write the end of each equal-mass bin into `ends` (a position in the prefix sums); return the number of bins.

    Bins split the mass as numpy's array_split does if weights count samples, and evenly otherwise. An edge lies halfway
    between the confidences on its two sides. Samples of equal confidence therefore share a bin, and bins that coincide
    are merged.
    """
    n = confidence.shape[0]
    mass = sums[WEIGHT_SUM, n]
    if whole_weights:
        n_bins = int(min(np.float64(n_bins), mass))
    size = math.floor(mass / n_bins)
    extra = mass - n_bins * size
    tolerance = 0.0 if whole_weights else 1e-11 * mass  # prefix sums of fractional weights are rounded
    n_ends = 0
    position = 0
    for b in range(1, n_bins):
        target = b * size + min(np.float64(b), extra) if whole_weights else b * mass / n_bins
        last = _first_above(sums[WEIGHT_SUM, 1:], target - tolerance, position, True)  # the sample that fills the bin
        after = _first_above(sums[WEIGHT_SUM, 1:], target + tolerance, last, False)  # the sample that comes next
        if after >= n:
            break
        edge = (confidence[last] + confidence[after]) / 2
        end = _first_above(confidence, edge, last, False)
        position = last
        if n_ends == 0 or end > ends[n_ends - 1]:
            ends[n_ends] = end
            n_ends += 1
    if n_ends == 0 or ends[n_ends - 1] < n:
        ends[n_ends] = n
        n_ends += 1
    return n_ends


@kernel
def equal_mass_error(confidence: Float64, sums: Float64, n_bins: int, whole_weights: bool) -> float:
    """Σ_b |Σ w (c − o)| / W over equal-mass bins."""
    ends = np.empty(n_bins + 1, np.int64)
    n_ends = equal_mass_ends(confidence, sums, n_bins, whole_weights, ends)
    return _ece_of_bins(sums, ends, n_ends)


@kernel
def _ece_of_bins(sums: Float64, ends: Array, n_ends: int) -> float:
    total = 0.0
    start = 0
    for b in range(n_ends):
        end = ends[b]
        confidence = sums[CONFIDENCE_SUM, end] - sums[CONFIDENCE_SUM, start]
        total += abs(confidence - (sums[OUTCOME_SUM, end] - sums[OUTCOME_SUM, start]))
        start = end
    result: float = total / sums[WEIGHT_SUM, sums.shape[1] - 1]
    return result


@kernel
def debiased_squared_error(
    confidence: Float64, sums: Float64, n_bins: int, whole_weights: bool, samples_per_weight: float
) -> float:
    """max(0, Σ_b W_b/W · ((c_b − o_b)² − o_b (1 − o_b) / (W_b − 1))); bins with W_b ≤ 1 sample are left out."""
    ends = np.empty(n_bins + 1, np.int64)
    n_ends = equal_mass_ends(confidence, sums, n_bins, whole_weights, ends)
    total = 0.0
    start = 0
    for b in range(n_ends):
        end = ends[b]
        mass = sums[WEIGHT_SUM, end] - sums[WEIGHT_SUM, start]
        if mass * samples_per_weight > 1:
            mean_confidence = (sums[CONFIDENCE_SUM, end] - sums[CONFIDENCE_SUM, start]) / mass
            outcome = (sums[OUTCOME_SUM, end] - sums[OUTCOME_SUM, start]) / mass
            total += mass * (
                (mean_confidence - outcome) ** 2 - outcome * (1 - outcome) / (mass * samples_per_weight - 1)
            )
        start = end
    result: float = max(total / sums[WEIGHT_SUM, confidence.shape[0]], 0.0)
    return result


@kernel
def sweep_error(confidence: Float64, sums: Float64, whole_weights: bool) -> tuple[float, int]:
    """The ECE of the last number of bins, counted up from 1, whose outcomes rise from bin to bin; and that number."""
    n = confidence.shape[0]
    mass = sums[WEIGHT_SUM, n]
    max_bins = int(min(np.float64(MAX_SWEEP_BINS), mass if whole_weights else np.float64(n)))
    ends = np.empty(max_bins + 1, np.int64)
    ece = abs(sums[CONFIDENCE_SUM, n] - sums[OUTCOME_SUM, n]) / mass
    rising_bins = 1
    for n_bins in range(2, max_bins + 1):
        n_ends = equal_mass_ends(confidence, sums, n_bins, whole_weights, ends)
        start = 0
        left_outcome = 0.0
        rises = True
        for b in range(n_ends):
            end = ends[b]
            weight = sums[WEIGHT_SUM, end] - sums[WEIGHT_SUM, start]
            outcome = (sums[OUTCOME_SUM, end] - sums[OUTCOME_SUM, start]) / weight if weight > 0 else left_outcome
            if outcome < left_outcome - 1e-12:  # prefix sums of fractional weights are rounded
                rises = False
                break
            left_outcome = outcome
            start = end
        if not rises:
            break
        ece = _ece_of_bins(sums, ends, n_ends)
        rising_bins = n_ends
    return ece, rising_bins


@kernel
def selective_scores(confidence: Float64, sums: Float64) -> tuple[float, float]:
    """(∫ errors(t)/t dt / W, most confident samples first; P(c if correct > c if incorrect) + half the ties)."""
    n = confidence.shape[0]
    mass, correct = sums[WEIGHT_SUM, n], sums[OUTCOME_SUM, n]
    incorrect = mass - correct
    area, pairs, errors = 0.0, 0.0, 0.0
    last_change = (
        0.0  # coverage at which the number of errors last changed; up to the next, the integral is a logarithm
    )
    end = n
    while end > 0:
        start = end - 1
        while start > 0 and confidence[start - 1] == confidence[end - 1]:
            start -= 1
        # samples of equal confidence
        group = sums[WEIGHT_SUM, end] - sums[WEIGHT_SUM, start]
        group_correct = sums[OUTCOME_SUM, end] - sums[OUTCOME_SUM, start]
        group_incorrect = group - group_correct
        if group_incorrect > 0:
            coverage = mass - sums[WEIGHT_SUM, end]
            rate = group_incorrect / group
            area += group_incorrect
            if errors > 0:
                area += errors * math.log(coverage / last_change)
            if coverage > 0:
                area += (errors - rate * coverage) * math.log((coverage + group) / coverage)
            errors += group_incorrect
            last_change = coverage + group
        less_confident_errors = sums[WEIGHT_SUM, start] - sums[OUTCOME_SUM, start]
        pairs += group_correct * less_confident_errors + 0.5 * group_correct * group_incorrect
        end = start
    if errors > 0:
        area += errors * math.log(mass / last_change)
    auroc = pairs / (correct * incorrect) if correct > 0 and incorrect > 0 else 0.5
    return min(max(area / mass, 0.0), 1.0), auroc
