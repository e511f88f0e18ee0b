"""Fitting a calibrator on clean or perturbed logits; without an optimum the model stays uncalibrated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.calibrators.levels import level_weights
from driftcal.engines.remote_passes import stack
from driftcal.errors import NoFiniteOptimum
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.types import AnyArray, Array, Labels


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted calibrator, and a warning where the method had no finite optimum and the model stays uncalibrated."""

    calibrator: Calibrator
    warning: str = ""


def fit_on_levels(
    method: Calibrator,
    perturbed: PerturbedLogits,
    labels: Labels,
    *,
    clean_weight: float | None = None,
    features: Mapping[str, Any] | None = None,
) -> Fit:
    """A copy of `method` fitted on all levels (-P); the clean level has the share `clean_weight` of all weight."""
    n_levels = len(perturbed.by_level)
    weights = level_weights(n_levels, clean_weight)
    logits, stacked_labels = stack(perturbed.by_level, labels, weights=weights)
    sample_weight = None if weights is None or stacked_labels is None else np.repeat(weights, len(labels))
    levels = np.repeat(np.arange(n_levels), len(labels))
    return fit_or_uncalibrated(
        method, logits, stacked_labels, levels=levels, sample_weight=sample_weight, features=features
    )


def fit_on_clean(
    method: Calibrator, perturbed: PerturbedLogits, labels: Labels, *, features: Mapping[str, Any] | None = None
) -> Fit:
    """A copy of `method` fitted on the clean samples alone."""
    return fit_or_uncalibrated(method, *stack([perturbed.clean], labels), features=features)


def fit_or_uncalibrated(
    method: Calibrator,
    logits: AnyArray,
    labels: Labels | None,
    *,
    levels: Array | None = None,
    sample_weight: Array | None = None,
    features: Mapping[str, Any] | None = None,
) -> Fit:
    """A fitted copy of `method`; the uncalibrated model, with a warning, where there is no finite optimum.

    `features` holds the arguments ``features`` and ``reference`` of `fit`, for a method that needs them.
    """
    fitted: Calibrator = clone(method)
    try:
        fitted.fit(logits, labels, levels=levels, sample_weight=sample_weight, **(features or {}))
    except NoFiniteOptimum as reason:
        uncalibrated = make_calibrator("base").fit(logits, labels)
        return Fit(uncalibrated, f"{type(method).__name__} could not be tuned: {reason} The model stays uncalibrated.")
    return Fit(fitted)
