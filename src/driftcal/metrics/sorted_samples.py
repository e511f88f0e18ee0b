"""Metrics that read the rows in order of confidence: sorted once, then weighed as often as the bootstrap likes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.metrics.scores import Scores
from driftcal.numerics import kernel
from driftcal.types import Array, Float64, Weights

#: Where the search for the most bins that stay monotone ends: finer bins are narrower than any gap that matters.
MOST_BINS = 1000


@dataclass(frozen=True, eq=False)
class Ordered:
    """Claims, outcomes and the order that sorts the claims.

    `whole` says that weights count repeated rows, `unit` how many rows a weight of 1 stands for: 1, or more where weights are
    shares, which sum to less than the rows.
    """

    order: Array
    claims: Float64
    outcomes: Float64
    whole: bool
    unit: float

    @classmethod
    def of(cls, claims: Float64, outcomes: Float64, weights: Weights) -> Ordered:
        """Sort rows by claim."""
        order, total = np.argsort(claims), float(weights.sum())
        whole = bool((weights == np.floor(weights)).all()) and total <= 2**53
        return cls(order, claims[order], outcomes[order], whole, max(1.0, np.count_nonzero(weights) / total))

    @classmethod
    def of_scores(cls, scores: Scores) -> Ordered:
        """Rows by confidence."""
        return cls.of(scores.confidence, scores.outcome, scores.weights)

    @classmethod
    def of_certainty(cls, scores: Scores) -> Ordered:
        """Rows by the probability of their most probable class, with whether that class is right."""
        return cls.of(scores.certainty, scores.correct, scores.weights)

    def prefix(self, weights: Weights) -> Float64:
        """(3, n + 1): running sums of weight, weighted claim and weighted outcome."""
        sums = np.empty((3, len(self.order) + 1))
        prefix_sums(self.order, self.claims, self.outcomes, weights, sums)
        return sums

    def ks(self, weights: Weights) -> float:
        """The Kolmogorov–Smirnov calibration error."""
        return float(ks_of(self.claims, self.prefix(weights)))

    def equal_mass(self, weights: Weights, n_bins: int) -> float:
        """ECE over bins of equal mass."""
        return float(equal_mass_of(self.claims, self.prefix(weights), n_bins, self.whole))

    def debiased(self, weights: Weights, n_bins: int) -> float:
        """The squared error of equal-mass bins without its bias, floored at 0."""
        return float(debiased_of(self.claims, self.prefix(weights), n_bins, self.whole, self.unit))

    def sweep(self, weights: Weights) -> tuple[float, int]:
        """ECE over the most equal-mass bins whose outcomes still rise, and their number."""
        error, n_bins = sweep_of(self.claims, self.prefix(weights), self.whole)
        return float(error), int(n_bins)

    def selective(self, weights: Weights) -> tuple[float, float]:
        """Area under the risk–coverage curve and AUROC of the claim for errors."""
        aurc, auroc = selective_of(self.claims, self.prefix(weights))
        return float(aurc), float(auroc)


@kernel
def prefix_sums(order: Array, claims: Float64, outcomes: Float64, weights: Weights, sums: Float64) -> None:
    """Running sums in order; `weights` are in the caller's order."""
    sums[:, 0] = 0.0
    mass, claim, outcome = 0.0, 0.0, 0.0
    for i in range(order.shape[0]):
        w = weights[order[i]]
        mass += w
        claim += w * claims[i]
        outcome += w * outcomes[i]
        sums[0, i + 1] = mass
        sums[1, i + 1] = claim
        sums[2, i + 1] = outcome


@kernel
def ks_of(claims: Float64, sums: Float64) -> float:
    """max over thresholds of |Σ_{claim ≤ t} w (claim − outcome)| / W; rows with equal claims enter together."""
    n = claims.shape[0]
    worst = 0.0
    for i in range(n):
        if i + 1 == n or claims[i + 1] != claims[i]:
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
def cut(claims: Float64, sums: Float64, n_bins: int, whole: bool, ends: Array) -> int:
    """Write where each equal-mass bin ends into `ends` (a position in the running sums); return the number of bins.

    Bins split the mass as numpy's array_split does where weights count rows, and evenly otherwise. An edge lies halfway
    between the claims on its two sides, so equal claims share a bin, and bins that coincide become one.
    """
    n = claims.shape[0]
    mass = sums[0, n]
    if whole:
        n_bins = int(min(np.float64(n_bins), mass))
    size = math.floor(mass / n_bins)
    extra = mass - n_bins * size
    slack = 0.0 if whole else 1e-11 * mass  # running sums of fractional weights are rounded
    found = 0
    position = 0
    for b in range(1, n_bins):
        target = b * size + min(np.float64(b), extra) if whole else b * mass / n_bins
        last = _first_above(sums[0, 1:], target - slack, position, True)  # the row that fills the bin
        after = _first_above(sums[0, 1:], target + slack, last, False)  # the row that comes next
        if after >= n:
            break
        edge = (claims[last] + claims[after]) / 2
        end = _first_above(claims, edge, last, False)
        position = last
        if found == 0 or end > ends[found - 1]:
            ends[found] = end
            found += 1
    if found == 0 or ends[found - 1] < n:
        ends[found] = n
        found += 1
    return found


