"""What a monitor is made from: a calibrator, the profile of its ladder and the names of its classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from driftcal.calibrated import CalibratedModel
from driftcal.calibrators import Calibrator
from driftcal.calibrators.artefact import load as load_calibrator
from driftcal.calibrators.artefact import notes as artefact_notes
from driftcal.errors import InputError
from driftcal.profile import Profile

Opened = tuple[Calibrator, Profile | None, tuple[str, ...]]


def open_calibrator(
    source: Calibrator | CalibratedModel | str | os.PathLike[str],
    profile: Profile | None,
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
    profile = found if profile is None else profile
    if profile is not None and profile.n_classes != n_classes:
        raise InputError(
            f"profile must have the calibrator's {n_classes} classes; it has {profile.n_classes}. "
            "Make it from the ladder of the same model."
        )
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(
            f"class_names must name the calibrator's {n_classes} classes; it has {len(class_names)}. Give one per column."
        )
    # tune counts classes by column and keeps their names beside the calibrator
    usual = names if len(names) == n_classes else calibrator.classes_.tolist()
    return calibrator, profile, tuple(str(name) for name in (usual if class_names is None else class_names))


def _open(
    source: Calibrator | CalibratedModel | str | os.PathLike[str],
) -> tuple[Calibrator, Profile | None, Sequence[Any]]:
    if isinstance(source, Calibrator):
        return source, None, ()
    if isinstance(source, CalibratedModel):
        calibrator, profile, names = source.calibrator, source.profile, source.class_names
    else:
        notes = artefact_notes(source)["notes"]
        calibrator, profile, names = load_calibrator(source), notes.get("profile"), notes.get("class_names")
    named = names if isinstance(names, list | tuple) else ()  # notes may hold anything
    return calibrator, Profile.from_dict(profile) if isinstance(profile, Mapping) else None, named
