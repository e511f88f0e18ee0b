"""A calibrator refitted to a blend of new rows and of what it knew, and the checks of such rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import Calibrator
from driftcal.calibrators.serialization import notes
from driftcal.core import validation
from driftcal.core.labels import as_columns, check_range
from driftcal.errors import LabelsError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits

#: Logits and column numbers.
Pair = tuple[Logits, Labels]

#: The new rows' logits times these stand for the rows the old calibrator knew: drift makes a model less sure. Their shares:
TEMPERS = {1.0: 1 / 2, 0.5: 1 / 6, 0.25: 1 / 6, 0.125: 1 / 6}
#: The old map's probabilities of a row count as so many labels with weights; with this many classes or fewer they are exact.
LABELS_PER_ROW = 8
#: Scores in the rows that stand for the old map: 128 MB of float32.
_MOST_SCORES = 1 << 25


def refit(fitted: Calibrator, rows: Pair, weight: float, known: Pair | None, seed: int) -> Calibrator:
    """The calibrator fitted to the blend; at weight 0 the old one."""
    if weight == 0:
        return fitted
    names = names_of(fitted)
    fresh = clone(fitted) if names is None else clone(fitted).set_params(classes=names)
    logits, labels, mass = [rows[0]], [rows[1]], [np.full(len(rows[1]), weight / len(rows[1]))]
    if weight < 1:
        old_logits, old_labels, old_mass = own_answers(fitted, rows[0], seed) if known is None else (*known, None)
        if old_mass is None:
            old_mass = np.full(len(old_labels), 1.0)
        logits.append(old_logits)
        labels.append(old_labels)
        mass.append((1 - weight) * old_mass / old_mass.sum())
    columns = np.concatenate(labels)
    total = np.concatenate(mass) * len(columns)  # a mean weight of 1 suits every fit's tolerances
    kind = np.result_type(*logits)
    fitted_now: Calibrator = fresh.fit(
        np.concatenate([part.astype(kind, copy=False) for part in logits]),
        columns if names is None else fitted.classes_[columns],
        sample_weight=total,
    )
    return fitted_now


def own_answers(fitted: Calibrator, logits: Logits, seed: int) -> tuple[Logits, Labels, Float64]:
    """Rows labelled by the calibrator itself: tempered logits, columns and weights.

    A row gets every class with its probability as weight; of more than 8 classes 8 equally heavy ones, drawn
    systematically, so that each class is expected as often as its probability says.
    """
    n_classes = logits.shape[1]
    per_row = min(n_classes, LABELS_PER_ROW)
    room = max(1, _MOST_SCORES // (n_classes * per_row * len(TEMPERS)))
    rng = np.random.default_rng(seed)
    if len(logits) > room:
        logits = logits[np.sort(rng.choice(len(logits), room, replace=False))]
    tempered = np.concatenate([np.asarray(temper * logits, logits.dtype) for temper in TEMPERS])
    share = np.repeat(list(TEMPERS.values()), len(logits))
    probabilities = fitted.predict_proba(tempered)
    if n_classes <= LABELS_PER_ROW:
        row, column = np.nonzero(probabilities)
        return tempered[row], column, share[row] * probabilities[row, column]
    steps = (rng.random((len(tempered), 1)) + np.arange(per_row)) / per_row
    ends = np.cumsum(probabilities, axis=1)
    column = np.stack([np.searchsorted(end / end[-1], at, side="right") for end, at in zip(ends, steps, strict=True)])
    row = np.repeat(np.arange(len(tempered)), per_row)
    return tempered[row], np.minimum(column, n_classes - 1).reshape(-1), share[row]


def names_of(fitted: Calibrator) -> list[Any] | None:
    """The classes by column where they have names."""
    numbered = np.array_equal(fitted.classes_, np.arange(fitted.n_features_in_))
    return None if numbered else fitted.classes_.tolist()


def class_names(given: Any, fitted: Calibrator) -> list[Any] | None:
    """The classes by column where they have names: the calibrator's own, or those that its file notes."""
    own = names_of(fitted)
    if own is None and isinstance(given, str | os.PathLike):
        return notes(given)["notes"].get("class_names") or None
    return own


def checked_pair(fitted: Calibrator, logits: AnyArray, y: AnyArray, name: str, names: list[Any] | None) -> Pair:
    """Checked logits and column numbers; numbers need no names, so that two classes of one name harm text alone."""
    scores, _ = validation.as_logits(logits)
    validation.finite_logits(scores, fitted.n_features_in_)
    if len(scores) > 1 and validation.looks_like_probabilities(scores, validation.ROUNDED_SUM_TOLERANCE):
        raise validation.probabilities_as_logits(name)
    by_name = names if names_of(fitted) is not None or validation.as_array(y, "y").dtype.kind in "OUST" else None
    labels, _ = as_columns(y, scores.shape[1], len(scores), classes=by_name)
    check_range(labels, scores.shape[1])
    return scores, labels


def check_classes(fitted: Calibrator, labels: Array, names: list[Any] | None) -> None:
    """Refuse labels of one class for a map that may change answers: it would learn to give that class to all, and be right."""
    if fitted.keeps_accuracy or not len(labels) or (labels != labels[0]).any():
        return
    named = [str(name) for name in (names or range(fitted.n_features_in_))]
    absent = [name for column, name in enumerate(named) if column != labels[0]]
    listed = ", ".join(absent[:10]) + (", …" if len(absent) > 10 else "")
    raise LabelsError(
        f"labels must be of two classes or more, since {type(fitted).__name__} may change answers; all {len(labels)} are {named[labels[0]]}, none is "
        f"{listed}. Collect rows of other classes, or recalibrate a method that keeps accuracy, such as ts."
    )
