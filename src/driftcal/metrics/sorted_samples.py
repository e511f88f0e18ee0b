"""Metrics that need the samples in order of confidence: sorted once, then weighted anew for each bootstrap replicate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.metrics.sample_scores import SampleScores
from driftcal.types import Array, Float64, Weights

#: Largest number of bins that the sweep tries: finer bins are narrower than any calibration error that matters.
MAX_SWEEP_BINS = 1000


@dataclass(frozen=True, eq=False)
class SortedSamples:
    """Confidence and outcome of each sample, sorted by confidence, and the order that sorts them.

    `whole_weights` says that weights count repeated samples. `samples_per_weight` is how many samples a weight of 1 stands
    for: 1, or more if weights are shares, which sum to less than the number of samples.
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
        whole = bool((weights == np.floor(weights)).all()) and total <= 2**53
        return cls(order, confidence[order], outcome[order], whole, max(1.0, np.count_nonzero(weights) / total))

    @classmethod
    def by_confidence(cls, samples: SampleScores) -> SortedSamples:
        """Samples by their confidence, which may be the probability of class 1."""
        return cls.of(samples.confidence, samples.outcome, samples.weights)

    @classmethod
    def by_top_confidence(cls, samples: SampleScores) -> SortedSamples:
        """Samples by the probability of their most probable class, with whether that class is the label."""
        return cls.of(samples.top_confidence, samples.correct, samples.weights)

    def prefix(self, weights: Weights) -> Float64:
        """(3, n + 1): running sums of weight, weighted confidence and weighted outcome."""
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
        """ECE over the most equal-mass bins whose outcomes still rise, and their number."""
        error, n_bins = sweep_error(self.confidence, self.prefix(weights), self.whole_weights)
        return float(error), int(n_bins)

    def selective(self, weights: Weights) -> tuple[float, float]:
        """Area under the risk–coverage curve, and AUROC of the confidence for errors."""
        aurc, auroc = selective_scores(self.confidence, self.prefix(weights))
        return float(aurc), float(auroc)


@kernel
def prefix_sums(order: Array, confidence: Float64, outcome: Float64, weights: Weights, sums: Float64) -> None:
    """Running sums in order; `weights` are in the caller's order."""
    sums[:, 0] = 0.0
    mass, confidence_sum, outcome_sum = 0.0, 0.0, 0.0
    for i in range(order.shape[0]):
        w = weights[order[i]]
        mass += w
        confidence_sum += w * confidence[i]
        outcome_sum += w * outcome[i]
        sums[0, i + 1] = mass
        sums[1, i + 1] = confidence_sum
        sums[2, i + 1] = outcome_sum


@kernel
def ks_error(confidence: Float64, sums: Float64) -> float:
    """max over thresholds of |Σ_{c ≤ t} w (c − o)| / W; samples of equal confidence enter together."""
    n = confidence.shape[0]
    worst = 0.0
    for i in range(n):
        if i + 1 == n or confidence[i + 1] != confidence[i]:
            worst = max(worst, abs(sums[1, i + 1] - sums[2, i + 1]))
    result: float = worst / sums[0, n]
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
    """Write the end of each equal-mass bin into `ends` (a position in the running sums); return the number of bins.

    Bins split the mass as numpy's array_split does if weights count samples, and evenly otherwise. An edge lies halfway
    between the confidences on its two sides, so samples of equal confidence share a bin, and bins that coincide become one.
    """
    n = confidence.shape[0]
    mass = sums[0, n]
    if whole_weights:
        n_bins = int(min(np.float64(n_bins), mass))
    size = math.floor(mass / n_bins)
    extra = mass - n_bins * size
    slack = 0.0 if whole_weights else 1e-11 * mass  # running sums of fractional weights are rounded
    n_ends = 0
    position = 0
    for b in range(1, n_bins):
        target = b * size + min(np.float64(b), extra) if whole_weights else b * mass / n_bins
        last = _first_above(sums[0, 1:], target - slack, position, True)  # the sample that fills the bin
        after = _first_above(sums[0, 1:], target + slack, last, False)  # the sample that comes next
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
        total += abs((sums[1, end] - sums[1, start]) - (sums[2, end] - sums[2, start]))
        start = end
    result: float = total / sums[0, sums.shape[1] - 1]
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
        mass = sums[0, end] - sums[0, start]
        if mass * samples_per_weight > 1:
            mean_confidence = (sums[1, end] - sums[1, start]) / mass
            outcome = (sums[2, end] - sums[2, start]) / mass
            total += mass * (
                (mean_confidence - outcome) ** 2 - outcome * (1 - outcome) / (mass * samples_per_weight - 1)
            )
        start = end
    result: float = max(total / sums[0, confidence.shape[0]], 0.0)
    return result


@kernel
def sweep_error(confidence: Float64, sums: Float64, whole_weights: bool) -> tuple[float, int]:
    """Raise the number of equal-mass bins until an outcome falls below its left neighbour's; use the number before."""
    n = confidence.shape[0]
    mass = sums[0, n]
    most = int(min(np.float64(MAX_SWEEP_BINS), mass if whole_weights else np.float64(n)))
    ends = np.empty(most + 1, np.int64)
    best = abs(sums[1, n] - sums[2, n]) / mass
    bins = 1
    for n_bins in range(2, most + 1):
        n_ends = equal_mass_ends(confidence, sums, n_bins, whole_weights, ends)
        start = 0
        before = 0.0
        rises = True
        for b in range(n_ends):
            end = ends[b]
            weight = sums[0, end] - sums[0, start]
            outcome = (sums[2, end] - sums[2, start]) / weight if weight > 0 else before
            if outcome < before - 1e-12:  # running sums of fractional weights are rounded
                rises = False
                break
            before = outcome
            start = end
        if not rises:
            break
        best = _ece_of_bins(sums, ends, n_ends)
        bins = n_ends
    return best, bins


@kernel
def selective_scores(confidence: Float64, sums: Float64) -> tuple[float, float]:
    """(∫ errors(t)/t dt / W, most confident samples first; P(c if correct > c if incorrect) + half the ties)."""
    n = confidence.shape[0]
    mass, correct = sums[0, n], sums[2, n]
    incorrect = mass - correct
    area, pairs, errors = 0.0, 0.0, 0.0
    since = 0.0  # the coverage at which the number of errors last changed: in between the integral is one logarithm
    end = n
    while end > 0:
        start = end - 1
        while start > 0 and confidence[start - 1] == confidence[end - 1]:
            start -= 1
        group = sums[0, end] - sums[0, start]
        group_correct = sums[2, end] - sums[2, start]
        group_incorrect = group - group_correct
        if group_incorrect > 0:
            coverage = mass - sums[0, end]
            rate = group_incorrect / group
            area += group_incorrect
            if errors > 0:
                area += errors * math.log(coverage / since)
            if coverage > 0:
                area += (errors - rate * coverage) * math.log((coverage + group) / coverage)
            errors += group_incorrect
            since = coverage + group
        pairs += group_correct * (sums[0, start] - sums[2, start]) + 0.5 * group_correct * group_incorrect
        end = start
    if errors > 0:
        area += errors * math.log(mass / since)
    auroc = pairs / (correct * incorrect) if correct > 0 and incorrect > 0 else 0.5
    return min(max(area / mass, 0.0), 1.0), auroc
