"""Distances to training samples in feature space, for density-aware calibrators."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.parameters import check_whole
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator
from driftcal.errors import InputError
from driftcal.types import Array, Float64

#: The most numbers in the reference, because the calibrator stores it: 256 MB of float32.
MAX_NUMBERS = 1 << 26
#: Pairs of samples and reference samples that are compared at once: 64 MB of float64.
MAX_PAIRS = 1 << 23


class NeighbourCalibrator(FeatureCalibrator):
    """A calibrator that uses the distance of a sample to its `k`-th nearest training sample in each layer."""

    needs_reference = True

    k: int
    reference_: Array

    def _check_params(self) -> None:
        check_whole("k", self.k, 1, 50)

    def _check_fitted(self) -> None:
        if self.k > len(self.reference_) or self.reference_.shape[1] != sum(self.widths):
            raise ValueError("reference_ must have at least k samples, and a column per feature")

    def _set_reference(self, reference: Array | None) -> None:
        assert reference is not None
        if self.k > len(reference):
            raise InputError(
                f"k must be at most the {len(reference)} samples of reference; it is {self.k!r}. "
                "50 suits all of CIFAR-10, 10 one percent of ImageNet."
            )
        if reference.size > MAX_NUMBERS:
            raise InputError(
                f"reference may hold {MAX_NUMBERS:,} numbers, because the calibrator keeps it; it holds {reference.size:,}. "
                "Take a random part of the training samples (1 % of ImageNet is enough), or fewer layers."
            )
        self.reference_ = np.ascontiguousarray(reference)

    def _distances(self, features: Array) -> Float64:
        edges = np.cumsum(self.widths)[:-1]
        layers = zip(np.split(features, edges, axis=1), np.split(self.reference_, edges, axis=1), strict=True)
        return np.stack([kth_distances(samples, training, int(self.k)) for samples, training in layers], axis=1)

    def _references(self) -> tuple[Array, ...]:
        """The reference of each layer."""
        parts = np.split(self.reference_, np.cumsum(self.widths)[:-1], axis=1)
        return tuple(np.ascontiguousarray(part) for part in parts)


def kth_distances(features: Array, reference: Array, k: int) -> Float64:
    """The distance from each sample to the `k`-th nearest reference sample; all features have length 1 or 0.

    Ties between neighbours are broken arbitrarily.

    >>> kth_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]), 2).round(3)
    array([1.414])
    """
    distances = np.empty(len(features))
    step = max(1, MAX_PAIRS // len(reference))
    # in float32, rounding would choose among near samples, differently on each machine
    training = reference.astype(np.float64)
    halves = half_squares(training)
    for low in range(0, len(features), step):
        part = features[low : low + step].astype(np.float64)
        nearness = part @ training.T - halves
        kth = np.argpartition(nearness, len(reference) - k, axis=1)[:, len(reference) - k]
        # from the difference: |a|² − 2·nearness has no digits left for near samples
        distances[low : low + step] = np.linalg.norm(part - training[kth], axis=1)
    return distances


def half_squares(reference: Array) -> Float64:
    """|b|²/2 of each reference sample b.

    |a − b|² = |a|² − 2·(a·b − |b|²/2), so the sample with the largest a·b − |b|²/2 is the nearest. Lengths |b| are not
    exactly 1 in float32, and 0 for samples without any feature.
    """
    halves: Float64 = (reference.astype(np.float64) ** 2).sum(axis=1) / 2
    return halves
