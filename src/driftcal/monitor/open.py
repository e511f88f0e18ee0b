"""What a monitor is made from: a calibrator, the profile of its ladder and the names of its classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from driftcal.calibrators import Calibrator
from driftcal.calibrators.serialization import load as load_calibrator
from driftcal.calibrators.serialization import notes as artefact_notes
from driftcal.drift.reference import DriftReference
from driftcal.errors import InputError
from driftcal.pipeline.calibrated_model import CalibratedModel

Opened = tuple[Calibrator, DriftReference | None, tuple[str, ...]]


def open_calibrator(
    source: Calibrator | CalibratedModel | str | os.PathLike[str],
    drift_reference: DriftReference | None,
    class_names: Sequence[Any] | None,
) -> Opened:
    """The calibrator with what was given beside it or, where nothing was, with what its file knows."""
    calibrator, found, names = _open(source)
    if calibrator.needs_features:
        raise InputError(
            f"a monitor must be able to calibrate logits alone; {type(calibrator).__name__} looks at the model's features as "
            'well, which no stream brings. Monitor a calibrator without them, such as method="ts".'
        )
    n_classes = len(calibrator.classes_)
    drift_reference = found if drift_reference is None else drift_reference
    if drift_reference is not None and drift_reference.n_classes != n_classes:
        raise InputError(
            f"drift_reference must have the calibrator's {n_classes} classes; it has {drift_reference.n_classes}. "
            "Make it from the ladder of the same model."
        )
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(
            f"class_names must name the calibrator's {n_classes} classes; it has {len(class_names)}. Give one per column."
        )
    # tune counts classes by column and keeps their names beside the calibrator
    usual = names if len(names) == n_classes else calibrator.classes_.tolist()
    return calibrator, drift_reference, tuple(str(name) for name in (usual if class_names is None else class_names))


def _open(
    source: Calibrator | CalibratedModel | str | os.PathLike[str],
) -> tuple[Calibrator, DriftReference | None, Sequence[Any]]:
    if isinstance(source, Calibrator):
        return source, None, ()
    if isinstance(source, CalibratedModel):
        calibrator, drift_reference, names = source.calibrator, source.drift_reference, source.class_names
    else:
        notes = artefact_notes(source)["notes"]
        calibrator, drift_reference, names = load_calibrator(source), notes.get("profile"), notes.get("class_names")
    named = names if isinstance(names, list | tuple) else ()  # notes may hold anything
    return (
        calibrator,
        DriftReference.from_dict(drift_reference) if isinstance(drift_reference, Mapping) else None,
        named,
    )
