"""Labelled logits from a file, or from inputs and the model that a calibrator was tuned on; inputs to try a model on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from driftcal.calibrators.serialization import notes
from driftcal.data import open_source
from driftcal.io.npz import INPUT_NAMES, LABEL_NAMES, LOGIT_NAMES, open_arrays
from driftcal.models import open_model
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.types import Array


@dataclass(frozen=True, eq=False)
class Labelled:
    """Logits, one label each, and groups of rows that belong together, if there are any."""

    logits: Array
    labels: Array
    groups: Array | None = None


def read_labelled(path: str | os.PathLike[str]) -> Labelled:
    """A ``.npz`` file with ``logits`` (n, classes), ``y`` and, if it has them, ``groups``; pickled arrays are refused."""
    file = open_arrays(path)
    logits = file.find(LOGIT_NAMES, "logits", "If it holds inputs, name the model with --model.")
    return Labelled(logits, file.find(LABEL_NAMES, "labels"), file.get("groups"))


def read_rows(path: str | os.PathLike[str], most: int) -> Array:
    """The first rows, `most` of them, of a ``.npy`` file or of the inputs (``x``, or its only array) in a ``.npz`` file."""
    file = open_arrays(path)
    is_single = file.is_npy or len(file.names) == 1
    return (file.single() if is_single else file.find(INPUT_NAMES, "inputs"))[:most]


def answer_labelled(
    data: str, calibrator: str | os.PathLike[str], model: str, *, force: bool = False, **options: Any
) -> Labelled:
    """The logits that `model` gives to labelled inputs; another model than the calibrator's is refused unless `force`."""
    source = open_source(data).labelled()
    recorded = notes(calibrator)["notes"].get("model") or {}
    wish = {key: recorded[key] for key in ("preprocessing", "outputs") if key in recorded}
    opened = open_model(model, **{**wish, **options})
    opened.prepare(source.inputs(source.indices[:16]))
    tuned = CalibratedModel.load(calibrator, opened, force=force)
    source = source.with_classes(tuned.class_names)
    return Labelled(tuned.logits(source.inputs()), source.labels, source.groups)