@kernel
def equal_mass_of(claims: Float64, sums: Float64, n_bins: int, whole: bool) -> float:
    """Σ_b |Σ w (claim − outcome)| / W over equal-mass bins."""
    ends = np.empty(n_bins + 1, np.int64)
    found = cut(claims, sums, n_bins, whole, ends)
    return _ece_of_ends(sums, ends, found)


@kernel
def _ece_of_ends(sums: Float64, ends: Array, found: int) -> float:
    total = 0.0
    start = 0
    for b in range(found):
        end = ends[b]
        total += abs((sums[1, end] - sums[1, start]) - (sums[2, end] - sums[2, start]))
        start = end
    result: float = total / sums[0, sums.shape[1] - 1]
    return result


@kernel
def debiased_of(claims: Float64, sums: Float64, n_bins: int, whole: bool, unit: float) -> float:
    """max(0, Σ_b W_b/W · ((claim_b − outcome_b)² − outcome_b (1 − outcome_b) / (W_b − 1))); W_b ≤ 1 row is left out."""
    ends = np.empty(n_bins + 1, np.int64)
    found = cut(claims, sums, n_bins, whole, ends)
    total = 0.0
    start = 0
    for b in range(found):
        end = ends[b]
        mass = sums[0, end] - sums[0, start]
        if mass * unit > 1:
            claim = (sums[1, end] - sums[1, start]) / mass
            outcome = (sums[2, end] - sums[2, start]) / mass
            total += mass * ((claim - outcome) ** 2 - outcome * (1 - outcome) / (mass * unit - 1))
        start = end
    result: float = max(total / sums[0, claims.shape[0]], 0.0)
    return result


@kernel
def sweep_of(claims: Float64, sums: Float64, whole: bool) -> tuple[float, int]:
    """Raise the number of equal-mass bins until an outcome falls below its left neighbour's; take the one before."""
    n = claims.shape[0]
    mass = sums[0, n]
    most = int(min(np.float64(MOST_BINS), mass if whole else np.float64(n)))
    ends = np.empty(most + 1, np.int64)
    best = abs(sums[1, n] - sums[2, n]) / mass
    bins = 1
    for wish in range(2, most + 1):
        found = cut(claims, sums, wish, whole, ends)
        start = 0
        before = 0.0
        rises = True
        for b in range(found):
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
        best = _ece_of_ends(sums, ends, found)
        bins = found
    return best, bins


@kernel
def selective_of(claims: Float64, sums: Float64) -> tuple[float, float]:
    """(∫ errors(t)/t dt / W with the surest rows first, P(claim when right > claim when wrong) + half the ties)."""
    n = claims.shape[0]
    mass, right = sums[0, n], sums[2, n]
    wrong = mass - right
    area, pairs, errors = 0.0, 0.0, 0.0
    since = 0.0  # the coverage at which the number of errors last changed: in between the integral is one logarithm
    end = n
    while end > 0:
        start = end - 1
        while start > 0 and claims[start - 1] == claims[end - 1]:
            start -= 1
        group = sums[0, end] - sums[0, start]
        group_right = sums[2, end] - sums[2, start]
        group_wrong = group - group_right
        if group_wrong > 0:
            seen = mass - sums[0, end]
            rate = group_wrong / group
            area += group_wrong
            if errors > 0:
                area += errors * math.log(seen / since)
            if seen > 0:
                area += (errors - rate * seen) * math.log((seen + group) / seen)
            errors += group_wrong
            since = seen + group
        pairs += group_right * (sums[0, start] - sums[2, start]) + 0.5 * group_right * group_wrong
        end = start
    if errors > 0:
        area += errors * math.log(mass / since)
    auroc = pairs / (right * wrong) if right > 0 and wrong > 0 else 0.5
    return min(max(area / mass, 0.0), 1.0), auroc
