"""A bootstrap over images that resamples the same images for every candidate, shift and level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.metrics.bootstrap import resample_counts
from driftcal.metrics.intervals import bootstrap_interval
from driftcal.metrics.sample_scores import WORST_NLL, SampleScores
from driftcal.types import Float64

#: Metrics that are means over images, so that a replicate of them is one matrix product.
MEANS = ("accuracy", "nll", "brier", "entropy")


class ImageBootstrap:
    """Replicates of metrics. An image with all its levels and all candidates is one unit, so differences are paired."""

    def __init__(self, n_images: int, n_resamples: int, n_bins: int, seed: int = 0) -> None:
        self.counts = np.empty((n_resamples, n_images))
        for replicate in range(n_resamples):
            resample_counts(seed, replicate, self.counts[replicate])
        self.edges = bin_edges(n_bins)
        self.noise = np.abs(np.random.default_rng(seed).standard_normal((n_resamples, n_bins)))

    def replicates(self, cases: Sequence[Sequence[SampleScores]]) -> list[Float64]:
        """(n_resamples, bins + means) for each case: the mean residual of each bin, and the means of `MEANS`.

        A case pools levels of the same images.
        """
        n, width = self.counts.shape[1], len(self.edges) - 1 + len(MEANS)
        tables: dict[int, Float64] = {}
        for levels in cases:
            for scores in levels:
                if id(scores) not in tables:
                    tables[id(scores)] = self._table(scores)
        # one product for all cases: starting a small product takes longer than computing it
        sums = self.counts @ np.concatenate(list(tables.values()), axis=1)
        sums_of = {key: sums[:, k * width : (k + 1) * width] for k, key in enumerate(tables)}
        return [np.sum([sums_of[id(scores)] for scores in levels], axis=0) / (n * len(levels)) for levels in cases]

    def ece(self, scores: SampleScores) -> Float64:
        """The ECE of one condition in each replicate."""
        return self.metrics(self.replicates([[scores]])[0])["ece"]

    def _table(self, scores: SampleScores) -> Float64:
        """Per image: its part of the residual of each bin, then its scores in the order of `MEANS`."""
        n, n_bins = self.counts.shape[1], len(self.edges) - 1
        table: Float64 = np.zeros((n, n_bins + len(MEANS)))
        table[np.arange(n), bin_indices(scores.confidence, self.edges)] = scores.confidence - scores.outcome
        clipped = np.minimum(scores.nll, WORST_NLL)
        table[:, n_bins:] = np.stack([scores.correct, clipped, scores.brier, scores.entropy], axis=1)
        return table

    def metrics(self, replicates: Float64) -> dict[str, Float64]:
        """Each metric in each replicate of a case."""
        residuals = replicates[:, : len(self.edges) - 1]
        values = {"ece": np.abs(residuals).sum(axis=1), "calibration_gap": residuals.sum(axis=1)}
        return values | {name: replicates[:, len(self.edges) - 1 + k] for k, name in enumerate(MEANS)}

    def intervals(self, statistics: Statistics, replicates: Float64) -> dict[str, list[float]]:
        """(low, high) of the ECE, the calibration gap and the means of a case."""
        # the ECE of a calibrated model with these confidences: an interval that begins below it begins at 0
        null_ece = self.noise @ np.sqrt(statistics.bin_variance) / statistics.total_weight
        values: Mapping[str, Float64] = self.metrics(replicates)
        intervals = {
            "ece": bootstrap_interval(statistics.ece, values["ece"], bounds=(0, 1), null_replicates=null_ece),
            "calibration_gap": bootstrap_interval(
                statistics.calibration_gap, values["calibration_gap"], bounds=(-1, 1)
            ),
        }
        intervals |= {
            name: bootstrap_interval(getattr(statistics, name), values[name], bounds=(0, np.inf)) for name in MEANS
        }
        return {name: [interval.low, interval.high] for name, interval in intervals.items()}
