"""The drift reference: what validation samples look like without labels, at each perturbation level.

A sample has four numbers in [0, 1], its drift statistics; a window has their means. `DriftReference` keeps their means at
each perturbation level that a calibrator was tuned on, with the accuracy there. From the means of an unlabelled window it
estimates the window's accuracy in several ways.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from driftcal.core import validation
from driftcal.core.labels import as_columns
from driftcal.drift.estimator_errors import choose_estimator
from driftcal.drift.estimators import (
    DRIFT_STATISTICS,
    ESTIMATORS,
    NEGATIVE_ENTROPY,
    OLD_ESTIMATORS,
    atc_threshold,
    check_estimator,
)
from driftcal.drift.label_free_statistics import normalised_negative_entropy, sample_statistics
from driftcal.drift.level_scale import LevelScale, interpolate_levels
from driftcal.engines.remote_passes import StoredLogits, map_logits
from driftcal.errors import ArtefactError, InputError
from driftcal.types import AnyArray, Array, Float64, Logits, Probs

#: Fewer validation samples than this give no useful means.
MIN_SAMPLES = 20
#: Key in files of version 0.1 -> key.
OLD_KEYS = {
    "rows": "n_samples",
    "deviation": "standard_deviation",
    "shares": "class_shares",
    "noisier": "perturbed",
    "harder": "reweighted",
    **OLD_ESTIMATORS,
}


class CalibratesLogits(Protocol):
    """What a reference needs of a calibrator."""

    classes_: Array

    def predict_proba(self, logits: AnyArray) -> Probs:
        """Calibrated probabilities."""


@dataclass(frozen=True)
class DriftReference:
    """Mean drift statistics and accuracy of validation samples at each perturbation level, the clean one first.

    Parameters
    ----------
    temperature : temperature fitted on the clean samples.
    threshold : ATC threshold: as many clean samples have a lower negative entropy as are predicted incorrectly.
    accuracies : accuracy at each level.
    means : (levels, 4): mean `DRIFT_STATISTICS` at each level.
    n_samples : samples per level.
    standard_deviation, skewness : of the normalised negative entropy of one clean sample.
    class_shares : shares of the predicted classes among the clean samples.
    estimator : the accuracy estimator with the smallest error on these samples.
    errors : errors of all estimators, see :func:`driftcal.drift.estimator_errors.choose_estimator`.
    """

    temperature: float
    threshold: float
    accuracies: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]
    n_samples: int
    standard_deviation: float
    skewness: float
    class_shares: tuple[float, ...]
    estimator: str
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, level_logits: Sequence[AnyArray], y: AnyArray, calibrator: CalibratesLogits, *, temperature: float
    ) -> DriftReference:
        """The reference of one validation set at each perturbation level.

        Parameters
        ----------
        level_logits : logits of the same labelled samples at each level, the clean level first.
        y : their labels.
        calibrator : the fitted calibrator whose confidence is monitored.
        temperature : temperature of temperature scaling on the clean samples.
        """
        if not len(level_logits):
            raise InputError("level_logits must hold the logits of at least one level, the clean one; it is empty.")
        logits = [
            level if isinstance(level, StoredLogits) else validation.as_logits(level)[0] for level in level_logits
        ]
        n_classes = logits[0].shape[1]
        labels, _ = as_columns(y, n_classes, len(logits[0]), classes=calibrator.classes_.tolist())
        if len({level.shape for level in logits}) > 1 or len(labels) < MIN_SAMPLES:
            raise InputError(
                f"each level must hold the same samples, at least {MIN_SAMPLES}; "
                f"their shapes are {[level.shape for level in logits]}. Pass the logits of one validation set at each level."
            )
        predicted = map_logits(_predicted, logits, {})
        correct = np.stack([columns == labels for columns in predicted])
        clean = map_logits(sample_statistics, logits[:1], {"temperature": temperature})[0]
        negative_entropy = normalised_negative_entropy(clean[:, 1], n_classes)
        threshold = atc_threshold(negative_entropy, correct[0])
        settings = {"calibrator": calibrator, "temperature": temperature, "threshold": threshold}
        statistics = np.stack(map_logits(_calibrated_statistics, logits, settings))
        deviation = float(negative_entropy.std())
        centred = negative_entropy - negative_entropy.mean()
        reference = cls(
            temperature=temperature,
            threshold=threshold,
            accuracies=tuple(correct.mean(axis=1).tolist()),
            means=tuple(map(tuple, statistics.mean(axis=1).tolist())),
            n_samples=len(labels),
            standard_deviation=deviation,
            skewness=float(np.mean((centred / deviation) ** 3)) if deviation > 0 else 0.0,
            class_shares=tuple((np.bincount(predicted[0], minlength=n_classes) / len(labels)).tolist()),
            estimator="confidence",
        )
        return choose_estimator(reference, statistics[0], correct[0])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.class_shares)

    @property
    def n_levels(self) -> int:
        """The number of perturbation levels, the clean one included."""
        return len(self.accuracies)

    @property
    def halfway_to_chance(self) -> float:
        """The accuracy half-way between that of clean samples and chance."""
        return (self.accuracies[0] + 1 / self.n_classes) / 2

    def statistics(self, logits: Logits, calibrated: Probs) -> Float64:
        """(n, 4) in [0, 1]: the drift statistics of checked samples, given the calibrator's probabilities."""
        return _statistics(logits, calibrated, self.temperature, self.threshold)

    def level_position(self, means: Float64) -> float:
        """The position of a window between the levels, from 0 (clean) to the last, by its mean negative entropy.

        Some models grow more confident under noise; their scale is reversed.
        """
        by_level = np.array([level_means[NEGATIVE_ENTROPY] for level_means in self.means])
        sign = -1.0 if by_level.mean() > by_level[0] else 1.0
        return LevelScale.of(sign * by_level).position(sign * float(means[NEGATIVE_ENTROPY]))

    def accuracy_gradient(self, means: Float64) -> float:
        """The change of the levels' accuracy per unit of negative entropy around a window."""
        step = 0.01  # about the standard error of a window of a thousand samples
        low, high = (self.level_position(np.array([0, 0, means[NEGATIVE_ENTROPY] + side, 0])) for side in (-step, step))
        return abs(interpolate_levels(self.accuracies, high) - interpolate_levels(self.accuracies, low)) / (2 * step)

    def estimate(self, name: str, means: Float64) -> float:
        """The accuracy of a window of unlabelled samples from their mean drift statistics, by one of the `ESTIMATORS`."""
        return float(np.clip(ESTIMATORS[check_estimator(name)](self, means), 0, 1))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            **asdict(self),
            "accuracies": list(self.accuracies),
            "means": [list(level_means) for level_means in self.means],
            "class_shares": list(self.class_shares),
            "errors": {name: dict(error) for name, error in self.errors.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DriftReference:
        """What `to_dict` gave, also in version 0.1, after checking that it can be used."""
        try:
            current = rename_keys(values, OLD_KEYS)
            current["estimator"] = check_estimator(current["estimator"])
            reference = cls(
                **{
                    **current,
                    **{name: tuple(map(float, current[name])) for name in ("accuracies", "class_shares")},
                    "means": tuple(tuple(map(float, level_means)) for level_means in current["means"]),
                    "errors": {
                        name: {k: float(v) for k, v in e.items()} for name, e in current.get("errors", {}).items()
                    },
                }
            )
            usable = reference._is_usable()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise ArtefactError(
                f"a drift reference must hold what DriftReference.of computed; it does not: {error}. Tune again."
            ) from error
        if not usable:
            raise ArtefactError("a drift reference must hold numbers that fit each other; these do not. Tune again.")
        return reference

    def _is_usable(self) -> bool:
        shares = np.array([*self.accuracies, *self.class_shares, *np.ravel(self.means), self.standard_deviation])
        return (
            np.shape(self.means) == (self.n_levels, len(DRIFT_STATISTICS))
            and bool(((shares >= 0) & (shares <= 1 + 1e-9)).all())
            and all(map(math.isfinite, (self.temperature, self.threshold, self.n_samples, self.skewness)))
            and self.temperature > 0
            and self.n_samples > 0
        )


def rename_keys(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The same values with keys of nested mappings renamed."""
    return {
        names.get(key, key): rename_keys(value, names) if isinstance(value, Mapping) else value
        for key, value in values.items()
    }


def _predicted(logits: Logits) -> Array:
    columns: Array = logits.argmax(axis=1)
    return columns


def _calibrated_statistics(
    logits: Logits, calibrator: CalibratesLogits, temperature: float, threshold: float
) -> Float64:
    return _statistics(logits, calibrator.predict_proba(logits), temperature, threshold)


def _statistics(logits: Logits, calibrated: Probs, temperature: float, threshold: float) -> Float64:
    """The `DRIFT_STATISTICS` of each sample."""
    confidence, entropy = sample_statistics(logits, temperature)[:, :2].T
    negative_entropy = normalised_negative_entropy(entropy, logits.shape[1])
    columns = [calibrated.max(axis=1), confidence, negative_entropy, negative_entropy >= threshold]
    statistics: Float64 = np.clip(np.stack(columns, axis=1), 0, 1)
    return statistics
