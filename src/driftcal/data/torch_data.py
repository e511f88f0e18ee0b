"""torch's `DataLoader` and `Dataset`, recognised without importing torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np

from driftcal.core.validation import as_array
from driftcal.data.batches import BatchFormat, indexed_source, streamed_source
from driftcal.data.decode_image import deep_pixels, is_deep
from driftcal.data.layout import Layout
from driftcal.data.source import Source
from driftcal.errors import DataError


def torch_kind(data: Any) -> Literal["DataLoader", "IterableDataset", "Dataset"] | None:
    """Which of torch's classes of data this is; None for anything else."""
    names = {base.__name__ for base in type(data).__mro__ if base.__module__.startswith("torch.utils.data")}
    kinds: tuple[Literal["DataLoader", "IterableDataset", "Dataset"], ...] = (
        "DataLoader",
        "IterableDataset",
        "Dataset",
    )
    for kind in kinds:
        if kind in names:
            return kind
    return None


def from_torch(
    data: Any,
    *,
    inputs: str | int | Sequence[str] | None = None,
    label: str | int | None = None,
    class_names: Sequence[str] | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    layout: Layout | None = None,
    name: str | None = None,
) -> Source:
    """A source from a torch `DataLoader` or `Dataset`.

    Samples are read by index through the data set, in its order, also if the loader shuffles. An `IterableDataset` has no
    index: it is read once and kept in memory.

    Parameters
    ----------
    data
        The loader (any collate function) or the data set.
    inputs, label
        Keys of a dict or positions in a tuple, unless they have usual names or the samples are (input, label). Several
        keys, ``inputs=["input_ids", "attention_mask"]``, are a dictionary of arrays.
    class_names
        All classes in the order of the model's outputs; by default the data set's `classes`.
    mean, std
        The normalisation that the data set applies to images, which is undone.
    layout
        The axes of batches that may be images or series: "NCL" for series (channels, length), as torch's convolutions take
        them, "NLC", or "NHW" for grey images.
    name
        The name of the data in results.
    """
    kind = torch_kind(data)
    dataset = data.dataset if kind == "DataLoader" else data
    batch_format = BatchFormat(inputs, label, mean, std, layout)
    label_text = name or type(dataset).__name__
    stored_names = _classes(dataset)
    if torch_kind(dataset) == "IterableDataset" or not hasattr(dataset, "__getitem__"):
        batches = (lambda: iter(data)) if kind == "DataLoader" else (lambda: _single_batches(dataset, batch_format))
        return streamed_source(label_text, batches, batch_format, class_names, stored_names)
    if not hasattr(dataset, "__len__"):
        raise DataError(
            f"{label_text} must say how many samples it has; it has no __len__. Add one, or make it an IterableDataset."
        )
    order = _order(data) if kind == "DataLoader" else np.arange(len(dataset))

    def read_batch(positions: Sequence[int]) -> Any:
        indices = [int(order[position]) for position in positions]
        samples = dataset.__getitems__(indices) if hasattr(dataset, "__getitems__") else [dataset[i] for i in indices]
        return data.collate_fn(samples) if kind == "DataLoader" else stacked(samples, batch_format)

    return indexed_source(label_text, read_batch, len(order), batch_format, class_names, stored_names)


def stacked(samples: Sequence[Any], batch_format: BatchFormat) -> dict[str | int, Any] | tuple[Any, Any]:
    """Samples of a data set as one batch, with its inputs and labels where `batch_format` looks for them."""
    pairs = [batch_format.split(sample) for sample in samples]
    labels = [as_array(pair[1], "labels").item() if np.ndim(pair[1]) == 0 else pair[1] for pair in pairs]
    if isinstance(pairs[0][0], Mapping):
        return {name: _stacked([pair[0][name] for pair in pairs]) for name in pairs[0][0]}, labels
    x = _stacked([pair[0] for pair in pairs])
    if hasattr(pairs[0][0], "detach") and x.ndim == 4 and x.shape[1] in (1, 3):
        x = np.moveaxis(x, 1, 3)
    inputs_key = batch_format.inputs if isinstance(batch_format.inputs, str) else "x"
    label_key = batch_format.label if isinstance(batch_format.label, str) else "y"
    if isinstance(batch_format.inputs, int):
        return {batch_format.inputs: x, batch_format.label or 0: labels}
    return {inputs_key: x, label_key: labels}


def _stacked(values: Sequence[Any]) -> Any:
    arrays = [image_or_array(value) for value in values]
    if any(array.shape != arrays[0].shape for array in arrays):
        shapes = sorted({array.shape for array in arrays})
        raise DataError(
            f"the samples must have one shape; some have {shapes[0]} and {shapes[1]}. Scale them in the data set's transform; pad "
            "sequences to one length."
        )
    return np.stack(arrays)


def image_or_array(value: Any) -> Any:
    """A PIL picture as uint8 (H, W) or (H, W, 3), a deep one as floats (H, W, 3); anything else as an array."""
    if hasattr(value, "getbands"):
        if is_deep(value):  # Pillow would clip it at 255
            return np.repeat(
                deep_pixels(value, getattr(value, "filename", "") or "of the data set")[..., None], 3, axis=2
            )
        return np.asarray(value if value.mode in ("L", "RGB") else value.convert("RGB"))
    return as_array(value, "inputs")


def _single_batches(dataset: Any, batch_format: BatchFormat) -> Iterator[Any]:
    return (stacked([sample], batch_format) for sample in dataset)


def _order(loader: Any) -> Any:
    """The indices of a loader's samples, in the order of the data set where it shuffles."""
    if loader.batch_sampler is None:
        raise DataError(
            "the loader must batch samples; it has batch_size=None. Pass the data set itself, or a loader with a batch size."
        )
    sampler, n = loader.sampler, len(loader.dataset)
    if type(loader.batch_sampler).__name__ == "BatchSampler":
        kind = type(sampler).__name__
        if kind in ("SequentialSampler", "RandomSampler"):
            return np.arange(n)
        if kind == "SubsetRandomSampler":
            return np.asarray(list(sampler.indices), np.int64)
        first, second = list(sampler), list(sampler)
    else:
        first, second = list(chain(*loader.batch_sampler)), list(chain(*loader.batch_sampler))
    if first != second:
        raise DataError(
            f"the loader must give each sample once, in an order that can be repeated; its {type(sampler).__name__} draws others "
            "each time. Pass loader.dataset, or a loader with shuffle=False."
        )
    return np.asarray(first, np.int64)


def _classes(dataset: Any) -> list[str] | None:
    """The names that a data set, or the one below a subset, has for its classes."""
    while dataset is not None:
        names = getattr(dataset, "classes", None)
        if isinstance(names, list | tuple) and len(names) > 1:
            return [str(name) for name in names]
        dataset = getattr(dataset, "dataset", None)
    return None
