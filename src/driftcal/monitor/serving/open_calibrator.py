"""The calibrator of a monitor, with its drift reference and the names of its classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftcal.calibrators import Calibrator
from driftcal.calibrators.base import check_takes_logits
from driftcal.calibrators.serialization import load_file
from driftcal.drift.reference import DriftReference
from driftcal.errors import InputError
from driftcal.pipeline.calibrated_model import CalibratedModel

#: A calibrator, a calibrated model, or the path of a file that holds one.
CalibratorSource = Calibrator | CalibratedModel | str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class MonitoredCalibrator:
    """A calibrator, its drift reference if there is one, and the names of its classes if there are any."""

    calibrator: Calibrator
    drift_reference: DriftReference | None = None
    class_names: tuple[str, ...] = ()


def open_calibrator(
    source: CalibratorSource, drift_reference: DriftReference | None, class_names: Sequence[Any] | None
) -> MonitoredCalibrator:
    """The calibrator of a monitor. `drift_reference` and `class_names` replace those of its file."""
    opened = _open(source)
    calibrator = opened.calibrator
    if calibrator.needs_features:
        raise InputError(
            f"calibrator must calibrate logits alone to be monitored; {type(calibrator).__name__} also needs layer features, "
            'which a stream does not contain. Monitor a calibrator without them, such as method="ts".'
        )
    check_takes_logits(calibrator, "a monitored calibrator")
    n_classes = len(calibrator.classes_)
    reference = opened.drift_reference if drift_reference is None else drift_reference
    if reference is not None and reference.n_classes != n_classes:
        raise InputError(
            f"drift_reference must have the calibrator's {n_classes} classes; it has {reference.n_classes}. "
            "Make it from the perturbation levels of the same model."
        )
    if class_names is not None and len(class_names) != n_classes:
        raise InputError(
            f"class_names must name the calibrator's {n_classes} classes; it has {len(class_names)}. Pass one per column."
        )
    # calibrators of `tune` number their classes by column, and the file stores the names separately
    stored = opened.class_names if len(opened.class_names) == n_classes else calibrator.classes_.tolist()
    names = tuple(str(name) for name in (stored if class_names is None else class_names))
    return MonitoredCalibrator(calibrator, reference, names)


def _open(source: CalibratorSource) -> MonitoredCalibrator:
    if isinstance(source, Calibrator):
        return MonitoredCalibrator(source)
    if isinstance(source, CalibratedModel):
        calibrator, reference = source.calibrator, source.drift_reference
        names: Any = source.class_names
    else:
        file = load_file(source)
        calibrator, metadata = file.calibrator, file.metadata
        reference, names = metadata.get("drift_reference"), metadata.get("class_names")
    return MonitoredCalibrator(
        calibrator,
        DriftReference.from_dict(reference) if isinstance(reference, Mapping) else None,
        tuple(names) if isinstance(names, list | tuple) else (),  # a file may hold anything
    )
