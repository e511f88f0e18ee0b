"""Batches as data loaders give them, tuples or dictionaries of tensors, as inputs and labels of a source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict, as_array_dict, is_array_dict
from driftcal.core.inputs.images import check_pixels
from driftcal.core.labels import columns_and_names, from_one_hot, in_order_of_names
from driftcal.core.validation import NUMBER_KINDS, as_array, is_matrix_of_integers
from driftcal.data.layout import Layout, arranged, check_series
from driftcal.data.source import Source
from driftcal.errors import DataError, ImagesError, InputError, LabelsError
from driftcal.io.fingerprint import fingerprint
from driftcal.types import Array, Indices, Inputs, Labels

#: Names under which inputs and labels are found in a dict.
INPUT_KEYS = ("x", "image", "images", "img", "pixel_values", "inputs", "input", "features", "data")
LABEL_KEYS = ("y", "label", "labels", "target", "targets", "fine_label")

#: Samples that are read at a time while labels and fingerprint are collected.
_BLOCK = 64
#: Samples that are read a second time, to notice random transforms.
_READ_TWICE = 4


@dataclass(frozen=True)
class BatchFormat:
    """Where a batch holds its inputs and labels, and the normalisation that its images have.

    Parameters
    ----------
    inputs, label
        Keys of a dict, or positions in a tuple. None: the usual names; a tuple of two is (inputs, labels). Several keys are
        a dictionary of arrays; so are all keys but the label, if a dict has none of the usual names for inputs.
    mean, std
        The normalisation that the data set applied to images. It is undone, because shifts act on images in [0, 1]; give
        the same numbers to the model as `preprocessing`.
    layout
        The axes of batches that may be images or series, as in `from_arrays`.
    """

    inputs: str | int | Sequence[str] | None = None
    label: str | int | None = None
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    layout: Layout | None = None

    def split(self, batch: Any) -> tuple[Any, Any]:
        """The inputs and the labels of a batch, or of a sample."""
        if isinstance(batch, Mapping):
            keys = list(batch)
            label = _key(self.label, keys, LABEL_KEYS, "label")
            names = self._input_names(keys, label)
            return (batch[names] if isinstance(names, str) else {name: batch[name] for name in names}), batch[label]
        if not isinstance(batch, list | tuple):
            raise DataError(
                f"a batch must hold inputs and labels, as a tuple or a dict; it is a {type(batch).__name__}. Is the data set labelled?"
            )
        is_plain = self.inputs is None and self.label is None
        if len(batch) == 2 and (is_plain or isinstance(batch[0], Mapping)):
            return batch[0], batch[1]
        positions = self.inputs, self.label
        if any(not isinstance(p, int) or not -len(batch) <= p < len(batch) for p in positions):
            raise DataError(
                f"a tuple must be (inputs, labels), or say where they are; it has {len(batch)} items. Pass "
                "open_source(data, inputs=0, label=1)."
            )
        return batch[self.inputs], batch[self.label]  # type: ignore[index]

    def _input_names(self, keys: list[Any], label: Any) -> str | list[str]:
        """The key of the inputs in a dict, or several."""
        if self.inputs is not None and not isinstance(self.inputs, str | int):
            return [_key(name, keys, (), "inputs") for name in self.inputs]
        if self.inputs is None and not any(name in keys for name in INPUT_KEYS) and len(keys) > 1:
            return [name for name in keys if name != label]
        name: str = _key(self.inputs, keys, INPUT_KEYS, "inputs")
        return name

    def as_inputs(self, raw: Any, first: int) -> Inputs:
        """Float32 images (n, H, W, C) in [0, 1], features, or a dictionary; `first` is the number of the first sample."""
        if is_array_dict(raw):
            return as_array_dict(raw, "inputs")
        is_tensor = hasattr(raw, "detach")
        x = as_array(raw, "inputs", ImagesError)
        if x.ndim not in (2, 3, 4) or x.dtype.kind not in NUMBER_KINDS:
            raise ImagesError(
                f"inputs must be images or features, one shape for all; a batch is {x.dtype} of shape {x.shape}. "
                "Let the collate function return numbers."
            )
        if x.ndim == 2:
            return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
        if x.ndim == 3 or self.layout is not None:
            x = arranged(x, self.layout)
            if x.ndim == 3:
                check_series(x, first)
                return np.ascontiguousarray(x, np.float32)
        elif x.shape[1] in (1, 3) and (is_tensor or x.shape[3] not in (1, 3)):  # torch puts channels first
            x = np.moveaxis(x, 1, 3)
        if x.dtype == np.uint8:
            return np.divide(x, np.float32(255), dtype=np.float32)
        images = np.ascontiguousarray(x, np.float32)
        if self.mean or self.std:
            images = images * np.asarray(self.std or 1, np.float32) + np.asarray(self.mean or 0, np.float32)
            images = np.where(np.abs(images - 0.5) < 0.5 + 1e-4, np.clip(images, 0, 1), images)  # rounding
        try:
            check_pixels(images, first)
        except ImagesError as error:
            if self.mean or self.std or "Undo that" not in str(error):
                raise
            raise ImagesError(
                f"{error} Here: driftcal.open_source(data, mean=..., std=...) with the numbers of the data set's Normalize, and "
                "open_model(model, preprocessing=driftcal.Preprocessing(mean=..., std=...))."
            ) from None
        return images


#: Positions of samples -> a batch of them.
ReadBatch = Callable[[Sequence[int]], Any]


def indexed_source(
    name: str,
    read_batch: ReadBatch,
    n_samples: int,
    batch_format: BatchFormat,
    class_names: Sequence[str] | None,
    stored_names: Sequence[str] | None = None,
) -> Source:
    """A source of samples that can be read by their positions.

    All samples are read once, in order, for the labels and the fingerprint. Afterwards inputs are read when they are
    needed, so that the whole data set is never in memory. `stored_names` are the names that the data set has for its
    classes: its whole numbers are columns of them.
    """
    if n_samples == 0:
        raise DataError(f"{name} must have at least one sample; it has none.")
    digest, labels = hashlib.sha256(), []
    head: Any = np.zeros(0)
    integers = False
    for start in range(0, n_samples, _BLOCK):
        positions = range(start, min(n_samples, start + _BLOCK))
        raw, batch_labels = batch_format.split(read_batch(positions))
        inputs = batch_format.as_inputs(raw, start)
        if len(inputs) != len(positions):  # later labels would be those of other samples
            raise DataError(
                f"a batch of {name} must hold one sample per index; for {len(positions)} indices it holds {len(inputs)}. Leave samples "
                "out of the data set, for instance with torch.utils.data.Subset, and not in the collate function."
            )
        if start == 0:
            head, integers = inputs[:_READ_TWICE], is_matrix_of_integers(raw)
            digest.update(f"{_dtype_and_shape(inputs)}".encode())
        if _shape_of_one(inputs) != _shape_of_one(head):
            raise _sizes_differ(name, _shape_of_one(head), _shape_of_one(inputs))
        digest.update(inputs.tobytes())
        labels.append(_label_array(batch_labels, len(inputs)))
    again, _ = batch_format.split(read_batch(range(min(_READ_TWICE, n_samples))))
    if not _are_equal(batch_format.as_inputs(again, 0), head):
        raise DataError(
            f"{name} must give the same sample each time; its first samples differ at a second reading. Use the transforms "
            "of the evaluation, without random crops, flips or noise."
        )
    columns, names = _columns(np.concatenate(labels), class_names, stored_names)
    content = digest.hexdigest()

    def read(indices: Indices) -> Inputs:
        raw, _ = batch_format.split(read_batch([int(index) for index in indices]))
        return batch_format.as_inputs(raw, int(indices[0]) if len(indices) else 0)

    return Source(name, read, columns, names, content=lambda: content, holds_whole_numbers=integers)


def streamed_source(
    name: str,
    batches: Callable[[], Iterator[Any]],
    batch_format: BatchFormat,
    class_names: Sequence[str] | None,
    stored_names: Sequence[str] | None = None,
) -> Source:
    """A source of samples that come in their own order: they are read once and kept in memory."""
    inputs: list[Any] = []
    labels: list[Array] = []
    n_samples = 0
    integers = False
    for batch in batches():
        raw, batch_labels = batch_format.split(batch)
        integers = is_matrix_of_integers(raw)
        inputs.append(batch_format.as_inputs(raw, n_samples))
        labels.append(_label_array(batch_labels, len(inputs[-1])))
        n_samples += len(inputs[-1])
        if _shape_of_one(inputs[-1]) != _shape_of_one(inputs[0]):
            raise _sizes_differ(name, _shape_of_one(inputs[0]), _shape_of_one(inputs[-1]))
    if not n_samples:
        raise DataError(f"{name} must have at least one sample; it has none. Was it read before?")
    second = next(batches(), None)  # None: it can be read once only
    if second is not None and not _are_equal(batch_format.as_inputs(batch_format.split(second)[0], 0), inputs[0]):
        raise DataError(
            f"{name} must give its samples in the same order each time; at a second reading it begins with others. It shuffles, or "
            "its transforms are random, and it cannot be read by index. Pass it without shuffling, or as a data set with indices."
        )
    columns, names = _columns(np.concatenate(labels), class_names, stored_names)
    if isinstance(inputs[0], ArrayDict):
        stored = ArrayDict.concatenated(inputs)
        return Source(name, lambda indices: stored[indices], columns, names, content=lambda: stored.digest)
    arrays = np.concatenate(inputs)
    return Source(
        name,
        lambda indices: arrays[indices],
        columns,
        names,
        content=lambda: fingerprint({"inputs": arrays}),
        holds_whole_numbers=integers,
    )


def _columns(
    labels: Array, class_names: Sequence[str] | None, stored_names: Sequence[str] | None
) -> tuple[Labels, tuple[str, ...]]:
    """Labels as columns, and the names of the columns."""
    if stored_names is not None and labels.dtype.kind in "iu":
        return in_order_of_names(columns_and_names(labels)[0], stored_names, class_names)
    return columns_and_names(labels, stored_names if class_names is None else class_names)


def _dtype_and_shape(inputs: Inputs) -> str:
    return f"{inputs}" if isinstance(inputs, ArrayDict) else f"{inputs.dtype.str}{inputs.shape[1:]}"


def _shape_of_one(inputs: Inputs) -> Any:
    """The shape of one sample; of a dictionary the names, dtypes and shapes of its arrays."""
    return str(inputs) if isinstance(inputs, ArrayDict) else inputs.shape[1:]


def _are_equal(inputs: Inputs, others: Inputs) -> bool:
    if isinstance(inputs, ArrayDict) and isinstance(others, ArrayDict):
        n = min(len(inputs), len(others))
        return inputs[:n].tobytes() == others[:n].tobytes()
    return np.array_equal(inputs, others, equal_nan=True)


def _key(key: str | int | None, keys: list[Any], usual: Sequence[str], argument: str) -> Any:
    matches = [name for name in keys if name == key] if key is not None else [name for name in usual if name in keys]
    if len(matches) == 1:
        return matches[0]
    unclear = (
        "several could be it" if matches else "none has a usual name" if key is None else f"{key!r} is none of them"
    )
    raise InputError(
        f"{argument} must name one of {', '.join(map(repr, keys))}; {unclear}. Pass open_source(data, {argument}=...)."
    )


def _label_array(labels: Any, n_samples: int) -> Array:
    array = np.atleast_1d(as_array(labels, "labels", LabelsError))
    if len(array) != n_samples:
        raise LabelsError(
            f"a batch must hold one label per sample; it holds {n_samples} samples and {len(array)} labels. Name them with inputs= "
            "and label=."
        )
    if array.size == len(array):
        return array.reshape(-1)
    if array.ndim > 2:
        raise LabelsError(
            f"a label must be one class per sample; a batch holds labels of shape {array.shape}, such as those of segmentation. Name "
            "the labels with label=."
        )
    return from_one_hot(array)


def _sizes_differ(name: str, one: tuple[int, ...], other: tuple[int, ...]) -> DataError:
    return DataError(
        f"the inputs of {name} must have one size; it has {one} and {other}. Scale them in the data set's transform; "
        "pad sequences to one length."
    )
