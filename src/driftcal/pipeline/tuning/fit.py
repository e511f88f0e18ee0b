"""Fitting a calibrator on clean or perturbed logits; without an optimum the model stays uncalibrated."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.calibrators.levels import level_weights
from driftcal.engines.remote_passes import ConditionLogits, stack
from driftcal.errors import NoFiniteOptimum
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, family_of
from driftcal.types import AnyArray, Array, Labels


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted calibrator, and a warning if the method had no finite optimum, so that the model stays uncalibrated."""

    calibrator: Calibrator
    warning: str = ""

    @property
    def warnings(self) -> list[str]:
        """The warning, if there is one."""
        return [self.warning] if self.warning else []


@dataclass(frozen=True, eq=False)
class StackedLevels:
    """The samples of several levels together: logits, labels, the level of each sample, and sample weights.

    `labels` is None if `logits` holds them, as logits on workers do. `families` names the shift of each level.
    """

    logits: Any
    labels: Labels | None
    levels: Array
    sample_weight: Array | None
    families: list[str] | None = None


def stack_levels(
    by_level: Sequence[ConditionLogits],
    labels: Labels,
    *,
    clean_weight: float | None = None,
    selected: Array | None = None,
) -> StackedLevels:
    """Stack levels, of each only the `selected` samples; the clean level has the share `clean_weight` of all weight."""
    weights = level_weights(len(by_level), clean_weight)
    logits, stacked_labels = stack(by_level, labels, selected, weights=weights)
    n_samples = len(labels) if selected is None else np.count_nonzero(selected)
    return StackedLevels(
        logits,
        stacked_labels,
        levels=np.repeat(np.arange(len(by_level)), n_samples),
        sample_weight=None if weights is None or stacked_labels is None else np.repeat(weights, n_samples),
    )


def stack_for_windows(
    perturbed: PerturbedLogits, labels: Labels, *, selected: Array | None = None, leave_out: str | None = None
) -> StackedLevels:
    """Stack levels and simulated shifts for a windowed calibrator that leaves out families of shifts.

    Of each only the `selected` samples (a mask); without the shifts of the family `leave_out`.
    """
    kept = np.ones(len(labels), bool) if selected is None else selected
    record, simulated = perturbed.record, perturbed.simulated
    assert record is not None
    assert simulated is not None
    family = family_of(str(record["shift"]))
    by_level = perturbed.by_level[:1] if family == leave_out else perturbed.by_level
    n = int(np.count_nonzero(kept))
    others = simulated.selected(kept, leave_out=() if leave_out is None else (leave_out,))
    logits, simulated_labels, numbers, families = others.stacked(labels)
    return StackedLevels(
        np.concatenate([*(np.asarray(level)[kept] for level in by_level), logits]),
        np.concatenate([np.tile(labels[kept], len(by_level)), simulated_labels]),
        np.concatenate([np.repeat(np.arange(len(by_level)), n), len(by_level) + numbers]),
        None,
        [family] * len(by_level) + families,
    )


def stack_simulated(
    perturbed: PerturbedLogits,
    labels: Labels,
    *,
    clean_weight: float | None = None,
    selected: Array | None = None,
    leave_out: Container[str] = (),
    max_samples: int | None = None,
) -> StackedLevels:
    """Stack clean samples and simulated shifts for a per-sample calibrator; clean ones have the share `clean_weight`.

    Of each only the `selected` samples (a mask), without the families `leave_out`, and of the shifted ones only about
    `max_samples`.
    """
    assert perturbed.simulated is not None
    kept = np.ones(len(labels), bool) if selected is None else selected
    shifted = perturbed.simulated.selected(kept, leave_out=leave_out)
    if max_samples is not None:
        shifted = shifted.thinned(max_samples)
    logits, shifted_labels, numbers, _ = shifted.stacked(labels)
    n_clean, n_shifted = int(np.count_nonzero(kept)), len(shifted_labels)
    weights = np.ones(n_clean + n_shifted)
    if clean_weight is not None:
        weights[:n_clean] = clean_weight * len(weights) / n_clean
        weights[n_clean:] = (1 - clean_weight) * len(weights) / n_shifted
    return StackedLevels(
        np.concatenate([np.asarray(perturbed.clean)[kept], logits]),
        np.concatenate([labels[kept], shifted_labels]),
        np.concatenate([np.zeros(n_clean, int), 1 + numbers]),
        weights,
    )


def fit_on_simulated(
    method: Calibrator, perturbed: PerturbedLogits, labels: Labels, *, clean_weight: float | None = None
) -> Fit:
    """A copy of `method` fitted on the clean samples and all simulated shifts, each sample with its weight."""
    stacked = stack_simulated(perturbed, labels, clean_weight=clean_weight)
    return fit_or_uncalibrated(
        method, stacked.logits, stacked.labels, levels=stacked.levels, sample_weight=stacked.sample_weight
    )


def fit_on_levels(
    method: Calibrator,
    perturbed: PerturbedLogits,
    labels: Labels,
    *,
    clean_weight: float | None = None,
    features: Mapping[str, Any] | None = None,
) -> Fit:
    """A copy of `method` fitted on all levels (-P); the clean level has the share `clean_weight` of all weight."""
    stacked = (
        stack_for_windows(perturbed, labels)
        if method.uses_families and perturbed.simulated is not None
        else stack_levels(perturbed.by_level, labels, clean_weight=clean_weight)
    )
    return fit_or_uncalibrated(
        method,
        stacked.logits,
        stacked.labels,
        levels=stacked.levels,
        sample_weight=stacked.sample_weight,
        features=features,
        families=stacked.families,
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
    families: Sequence[str] | None = None,
) -> Fit:
    """A fitted copy of `method`; the uncalibrated model, with a warning, if there is no finite optimum.

    `features` holds the arguments ``features`` and ``reference`` of `fit`, for a method that needs them.
    """
    fitted: Calibrator = clone(method)
    try:
        fitted.fit(logits, labels, levels=levels, sample_weight=sample_weight, families=families, **(features or {}))
    except NoFiniteOptimum as reason:
        uncalibrated = make_calibrator("base").fit(logits, labels)
        return Fit(uncalibrated, f"{type(method).__name__} could not be tuned: {reason} The model stays uncalibrated.")
    return Fit(fitted)
