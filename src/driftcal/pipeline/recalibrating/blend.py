"""Refitting a calibrator on a blend of new labelled logits and the samples of the old fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import Calibrator
from driftcal.core import validation
from driftcal.core.labels import as_columns, check_range
from driftcal.errors import LabelsError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits

#: Factor -> share of the weight. The new logits times these factors replace the samples of the old fit, if these are
#: lost. Factors below 1 cover the lower confidence of a model under shift.
SCALES = {1.0: 1 / 2, 0.5: 1 / 6, 0.25: 1 / 6, 0.125: 1 / 6}
#: Labels that represent the old probabilities of a sample. They are exact with this many classes or fewer.
LABELS_PER_SAMPLE = 8
#: The most scores in the samples that replace the old fit: 128 MB of float32.
_MAX_SCORES = 1 << 25


@dataclass(frozen=True, eq=False)
class LabelledColumns:
    """Checked logits, the column of each label, and sample weights unless all are equal."""

    logits: Logits
    labels: Labels
    weights: Float64 | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Array) -> LabelledColumns:
        """The chosen samples."""
        return LabelledColumns(self.logits[chosen], self.labels[chosen])


def refit(
    calibrator: Calibrator, new: LabelledColumns, weight: float, old: LabelledColumns | None, random_state: int
) -> Calibrator:
    """The calibrator fitted on the blend, where new samples have the share `weight`; at 0 the calibrator itself."""
    if weight == 0:
        return calibrator
    names = names_of(calibrator)
    unfitted = clone(calibrator) if names is None else clone(calibrator).set_params(classes=names)
    parts, weights = [new], [np.full(len(new), weight / len(new))]
    if weight < 1:
        old_part = old or pseudo_labelled(calibrator, new.logits, random_state)
        old_weights = np.ones(len(old_part)) if old_part.weights is None else old_part.weights
        parts.append(old_part)
        weights.append((1 - weight) * old_weights / old_weights.sum())
    columns = np.concatenate([part.labels for part in parts])
    sample_weight = np.concatenate(weights) * len(columns)  # a mean weight of 1 suits the tolerances of all fits
    dtype = np.result_type(*[part.logits for part in parts])
    refitted: Calibrator = unfitted.fit(
        np.concatenate([part.logits.astype(dtype, copy=False) for part in parts]),
        columns if names is None else calibrator.classes_[columns],
        sample_weight=sample_weight,
    )
    return refitted


def pseudo_labelled(calibrator: Calibrator, logits: Logits, random_state: int) -> LabelledColumns:
    """Samples labelled by the calibrator itself: scaled logits, labels and weights.

    With up to 8 classes a sample gets every class as a label, with its probability as weight. With more classes a
    sample gets 8 labels of equal weight, by systematic sampling: the expected share of a class is its probability.
    """
    n_classes = logits.shape[1]
    per_sample = min(n_classes, LABELS_PER_SAMPLE)
    max_samples = max(1, _MAX_SCORES // (n_classes * per_sample * len(SCALES)))
    rng = np.random.default_rng(random_state)
    if len(logits) > max_samples:
        logits = logits[np.sort(rng.choice(len(logits), max_samples, replace=False))]
    scaled = np.concatenate([np.asarray(scale * logits, logits.dtype) for scale in SCALES])
    share = np.repeat(list(SCALES.values()), len(logits))
    probabilities = calibrator.predict_proba(scaled)
    if n_classes <= LABELS_PER_SAMPLE:
        sample, column = np.nonzero(probabilities)
        return LabelledColumns(scaled[sample], column, share[sample] * probabilities[sample, column])
    points = (rng.random((len(scaled), 1)) + np.arange(per_sample)) / per_sample
    cumulative = np.cumsum(probabilities, axis=1)
    column = np.stack([np.searchsorted(c / c[-1], at, side="right") for c, at in zip(cumulative, points, strict=True)])
    sample = np.repeat(np.arange(len(scaled)), per_sample)
    return LabelledColumns(scaled[sample], np.minimum(column, n_classes - 1).reshape(-1), share[sample])


def names_of(calibrator: Calibrator) -> list[Any] | None:
    """The classes by column; None where they are the numbers 0, 1, …"""
    numbered = np.array_equal(calibrator.classes_, np.arange(calibrator.n_features_in_))
    return None if numbered else calibrator.classes_.tolist()


def checked_samples(
    calibrator: Calibrator, logits: AnyArray, y: AnyArray, argument: str, names: Sequence[Any] | None
) -> LabelledColumns:
    """Checked logits and the column of each label.

    Class names are used for text only, so labels that are numbers work even if two classes share a name.
    """
    scores, _ = validation.as_logits(logits)
    validation.finite_logits(scores, calibrator.n_features_in_)
    if len(scores) > 1 and validation.looks_like_probabilities(scores, validation.ROUNDED_SUM_TOLERANCE):
        raise validation.probabilities_as_logits(argument)
    is_text = validation.as_array(y, "y").dtype.kind in "OUST"
    classes = list(names) if names is not None and (names_of(calibrator) is not None or is_text) else None
    labels, _ = as_columns(y, scores.shape[1], len(scores), classes=classes)
    check_range(labels, scores.shape[1])
    return LabelledColumns(scores, labels)


def check_several_classes(calibrator: Calibrator, labels: Labels, names: Sequence[Any] | None) -> None:
    """Refuse labels of one class for a calibrator that may change predictions: it would always predict that class."""
    if calibrator.keeps_accuracy or not len(labels) or (labels != labels[0]).any():
        return
    class_names = [str(name) for name in (names or range(calibrator.n_features_in_))]
    absent = [name for column, name in enumerate(class_names) if column != labels[0]]
    listed = ", ".join(absent[:10]) + (", …" if len(absent) > 10 else "")
    raise LabelsError(
        f"labels must be of two classes or more, since {type(calibrator).__name__} may change predictions; all {len(labels)} are "
        f"{class_names[labels[0]]}, none is {listed}. Collect samples of other classes, or recalibrate a method that keeps the accuracy, "
        "such as ts."
    )
