"""The calibrator that an export gets: of a file, of a calibrated model or in memory, in the form that is exported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftcal.calibrators import Calibrator
from driftcal.calibrators.serialization import WINDOWED_NAME, load_file
from driftcal.decisions import Threshold, decisions_from_metadata
from driftcal.errors import ArtefactError, InputError
from driftcal.models.recorded_scores import SCORES
from driftcal.pipeline.calibrated_model import CalibratedModel

#: Where a calibrated model records the cross-validated ECE of its windowed form.
WINDOWED_ECE = "windowed_cross_validated_ece"


@dataclass(frozen=True, eq=False)
class Tuned:
    """A calibrator, the metadata of its model (None: unknown), the layers it reads, its ECE and the threshold."""

    calibrator: Calibrator
    model: Mapping[str, Any] | None = None
    layers: Sequence[str] = ()
    cross_validated_ece: Mapping[str, Any] | None = None
    threshold: Threshold | None = None


def load_tuned(calibrator: Any, *, force: bool, windowed: bool) -> Tuned:
    """The calibrator of a file, of a calibrated model, or in memory, in the form that is exported."""
    if isinstance(calibrator, CalibratedModel):
        model_metadata = dict(calibrator.model_metadata) or calibrator.model.metadata()
        threshold = calibrator.decision_threshold
        if windowed:
            chosen = _windowed_of(calibrator.windowed_calibrator, calibrator.calibrator, "this calibrated model")
            return Tuned(chosen, model_metadata, (), _recorded_ece(calibrator.metadata, WINDOWED_ECE), threshold)
        ece = _recorded_ece(calibrator.metadata)
        return Tuned(calibrator.calibrator, model_metadata, calibrator.layers, ece, threshold)
    if not isinstance(calibrator, str | os.PathLike):
        return Tuned(calibrator)  # in memory: the model is not recorded
    file = load_file(calibrator)
    recorded = file.metadata.get("model")
    if recorded is not None and recorded.get("framework") == SCORES:  # fitted on scores: the model is unknown
        recorded = None
    if recorded is None and not force:
        raise ArtefactError(
            f"{calibrator} must record which model it was tuned on; it is a calibrator alone, or was fitted on scores. Save a CalibratedModel, or pass force=True (--force)."
        )
    threshold = decisions_from_metadata(file.metadata, calibrator).threshold
    if windowed:
        chosen = _windowed_of(file.others.get(WINDOWED_NAME), file.calibrator, str(calibrator))
        return Tuned(chosen, recorded, (), _recorded_ece(file.metadata, WINDOWED_ECE), threshold)
    return Tuned(file.calibrator, recorded, file.metadata.get("layers", ()), _recorded_ece(file.metadata), threshold)


def _windowed_of(windowed: Calibrator | None, per_sample: Calibrator, subject: str) -> Calibrator:
    """The windowed calibrator of a file or a model."""
    if windowed is None and not per_sample.needs_window:
        raise InputError(
            f"windowed=True (--windowed) needs a windowed calibrator; {subject} has none. Leave it out, or tune with "
            "method='auto' or a windowed method such as window-ts."
        )
    return windowed or per_sample


def _recorded_ece(metadata: Mapping[str, Any], key: str = "cross_validated_ece") -> Mapping[str, Any] | None:
    """The cross-validated ECE of the exported calibrator and the words for the shift, if a file or a model has them."""
    ece, conditions = metadata.get(key), ("in_domain", "under_shift")
    if not isinstance(ece, Mapping) or not set(conditions) <= set(ece):
        return None
    shift = str(ece.get("shift", "the simulated shift"))  # version 0.1 did not write it
    return {**{condition: float(ece[condition]) for condition in conditions}, "shift": shift}
