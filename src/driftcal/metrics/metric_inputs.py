"""The inputs of the metric functions, from ``(y_true, probabilities)``: scores per sample, and their sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.scores_and_labels import check_probabilities
from driftcal.types import AnyArray

Classes: TypeAlias = Sequence[Any] | None


def samples_of(y_true: AnyArray, probabilities: AnyArray, sample_weight: AnyArray, classes: Classes) -> SampleScores:
    """The scores of each checked sample."""
    data = check_probabilities(y_true, probabilities, sample_weight, classes)
    return SampleScores.of(data, positive_class=data.positive_class)


def statistics_of(
    y_true: AnyArray, probabilities: AnyArray, sample_weight: AnyArray, classes: Classes, n_bins: int = 15
) -> Statistics:
    """The sums over all checked samples."""
    return Statistics.of_samples(samples_of(y_true, probabilities, sample_weight, classes), n_bins=n_bins)
