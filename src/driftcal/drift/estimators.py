"""Accuracy without labels: estimators that are fitted on labelled validation samples and applied to unlabelled windows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from driftcal.drift.level_scale import interpolate_levels
from driftcal.errors import InputError, UnknownName
from driftcal.types import AnyArray, Float64

if TYPE_CHECKING:
    from driftcal.drift.reference import DriftReference

#: The drift statistics of a sample, in the order in which a reference and a window hold their means:
#: the calibrator's confidence; confidence and normalised negative entropy of softmax(z / T), T fitted on clean samples;
#: whether the latter reaches the ATC threshold.
DRIFT_STATISTICS = ("calibrated_confidence", "confidence", "negative_entropy", "above_threshold")
CALIBRATED_CONFIDENCE, CONFIDENCE, NEGATIVE_ENTROPY, ABOVE_THRESHOLD = range(len(DRIFT_STATISTICS))


def atc_threshold(scores: AnyArray, correct: AnyArray, weights: AnyArray = None) -> float:
    """The score below which as many validation samples lie as are predicted incorrectly: average thresholded confidence.

    Garg et al. 2022, section 4. `scores` rise with confidence (such as minus the entropy), `correct` says which samples
    the model predicts correctly.

    >>> atc_threshold([0.9, 0.8, 0.7, 0.6], [True, True, False, True])
    0.7
    """
    values = np.asarray(scores, np.float64)
    is_correct = np.asarray(correct, bool)
    mass = np.ones(values.shape) if weights is None else np.asarray(weights, np.float64)
    if values.ndim != 1 or values.shape != is_correct.shape or values.shape != mass.shape or not mass.sum() > 0:
        raise InputError(
            "scores and correct must hold one entry per validation sample; "
            f"their shapes are {values.shape} and {is_correct.shape}. "
            "Pass the confidence of each sample and whether its prediction is correct."
        )
    values, is_correct, mass = values[mass > 0], is_correct[mass > 0], mass[mass > 0]
    order = np.argsort(values)
    reached = np.cumsum(mass[order])
    incorrect = mass[~is_correct].sum()
    # samples at or above the threshold count as correct; none at all if all are incorrect
    position = int(np.searchsorted(reached, incorrect + 1e-9 * reached[-1], side="right"))
    return float(values[order[position]]) if position < len(values) else float(np.nextafter(values.max(), np.inf))


def _from_confidence(reference: DriftReference, means: Float64) -> float:
    """The calibrator's mean confidence: correct as long as the calibrator stays calibrated under this shift."""
    return float(means[CALIBRATED_CONFIDENCE])


def _from_threshold(reference: DriftReference, means: Float64) -> float:
    """The share of samples that reach the threshold.  Garg et al. 2022."""
    return float(means[ABOVE_THRESHOLD])


def _from_confidence_loss(reference: DriftReference, means: Float64) -> float:
    """Clean accuracy minus the loss of mean confidence.  Guillory et al. 2021."""
    return reference.accuracies[0] - (reference.means[0][CONFIDENCE] - float(means[CONFIDENCE]))


def _from_levels(reference: DriftReference, means: Float64) -> float:
    """The accuracy of the perturbation level whose negative entropy is that of the window."""
    return interpolate_levels(reference.accuracies, reference.level_position(means))


def _from_threshold_and_levels(reference: DriftReference, means: Float64) -> float:
    """The mean of ATC, which errs upwards under noise, and level matching, which errs downwards without noise."""
    return (_from_threshold(reference, means) + _from_levels(reference, means)) / 2


#: Estimators of a window's accuracy from its mean drift statistics, by name.
ESTIMATORS: dict[str, Callable[[DriftReference, Float64], float]] = {
    "confidence": _from_confidence,
    "atc": _from_threshold,
    "doc": _from_confidence_loss,
    "level-matching": _from_levels,
    "atc-level-mean": _from_threshold_and_levels,
}
#: Names in files of version 0.1.
OLD_ESTIMATORS = {"ladder": "level-matching", "middle": "atc-level-mean"}


#: The regression of a fitted windowed calibrator, see `accuracy_regression`. It reads other statistics of a window.
WINDOW_TS = "window-ts"
#: What a monitor can use.
ESTIMATOR_NAMES = (WINDOW_TS, *ESTIMATORS)


def check_estimator(name: str, names: Collection[str] = tuple(ESTIMATORS)) -> str:
    """The name of one of the estimators; names of version 0.1 are accepted."""
    current = OLD_ESTIMATORS.get(name, name)
    if current not in names:
        raise UnknownName.of("estimator", name, names)
    return current
