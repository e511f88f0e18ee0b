"""Labelled windows to learn from: drawn from one condition each, or from one and the clean samples, under changed class shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.types import Array, Float64, Labels

#: Sizes of the training windows.
WINDOW_SIZES = (10, 25, 100, 500)
#: Windows of each size of the clean samples, of each shifted condition at least, and of all shifted conditions at least.
N_CLEAN_WINDOWS, N_WINDOWS, N_SHIFTED_WINDOWS = 80, 8, 500
#: The class shares of consecutive windows: natural, or drawn from a Dirichlet distribution with this parameter.
_CONCENTRATIONS: tuple[float | None, ...] = (None, 1.0, None, 0.3)
#: Which of eight consecutive windows of a shifted condition also hold clean samples.
_MIXED = (2, 7)


@dataclass(frozen=True, eq=False)
class ConditionSamples:
    """The samples of one condition: statistics (n, k), labels, whether they are predicted correctly (0 or 1), weights."""

    statistics: Float64
    labels: Labels
    correct: Float64
    weights: Float64

    def draw(self, rng: np.random.Generator, size: int, shares: Float64 | None) -> Array:
        """Positions of `size` samples with replacement, under these class shares; None: the natural ones."""
        weights = self.weights
        if shares is not None:
            by_class = np.bincount(self.labels, weights, len(shares))
            factor = np.divide(shares, by_class, out=np.zeros(len(shares)), where=by_class > 0)
            if (weights * factor[self.labels]).sum() > 0:
                weights = weights * factor[self.labels]
        cumulative = np.cumsum(weights)
        positions = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        return np.asarray(np.minimum(positions, len(weights) - 1))


@dataclass(frozen=True, eq=False)
class TrainingWindows:
    """Windows with known accuracy: their sums (w, k), sizes, accuracies, conditions and families."""

    sums: Float64
    sizes: Float64
    accuracies: Float64
    conditions: Array
    families: Array


def draw_windows(conditions: Sequence[ConditionSamples], families: Sequence[int], *, seed: int = 0) -> TrainingWindows:
    """Windows of every size from each condition; the first condition is the clean one.

    Every fourth window of a shifted condition also holds clean samples. Half of the windows have natural class shares, the
    others are drawn from Dirichlet distributions: a changed class mix is no drift.
    """
    parts: list[tuple[Float64, int, float, int, int]] = []
    n_classes = 1 + max(int(samples.labels.max()) for samples in conditions)
    n_windows = max(N_WINDOWS, N_SHIFTED_WINDOWS // max(1, len(conditions) - 1))
    for number, samples in enumerate(conditions):
        rng = np.random.default_rng((seed, number))
        for size in WINDOW_SIZES:
            for k in range(N_CLEAN_WINDOWS if number == 0 else n_windows):
                concentration = _CONCENTRATIONS[k % len(_CONCENTRATIONS)]
                shares = None if concentration is None else rng.dirichlet(np.full(n_classes, concentration))
                n_clean = int(size * rng.random()) if number and k % 8 in _MIXED else 0
                drawn = samples.draw(rng, size - n_clean, shares)
                sums, n_correct = samples.statistics[drawn].sum(axis=0), samples.correct[drawn].sum()
                if n_clean:
                    drawn = conditions[0].draw(rng, n_clean, shares)
                    sums = sums + conditions[0].statistics[drawn].sum(axis=0)
                    n_correct += conditions[0].correct[drawn].sum()
                parts.append((sums, size, float(n_correct / size), number, families[number]))
    sums_, sizes, accuracies, numbers, family = zip(*parts, strict=True)
    return TrainingWindows(
        np.stack(sums_), np.array(sizes, float), np.array(accuracies), np.array(numbers), np.array(family)
    )
