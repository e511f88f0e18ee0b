"""The numbers of a reliability diagram; :func:`driftcal.plot_reliability` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.random import as_seed
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.metrics.bootstrap import image_numbers, resample_weights
from driftcal.metrics.intervals import check_confidence_level, wilson_interval
from driftcal.metrics.null_simulation import null_ece_replicates
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.scores_and_labels import check_probabilities
from driftcal.metrics.sorted_samples import OUTCOME_SUM, WEIGHT_SUM, SortedSamples, prefix_sums
from driftcal.types import AnyArray, Array, Float64

#: Simulations of the null ECE: the error of its mean is then below one percent.
_NULL_RESAMPLES = 500


@dataclass(frozen=True, eq=False, repr=False)
class Reliability:
    """The numbers of a reliability diagram: one per bin, NaN if a bin is empty.

    `weight` is the weight of the samples in each bin, and `count` is their number. `low` and `high` are the interval of
    the outcome. `count`, `low` and `high` are None if only the sums of the bins were recorded.
    """

    weight: Float64
    confidence: Float64
    outcome: Float64
    ece: float
    null_ece: float
    n_samples: int
    positive_class: bool = False
    count: Array | None = None
    low: Float64 | None = None
    high: Float64 | None = None
    confidence_level: float = 0.95

    @classmethod
    def of_sums(
        cls,
        weight: Sequence[float],
        confidence: Sequence[float],
        outcome: Sequence[float],
        *,
        ece: float,
        null_ece: float,
        n_samples: int,
    ) -> Reliability:
        """The numbers from sums of each bin, as results record them.

        Parameters
        ----------
        weight, confidence, outcome
            The weight of each bin, its summed confidence and its summed outcome.
        ece, null_ece, n_samples
            Of all samples.
        """
        filled = np.where(np.asarray(weight) > 0, weight, np.nan)
        return cls(
            weight=np.asarray(weight, np.float64),
            confidence=np.asarray(confidence) / filled,
            outcome=np.asarray(outcome) / filled,
            ece=ece,
            null_ece=null_ece,
            n_samples=n_samples,
        )

    def __repr__(self) -> str:
        return f"Reliability({self.n_bins} bins, {self.n_samples} samples, ECE {self.ece:.4f}, null ECE {self.null_ece:.4f})"

    @property
    def n_bins(self) -> int:
        """M, the number of equal-width bins."""
        return len(self.weight)

    @property
    def edges(self) -> Float64:
        """The M + 1 edges of the bins."""
        return bin_edges(self.n_bins)


def prepare_reliability(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    groups: AnyArray = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    random_state: int = 0,
) -> Reliability:
    """The numbers of a reliability diagram.

    The interval of a bin is Wilson's for its effective number of samples, (Σw)²/Σw². It is wider if `groups` of samples
    vary more than independent samples.  Wilson 1927; Guo et al. 2017, section 2, for the diagram.

    Parameters
    ----------
    y_true
        Labels.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    n_bins
        Number of equal-width bins.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.
    groups
        The image of each sample, if an image has several.
    confidence_level
        Probability that an interval holds the true outcome.
    n_resamples
        Bootstrap replicates over `groups`.
    random_state
        Seed of the replicates.

    >>> prepare_reliability([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.7], n_bins=2).outcome.tolist()
    [0.0, 1.0]
    """
    check_confidence_level(confidence_level)
    seed = as_seed(random_state, "random_state")
    data = check_probabilities(y_true, probabilities, sample_weight, classes)
    samples = SampleScores.of(data, positive_class=data.positive_class)
    statistics = Statistics.of_samples(samples, n_bins=n_bins)
    confidence, outcome = statistics.curve
    effective_n = _effective_n_samples(samples, n_bins)
    if groups is not None:
        images = image_numbers(groups, samples.kept, len(data))
        variance = _resampled_variance(samples, images, n_bins, n_resamples, seed)
        with np.errstate(divide="ignore", invalid="ignore"):
            effective_n = np.fmin(effective_n, outcome * (1 - outcome) / variance)
    low, high = wilson_interval(outcome, np.maximum(effective_n, 1), confidence_level)
    return Reliability(
        weight=statistics.bin_weight,
        confidence=confidence,
        outcome=outcome,
        ece=statistics.ece,
        null_ece=float(null_ece_replicates(samples, n_bins, min(n_resamples, _NULL_RESAMPLES), seed).mean()),
        n_samples=statistics.n_samples,
        positive_class=data.positive_class,
        count=statistics.bin_count,
        low=low,
        high=high,
        confidence_level=confidence_level,
    )


def _effective_n_samples(samples: SampleScores, n_bins: int) -> Float64:
    """(Σw)²/Σw² of each bin, NaN if it is empty."""
    index = bin_indices(samples.confidence, bin_edges(n_bins))
    sums, squares = (np.bincount(index, w, n_bins) for w in (samples.weights, samples.weights**2))
    return np.where(squares > 0, sums**2 / np.where(squares > 0, squares, 1), np.nan)


def _resampled_variance(samples: SampleScores, images: Array, n_bins: int, n_resamples: int, seed: int) -> Float64:
    """The variance of each bin's outcome over bootstrap replicates of the images."""
    ordered = SortedSamples.by_confidence(samples)
    ends = np.searchsorted(ordered.confidence, bin_edges(n_bins)[1:], side="right")
    starts = np.concatenate([[0], ends[:-1]])
    weights, counts, sums = np.empty(len(images)), np.empty(int(images.max()) + 1), np.empty((3, len(images) + 1))
    values = np.full((n_resamples, n_bins), np.nan)
    for r in range(n_resamples):
        resample_weights(seed, r, images, samples.weights, counts, weights)
        prefix_sums(ordered.order, ordered.confidence, ordered.outcome, weights, sums)
        mass = sums[WEIGHT_SUM, ends] - sums[WEIGHT_SUM, starts]
        outcome = sums[OUTCOME_SUM, ends] - sums[OUTCOME_SUM, starts]
        values[r] = np.divide(outcome, mass, out=values[r], where=mass > 0)
    filled = np.isfinite(values)
    count = np.maximum(filled.sum(axis=0), 1)
    mean = np.where(filled, values, 0).sum(axis=0) / count
    variance: Float64 = np.where(filled, (values - mean) ** 2, 0).sum(axis=0) / count
    return variance
