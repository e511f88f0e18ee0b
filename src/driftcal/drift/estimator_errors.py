"""How far each accuracy estimator errs on the validation samples, in two kinds of shift; it decides which one is used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from driftcal.drift.estimators import CONFIDENCE, ESTIMATORS
from driftcal.types import Array, Float64

if TYPE_CHECKING:
    from driftcal.drift.reference import DriftReference

# How far an estimator may err on the clean samples that it was fitted on; about twice the sampling error of 1,000 samples.
_CLEAN_TOLERANCE = 0.02


def choose_estimator(reference: DriftReference, clean: Float64, correct: Array) -> DriftReference:
    """The reference with the errors of all estimators and the best of them.

    Two kinds of shift look the same without labels. In the first, inputs are perturbed: each level is estimated from the
    others. In the second, inputs are only harder: clean samples are reweighted by e^(−θ·confidence) until their mean
    confidence is that of the level. The estimator with the smallest larger error of the two is chosen, because the kind
    of shift is unknown. An estimator that errs by more than 0.02 on the clean samples is left out, since most
    windows are clean.
    """
    errors = estimator_errors(reference, clean, correct)
    accurate = [name for name, error in errors.items() if error["clean"] <= _CLEAN_TOLERANCE] or list(errors)
    best = min(accurate, key=lambda name: max(errors[name].values()))
    return replace(reference, estimator=best, errors=errors)


def estimator_errors(reference: DriftReference, clean: Float64, correct: Array) -> dict[str, dict[str, float]]:
    """Mean absolute error of each estimator on clean samples, on the levels, and on clean samples reweighted to be harder.

    `clean` holds the drift statistics of the clean samples, `correct` whether their predictions are correct.
    """
    perturbed: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    reweighted: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    lowest = np.minimum.accumulate([means[CONFIDENCE] for means in reference.means])
    for j in range(reference.n_levels):
        # every estimator starts from the clean level; any other level is estimated from the rest
        others = [i for i in range(reference.n_levels) if i != j or j == 0]
        without = replace(
            reference,
            accuracies=tuple(reference.accuracies[i] for i in others),
            means=tuple(reference.means[i] for i in others),
        )
        weights = harder_weights(clean[:, CONFIDENCE], float(lowest[j]))
        means, accuracy = weights @ clean, float(weights @ correct)
        for name in ESTIMATORS:
            level_means = np.array(reference.means[j])
            perturbed[name].append(abs(without.estimate(name, level_means) - reference.accuracies[j]))
            reweighted[name].append(abs(reference.estimate(name, means) - accuracy))
    return {
        name: {
            "clean": perturbed[name][0],
            "perturbed": float(np.mean(perturbed[name])),
            "reweighted": float(np.mean(reweighted[name])),
        }
        for name in ESTIMATORS
    }


def harder_weights(confidence: Float64, target: float) -> Float64:
    """Weights e^(−θ·confidence), summing to 1, under which the mean confidence is the target."""
    from scipy.optimize import brentq

    def weights(theta: float) -> Float64:
        powers: Float64 = np.exp(-theta * (confidence - confidence.min()))
        powers /= powers.sum()
        return powers

    largest = 1e3  # by then only the least confident samples count
    if weights(largest) @ confidence >= target or not np.ptp(confidence):
        return weights(largest if np.ptp(confidence) else 0.0)
    if weights(0.0) @ confidence <= target:
        return weights(0.0)
    return weights(brentq(lambda theta: float(weights(theta) @ confidence) - target, 0.0, largest))
