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
from driftcal.metrics.scores import Scores
from driftcal.metrics.smooth import CELLS, fixed_points, spread
from driftcal.metrics.statistics import add_columns, bin_edges, bin_index
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

    @classmethod
    def of_scores(cls, scores: Scores, n_bins: int) -> Summary:
        """Sort once."""
        by_confidence = Ordered.of_scores(scores)
        by_certainty = Ordered.of_certainty(scores) if scores.positive else by_confidence
        return cls(scores, n_bins, by_confidence, by_certainty)

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

    def _run(self, weights: Weights, values: Float64, cells: Float64) -> None:
        first, second = self.by_confidence, self.by_certainty
        _summarise(
            self.scores.columns,
            weights,
            bin_edges(self.n_bins),
            self.n_bins,
            first.whole,
            self.scores.positive,
            first.order,
            first.claims,
            first.outcomes,
            second.order,
            second.claims,
            second.outcomes,
            values,
            cells,
        )


@kernel
def _summarise(
    columns: Float64,
    weights: Weights,
    edges: Float64,
    n_bins: int,
    whole: bool,
    two_orders: bool,
    order: Array,
    claims: Float64,
    outcomes: Float64,
    order_2: Array,
    claims_2: Float64,
    outcomes_2: Float64,
    values: Float64,
    cells: Float64,
) -> None:
    totals, bins = np.zeros(7), np.zeros((7, n_bins))
    add_columns(columns, weights, totals, bins, edges)
    mass = totals[1]
    values[0] = totals[2] / mass
    values[1] = totals[3] / mass
    values[2] = totals[4] / mass
    values[3] = totals[5] / mass
    base = bins[3].sum() / mass
    gap, ece, mce, reliability, resolution = 0.0, 0.0, 0.0, 0.0, 0.0
    for m in range(n_bins):
        w = bins[1, m]
        if w > 0:
            residual = bins[2, m] - bins[3, m]
            gap += residual
            ece += abs(residual)
            mce = max(mce, abs(residual) / w)
            reliability += residual * residual / w
            resolution += w * (bins[3, m] / w - base) ** 2
    values[4] = gap / mass
    values[5] = ece / mass
    values[6] = mce
    sums = np.empty((3, claims.shape[0] + 1))
    prefix_sums(order, claims, outcomes, weights, sums)
    values[7] = equal_mass_of(claims, sums, n_bins, whole)
    values[8] = sweep_of(claims, sums, whole)[0]
    values[9] = math.sqrt(debiased_of(claims, sums, DEBIASED_BINS, whole))
    values[11] = ks_of(claims, sums)
    values[12] = reliability / mass
    values[13] = resolution / mass
    values[14] = base * (1 - base)
    if two_orders:
        prefix_sums(order_2, claims_2, outcomes_2, weights, sums)
    aurc, auroc = selective_of(claims_2, sums)
    values[15] = aurc
    values[16] = auroc
    spread(columns[:, 0], columns[:, 0] - columns[:, 1], weights, cells)


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
