"""All metrics of one vector of weights at once: the estimate and each bootstrap replicate come through here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftcal.metrics.bootstrap import draw_weights, over_replicates, uniform
from driftcal.metrics.ordered import (
    Ordered,
    debiased_of,
    equal_mass_of,
    ks_of,
    prefix_sums,
    selective_of,
    sweep_of,
)
from driftcal.metrics.scores import WORST_NLL, Scores
from driftcal.metrics.smooth import CELLS, fixed_points, spread
from driftcal.metrics.statistics import bin_edges, bin_index
from driftcal.numerics import kernel
from driftcal.types import Array, Float64, Weights

#: What :meth:`Summary.of` returns, in this order, and the range of each.
RANGES: dict[str, tuple[float, float]] = {
    "accuracy": (0, 1),
    "nll": (0, math.inf),
    "brier": (0, 2),
    "entropy": (0, math.inf),
    "gap": (-1, 1),
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
#: Those that are 0 for a calibrated model and above 0 in any sample of it.
ERRORS = ("ece", "mce", "equal_mass_ece", "sweep_ece", "debiased_ece", "smooth_ece", "ks", "reliability")
_SMOOTH = NAMES.index("smooth_ece")
#: The equal-mass bins of the debiased error, whatever the number of bins elsewhere.
DEBIASED_BINS = 15
#: Grids of the smooth error that are transformed together.
_BATCH = 64


@dataclass(frozen=True, eq=False)
class Summary:
    """Rows sorted both ways, so that any weights give all metrics in a few sweeps over n numbers."""

    scores: Scores
    n_bins: int
    by_confidence: Ordered
    by_certainty: Ordered
    bin_ends: Array
    row_means: Float64
    residuals: Float64

    @classmethod
    def of_scores(cls, scores: Scores, n_bins: int) -> Summary:
        """Sort once."""
        by_confidence = Ordered.of_scores(scores)
        by_certainty = Ordered.of_certainty(scores) if scores.positive else by_confidence
        bin_ends = np.searchsorted(by_confidence.claims, bin_edges(n_bins)[1:], side="right")
        bin_ends[-1] = len(scores)
        row_means = np.stack([scores.correct, np.minimum(scores.nll, WORST_NLL), scores.brier, scores.entropy])
        residuals = scores.confidence - scores.outcome
        return cls(scores, n_bins, by_confidence, by_certainty, bin_ends, row_means, residuals)

    def of(self, weights: Weights) -> Float64:
        """All metrics for these weights, as `NAMES` lists them."""
        values, cells = np.empty(len(NAMES)), np.zeros(CELLS + 1)
        self._run(weights, values, cells)
        values[_SMOOTH] = fixed_points(cells[None])[0]
        return values

    def replicates(self, units: Array, draws: int, seed: int) -> Float64:
        """(draws, metrics): all metrics of each bootstrap replicate."""
        values = np.empty((draws, len(NAMES)))

        def run(first: int, last: int) -> None:
            weights, counts = np.empty(len(units)), np.empty(int(units.max()) + 1)
            for low in range(first, last, _BATCH):
                cells = np.zeros((min(_BATCH, last - low), CELLS + 1))
                for r in range(len(cells)):
                    draw_weights(seed, low + r, units, self.scores.weights, counts, weights)
                    self._run(weights, values[low + r], cells[r])
                values[low : low + len(cells), _SMOOTH] = fixed_points(cells)

        over_replicates(run, draws)
        return values

    def calibrated(self, draws: int, seed: int) -> Float64:
        """(draws, metrics): the calibration errors in worlds where claims come true with the probability they state."""
        values = np.zeros((draws, len(NAMES)))
        ordered = self.by_confidence
        weights = self.scores.weights[ordered.order]

        def run(first: int, last: int) -> None:
            chance, sums = np.empty(len(weights)), np.empty((3, len(weights) + 1))
            places = np.arange(len(weights))
            for low in range(first, last, _BATCH):
                cells = np.zeros((min(_BATCH, last - low), CELLS + 1))
                for r in range(len(cells)):
                    uniform(seed, low + r, chance)
                    outcomes = (chance < ordered.claims).astype(np.float64)
                    prefix_sums(places, ordered.claims, outcomes, weights, sums)
                    _read(ordered.claims, sums, self.bin_ends, ordered.whole, ordered.unit, values[low + r])
                    spread(ordered.claims, ordered.claims - outcomes, weights, cells[r])
                values[low : low + len(cells), _SMOOTH] = fixed_points(cells)

        over_replicates(run, draws)
        return values

    def _run(self, weights: Weights, values: Float64, cells: Float64) -> None:
        first, second = self.by_confidence, self.by_certainty
        sums = np.empty((3, len(weights) + 1))
        prefix_sums(first.order, first.claims, first.outcomes, weights, sums)
        values[:4] = self.row_means @ weights / sums[0, -1]
        _read(first.claims, sums, self.bin_ends, first.whole, first.unit, values)
        if self.scores.positive:
            prefix_sums(second.order, second.claims, second.outcomes, weights, sums)
        values[-2:] = selective_of(second.claims, sums)
        spread(self.scores.confidence, self.residuals, weights, cells)


@kernel
def _read(claims: Float64, sums: Float64, bin_ends: Array, whole: bool, unit: float, values: Float64) -> None:
    """What running sums in order of confidence say, into values[4:15]; equal-width bins are ranges of that order."""
    n = claims.shape[0]
    mass = sums[0, n]
    base = sums[2, n] / mass
    ece, mce, reliability, resolution = 0.0, 0.0, 0.0, 0.0
    start = 0
    for end in bin_ends:
        w = sums[0, end] - sums[0, start]
        if w > 0:
            outcome = sums[2, end] - sums[2, start]
            residual = (sums[1, end] - sums[1, start]) - outcome
            ece += abs(residual)
            mce = max(mce, abs(residual) / w)
            reliability += residual * residual / w
            resolution += w * (outcome / w - base) ** 2
        start = end
    values[4] = (sums[1, n] - sums[2, n]) / mass
    values[5] = ece / mass
    values[6] = mce
    values[7] = equal_mass_of(claims, sums, bin_ends.shape[0], whole)
    values[8] = sweep_of(claims, sums, whole)[0]
    values[9] = math.sqrt(debiased_of(claims, sums, DEBIASED_BINS, whole, unit))
    values[11] = ks_of(claims, sums)
    values[12] = reliability / mass
    values[13] = resolution / mass
    values[14] = base * (1 - base)


def simulate_floor(scores: Scores, n_bins: int, draws: int, seed: int) -> Float64:
    """The ECE of each of `draws` worlds in which every claim comes true with the probability it states."""
    values = np.empty(draws)

    def run(first: int, last: int) -> None:
        _simulate(scores.confidence, scores.weights, bin_edges(n_bins), seed, first, values[first:last])

    over_replicates(run, draws)
    return values


@kernel
def _simulate(confidence: Float64, weights: Weights, edges: Float64, seed: int, first: int, out: Float64) -> None:
    n = confidence.shape[0]
    index = np.empty(n, np.int64)
    for i in range(n):
        index[i] = bin_index(confidence[i], edges)
    chance, bins = np.empty(n), np.empty(edges.shape[0] - 1)
    mass = weights.sum()
    for r in range(out.shape[0]):
        uniform(seed, first + r, chance)
        bins[:] = 0.0
        for i in range(n):
            outcome = 1.0 if chance[i] < confidence[i] else 0.0
            bins[index[i]] += weights[i] * (confidence[i] - outcome)
        out[r] = np.abs(bins).sum() / mass
