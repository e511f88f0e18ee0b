"""Calibrating recorded scores, without the model that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.levels import check_clean_weight
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.labels import declared_classes
from driftcal.errors import InputError
from driftcal.models.recorded_scores import ScoresModel
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.input_warnings import find_warnings, impossible_label_warnings, warn
from driftcal.pipeline.collecting.layer_features import check_features
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, table_record
from driftcal.pipeline.collecting.source_inputs import scores_source
from driftcal.pipeline.tuning.candidates import Selection, method_calibrator
from driftcal.pipeline.tuning.tune import MethodName
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators
from driftcal.pipeline.tuning.tuned_model import tuned_model
from driftcal.types import AnyArray, Array, Labels, Logits

#: The name of the perturbation where the caller gives the level of each sample.
GIVEN_LEVELS = "given levels"


def fit(
    scores: AnyArray,
    y: AnyArray,
    *,
    method: MethodName | str | Calibrator | Selection = "auto",
    score_type: str | None = None,
    levels: AnyArray = None,
    class_names: Sequence[Any] | None = None,
    clean_weight: float | None = None,
) -> CalibratedModel:
    """Calibrate recorded scores. The result is used like that of :func:`driftcal.tune`, with scores as its inputs.

    Parameters
    ----------
    scores
        (n, C), a column per class; or (n,), those of class 1. An array or a data frame.
    y
        One label per sample: a column number, or one of `class_names`.
    method
        "auto" compares all methods by cross-validation, temperature scaling among them; or the short name of a
        calibrator; or an unfitted calibrator; or a :class:`Selection`.
    score_type
        "logits" or "probabilities". Scores with one column need it. Other scores are logits without it.
    levels
        The perturbation level of each sample, 0 for clean, if the same samples were scored at several levels. Each
        level holds the same samples in the same order. None: all samples are clean.
    class_names
        The class of each column. None: the columns of a data frame if the labels are among them, else numbers.
    clean_weight
        With levels: the share of the clean samples in all weight, between 0 and 1.

    Returns
    -------
    CalibratedModel
        ``predict_proba(scores)``, ``save``, ``threshold``; `evaluate` and `write_report` take it.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(1000, 3))
    >>> y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> calibrated = fit(logits, y, method="ts")
    >>> round(calibrated.calibrator.temperature_, 1), calibrated.predict_proba(logits).shape
    (2.0, (1000, 3))
    """
    calibrator = method_calibrator(method)
    check_features(calibrator, None)
    if clean_weight is not None:
        check_clean_weight(clean_weight)
        if levels is None:
            raise InputError(
                f"clean_weight weighs clean samples against perturbed ones; without levels all are clean, and it is {clean_weight!r}. "
                "Leave it out, or pass levels."
            )
    names = declared_classes(scores, y, class_names)
    model = ScoresModel.of(scores, score_type, names)
    source = scores_source(model, scores, y, class_names=names or ())
    logits, labels = model.logits(scores), source.all_labels
    accuracy = LabelledLogits(logits, labels).accuracy  # the scan also refuses unusable samples
    perturbed, clean = PerturbedLogits(None, [logits]), np.arange(len(labels))
    if levels is not None:
        perturbed, clean = _by_level(logits, labels, levels)
        accuracy = float(perturbed.record["levels"][0]["accuracy"]) if perturbed.record else accuracy
    labels = labels[clean]
    warnings = [
        *find_warnings(accuracy, labels, source.class_names, model.n_classes),
        *impossible_label_warnings(np.asarray(perturbed.clean), labels),
    ]
    warn(warnings)
    tuned = tune_calibrators(
        calibrator,
        method if isinstance(method, Selection) else Selection(),
        perturbed,
        labels,
        clean_weight=clean_weight,
    )
    return tuned_model(model, source, perturbed, labels, tuned, accuracy=accuracy, warnings=warnings)


def _by_level(logits: Logits, labels: Labels, levels: AnyArray) -> tuple[PerturbedLogits, Array]:
    """The logits of each level, the clean one first, and the indices of the clean samples."""
    level_of_sample = validation.as_array(levels, "levels").reshape(-1)
    if len(level_of_sample) != len(labels) or level_of_sample.dtype.kind not in "iuf":
        raise InputError(
            f"levels must hold one number per sample; there are {len(labels)} samples, and levels are {level_of_sample.dtype} "
            f"of shape {level_of_sample.shape}."
        )
    values = np.unique(level_of_sample)
    if values[0] != 0:
        raise InputError(
            f"levels must hold 0, the clean samples; the lowest is {values[0]:g}. Number the levels from 0."
        )
    indices = [np.flatnonzero(level_of_sample == value) for value in values]
    clean = indices[0]
    for value, of_level in zip(values[1:], indices[1:], strict=True):
        if not np.array_equal(labels[of_level], labels[clean]):
            raise InputError(
                f"each level must hold the same samples in the same order; level {value:g} has {len(of_level)} samples and other labels "
                f"than level 0 with {len(clean)}. Score the same samples at every level."
            )
    by_level = [logits[of_level] for of_level in indices]
    if len(values) == 1:
        return PerturbedLogits(None, by_level), clean
    accuracies = [float(np.mean(of_level.argmax(axis=1) == labels[clean])) for of_level in by_level]
    record = table_record(GIVEN_LEVELS, values.tolist(), accuracies, len(clean))
    return PerturbedLogits(record, by_level), clean
