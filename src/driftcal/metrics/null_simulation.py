"""The null ECE: the expected ECE of a perfectly calibrated model with the same confidences on as many samples."""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.metrics.bootstrap import for_each_replicate_range, uniforms
from driftcal.metrics.sample_scores import SampleScores
from driftcal.types import Float64, Weights


def null_ece_replicates(samples: SampleScores, n_bins: int, n_resamples: int, seed: int) -> Float64:
    """The ECE of each of `n_resamples` simulations of a calibrated model.

    An outcome is 1 with a probability equal to the confidence. The mean of the ECEs is the null ECE.  Bröcker & Smith
    2007, for the resampling.
    """
    values = np.empty(n_resamples)

    def run(first: int, last: int) -> None:
        _simulate(samples.confidence, samples.weights, bin_edges(n_bins), seed, first, values[first:last])

    for_each_replicate_range(run, n_resamples)
    return values


@kernel
def _simulate(confidence: Float64, weights: Weights, edges: Float64, seed: int, first: int, out: Float64) -> None:
    n = confidence.shape[0]
    index = bin_indices(confidence, edges)
    draws, residuals = np.empty(n), np.empty(edges.shape[0] - 1)
    mass = weights.sum()
    for r in range(out.shape[0]):
        uniforms(seed, first + r, draws)
        residuals[:] = 0.0
        for i in range(n):
            outcome = 1.0 if draws[i] < confidence[i] else 0.0
            residuals[index[i]] += weights[i] * (confidence[i] - outcome)
        out[r] = np.abs(residuals).sum() / mass
