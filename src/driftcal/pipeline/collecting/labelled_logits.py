"""Labelled data for a calibrator file: logits from a file, or inputs with the model that the file was tuned for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftcal.calibrators.serialization import load_file
from driftcal.data import Source
from driftcal.io.npz import INPUT_NAMES, LABEL_NAMES, LOGIT_NAMES, open_arrays
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.source_inputs import labelled_source
from driftcal.types import Array


@dataclass(frozen=True, eq=False)
class LabelledFile:
    """Logits, a label for each, and the group of each sample, if there are groups."""

    logits: Array
    labels: Array
    groups: Array | None = None


def read_labelled(path: str | os.PathLike[str]) -> LabelledFile:
    """Read a ``.npz`` file with ``logits`` (n, classes), ``y`` and perhaps ``groups``; pickled arrays are refused."""
    file = open_arrays(path)
    logits = file.find(LOGIT_NAMES, "logits", "If it holds inputs, name the model with --model.")
    return LabelledFile(logits, file.find(LABEL_NAMES, "labels"), file.get("groups"))


def read_inputs(path: str | os.PathLike[str], at_most: int) -> Array:
    """The first inputs of a ``.npy`` file, or of the array ``x`` (or the only one) in a ``.npz`` file."""
    file = open_arrays(path)
    is_single = file.is_npy or len(file.names) == 1
    return (file.single() if is_single else file.find(INPUT_NAMES, "inputs"))[:at_most]


@dataclass(frozen=True, eq=False)
class ModelWithData:
    """A calibrated model and labelled data for it."""

    calibrated: CalibratedModel
    source: Source


def open_with_data(
    calibrator: str | os.PathLike[str],
    model: str,
    data: str,
    *,
    force: bool = False,
    model_options: Mapping[str, Any] | None = None,
    **data_options: Any,
) -> ModelWithData:
    """The calibrated model of a file, and labelled data with the class names and categorical columns of that file.

    Parameters
    ----------
    calibrator
        A file that `CalibratedModel.save` wrote.
    model
        The model that it was tuned for; another one is refused unless `force`.
    data
        Anything that :func:`driftcal.open_source` opens.
    force
        Accept a model with another fingerprint.
    model_options
        Options of :func:`driftcal.open_model`.
    data_options
        Options of the data's format.
    """
    file = load_file(calibrator)
    recorded = {name: file.metadata.get(name, ()) for name in ("class_names", "categorical")}
    source = labelled_source(data, **recorded, **data_options)
    inputs = source.inputs(source.indices[:16])
    calibrated = CalibratedModel.load(file, model, force=force, inputs=inputs, **(model_options or {}))
    return ModelWithData(calibrated, source)


def collect_labelled(
    data: str, calibrator: str | os.PathLike[str], model: str, *, force: bool = False, **options: Any
) -> LabelledFile:
    """The logits of `model` on labelled inputs; `options` are those of the model."""
    opened = open_with_data(calibrator, model, data, force=force, model_options=options)
    source = opened.source
    return LabelledFile(opened.calibrated.logits(source.inputs()), source.labels, source.groups)
