"""The data of a caller, as a source of labelled inputs or as the array that a model runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftcal.core.inputs.array_dicts import as_array_dict, is_array_dict
from driftcal.core.inputs.frames import is_frame
from driftcal.core.inputs.images import check_images
from driftcal.core.inputs.texts import as_texts, is_text
from driftcal.core.labels import as_columns
from driftcal.data import Source, is_data_set, open_source
from driftcal.errors import InputError, LabelsError
from driftcal.io.fingerprint import fingerprint
from driftcal.models import Model
from driftcal.models.recorded_scores import ScoresModel, score_columns
from driftcal.types import AnyArray, Array, Inputs


def labelled_source(
    X: Any,
    y: AnyArray = None,
    *,
    class_names: Sequence[str] = (),
    categorical: Sequence[int] = (),
    tuned_on: Mapping[str, Any] | None = None,
    **options: Any,
) -> Source:
    """The labelled samples of arrays, a loader, a data set, a path, a name or a source.

    `class_names` are the classes in the order of the outputs; labels that are text need them. `categorical` are the
    columns of features that hold categories, unless the data declare them. `tuned_on` is the description of the data that a
    model was tuned on: an array with three axes holds series if these did. `options` are those of the data's format.
    """
    names = list(class_names) or None
    holds_labels = is_data_set(X) and not is_frame(X)
    if y is not None and holds_labels:
        raise LabelsError(
            f"y must be left out: the {type(X).__name__} holds the labels. Pass y with an array of inputs only."
        )
    if y is not None:
        shape = _recorded_shape(tuned_on)
        if shape and np.ndim(X) == 3 and not is_frame(X):
            _check_channels(np.shape(X), shape)
            options["layout"] = "NLC" if len(shape) == 2 else "NHW"
        source = open_source((X, y), class_names=names, **options)
    elif not holds_labels and (hasattr(X, "shape") or isinstance(X, list) or is_array_dict(X)):
        way_out = (
            'name its column: driftcal.open_source(X, label="...")'
            if is_frame(X)
            else "a source or a path that holds labels as well"
        )
        raise LabelsError(f"y must hold one label per input; it is missing. Pass y after X, or {way_out}.")
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


def as_inputs(X: AnyArray, tuned_on: Mapping[str, Any] | None = None) -> Inputs:
    """Inputs as a model takes them: uint8 images as numbers in [0, 1], grey images with a channel axis, frames as they are.

    Images are checked as `labelled_source` checks them. `tuned_on` is the description of the data that the model was tuned on: the
    inputs must be of the same kind, and if these were series, so is an array with three axes.
    """
    if isinstance(X, Source) or (is_data_set(X) and not is_frame(X)):
        raise InputError(
            f"inputs must be an array, a list of texts, a dictionary of arrays or a data frame; they are a {type(X).__name__}, which "
            "holds labels as well. Pass its inputs: driftcal.open_source(data).inputs()."
        )
    if isinstance(X, str):
        raise InputError("inputs must be a list, one text per sample; they are one text. Pass [text].")
    if is_array_dict(X):
        return as_array_dict(X, "inputs")
    if is_frame(X) or is_text(X):
        return as_texts(X) if is_text(X) else X
    array = np.asarray(X)
    shape = _recorded_shape(tuned_on)
    if array.ndim == 3 and len(shape) == 2:
        _check_channels(array.shape, shape)
        return array
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim == 4:
        check_images(array)
    _check_kind(np.shape(X), array, shape)
    return array / np.float32(255) if array.dtype == np.uint8 and array.ndim == 4 else array


def _recorded_shape(tuned_on: Mapping[str, Any] | None) -> list[int]:
    """The shape of one input of the data that a model was tuned on; [] if it is unknown."""
    return list((tuned_on or {}).get("input_shape", ()))


def _check_kind(given: tuple[int, ...], array: Array, recorded: list[int]) -> None:
    """Refuse another kind of inputs than that of the tuning, and images with other channels.

    `given` is the shape before grey images got a channel axis.
    """
    if not recorded or array.ndim not in (2, 4):  # unknown, text or dictionaries; or the model refuses it
        return
    is_image, was_image = array.ndim == 4, len(recorded) == 3
    if is_image == was_image and len(recorded) != 2 and not (is_image and array.shape[-1] != recorded[-1]):
        return
    kind = {3: "images (n, height, width, channels)", 2: "series (n, length, channels)"}.get(
        len(recorded), "features (n, F)"
    )
    way_out = " One image? Add an axis: x[None]." if given == tuple(recorded) else ""
    raise InputError(
        f"inputs must be {kind}, each of shape {tuple(recorded)} as those of the tuning; they are of shape {given}.{way_out}"
    )


def _check_channels(shape: tuple[int, ...], recorded: list[int]) -> None:
    """Refuse series with other channels: a classifier of flat vectors would not notice that axes are exchanged."""
    if len(recorded) == 2 and shape[-1] != recorded[-1]:
        way_out = " Move the axis: x.transpose(0, 2, 1)." if shape[1] == recorded[-1] else ""
        raise InputError(
            f"series must be (n, length, channels) with {recorded[-1]} channels, as those of the tuning; their shape is {shape}.{way_out}"
        )
