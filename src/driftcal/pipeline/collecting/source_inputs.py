"""The data of a caller, as a source of labelled inputs or as the array that a model runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.core.array_dicts import as_array_dict, is_array_dict
from driftcal.core.labels import as_columns
from driftcal.core.tables import is_frame
from driftcal.core.texts import as_texts, is_text
from driftcal.data import Source, is_data_set, open_source
from driftcal.errors import InputError, LabelsError
from driftcal.io.fingerprint import fingerprint
from driftcal.models import Model
from driftcal.models.scores import ScoresModel, score_columns
from driftcal.types import AnyArray, Inputs


def labelled_source(
    X: Any, y: AnyArray = None, *, class_names: Sequence[str] = (), categorical: Sequence[int] = (), **options: Any
) -> Source:
    """The labelled samples of arrays, a loader, a data set, a path, a name or a source.

    `class_names` are the classes in the order of the outputs; labels that are text need them. `categorical` are the
    columns of features that hold categories, unless the data declare them. `options` are those of the data's format.
    """
    names = list(class_names) or None
    holds_labels = is_data_set(X) and not is_frame(X)
    if y is not None and holds_labels:
        raise LabelsError(
            f"y must be left out: the {type(X).__name__} holds the labels. Pass y with an array of inputs only."
        )
    if y is not None:
        source = open_source((X, y), class_names=names)
    elif (hasattr(X, "shape") and not holds_labels) or isinstance(X, list) or is_array_dict(X):
        raise LabelsError(
            "y must hold one label per input; it is missing. Pass y after X, or a source or a path that holds labels as well."
        )
    else:
        numbered = names is None or names == [str(column) for column in range(len(names))]
        source = open_source(X, class_names=None if numbered else names, **options)
    if len(categorical) and not source.categorical and source.kind == "features":
        source = source.with_categorical(categorical)
    return source.labelled()


def scores_source(
    model: ScoresModel, scores: Any, y: AnyArray = None, *, class_names: Sequence[Any] = (), name: str = "scores"
) -> Source:
    """Labelled scores as a source: its inputs are the scores."""
    if isinstance(scores, Source):
        return scores.labelled()
    columns = score_columns(scores)
    labels, classes = as_columns(y, model.n_classes, len(columns), classes=class_names or None, argument="class_names")
    return Source(
        name,
        lambda indices: columns[indices],
        labels,
        tuple(map(str, classes.tolist())),
        content=lambda: fingerprint({"scores": columns, "score_type": model.outputs}),
    )


def check_classes(model: Model, source: Source) -> None:
    """Refuse data whose classes do not match the outputs of a prepared model."""
    if source.has_class_names and source.n_classes != model.n_classes:
        raise InputError(
            f"the data must name all {model.n_classes} classes of the model, in the order of its outputs; {source.name} names "
            f"{source.n_classes}: {', '.join(source.class_names[:5])} …. Pass open_model(model, class_names=[...]) (--classes)."
        )
    if source.labels.max() >= model.n_classes:
        raise InputError(
            f"labels must be 0..{model.n_classes - 1} for a model with {model.n_classes} outputs; {source.name} holds "
            f"{source.labels.max()}. Do the model and the data belong together?"
        )


def as_inputs(X: AnyArray) -> Inputs:
    """Inputs as a model takes them: uint8 images as numbers in [0, 1], grey images with a channel axis, frames as they are."""
    if is_array_dict(X):
        return as_array_dict(X, "inputs")
    if is_frame(X) or is_text(X):
        return as_texts(X) if is_text(X) else X
    array = np.asarray(X)
    if array.dtype == np.uint8 and array.ndim >= 3:
        array = array / np.float32(255)
    return array[..., None] if array.ndim == 3 else array
