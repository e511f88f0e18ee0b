"""Hugging Face's `datasets.Dataset`, recognised without importing datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from driftcal.core.labels import in_order_of_names
from driftcal.data.arrays import from_arrays
from driftcal.data.batches import LABEL_KEYS, BatchFormat, indexed_source, streamed_source
from driftcal.data.layout import Layout
from driftcal.data.source import Source
from driftcal.data.tables import from_frame, with_categories
from driftcal.data.torch_data import stacked
from driftcal.errors import DataError, LabelsError, UnknownName, need

#: Types of columns that hold one input each; all others are single values, columns of a table.
_INPUT_TYPES = ("Image", "List", "LargeList", "Sequence", "Array2D", "Array3D")


def hugging_face_kind(data: Any) -> str | None:
    """The name of the class in the package `datasets`; None for anything else."""
    names = [base.__name__ for base in type(data).__mro__ if base.__module__.partition(".")[0] == "datasets"]
    kinds = ("Dataset", "IterableDataset", "DatasetDict", "IterableDatasetDict")
    return next((name for name in names if name in kinds), None)


def from_hugging_face(
    data: Any,
    *,
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    class_names: Sequence[str] | None = None,
    categorical: Sequence[int | str] = (),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    layout: Layout | None = None,
    name: str | None = None,
) -> Source:
    """A source from a `datasets.Dataset`: a column of images or features, or a table of single values.

    Parameters
    ----------
    data
        One split. Its samples are read by index; those of an `IterableDataset` are read once and kept in memory.
    inputs
        The column of images or features. None: the only such column; without one, all columns but the label are a table.
        Several columns, ``inputs=["input_ids", "attention_mask"]``, are a dictionary of arrays.
    label
        The column of labels. None: the only `ClassLabel`, or one with a usual name.
    class_names
        All classes in the order of the model's outputs; by default the names of the `ClassLabel`.
    categorical
        Columns of a table that hold categories, besides those of text or truth values.
    mean, std
        The normalisation that the data set applies to images, which is undone.
    layout
        The axes of inputs that may be images or series, as in :func:`from_arrays`.
    name
        The name of the data in results.
    """
    kind = hugging_face_kind(data)
    if kind is not None and kind.endswith("Dict"):
        raise DataError(
            f"a data set must be one split; this holds {', '.join(map(repr, data))}. Pass data[{next(iter(data))!r}]."
        )
    title = name or str(getattr(data, "split", None) or "dataset")
    features: Mapping[str, Any] = data.features or {}
    is_transformed = kind == "Dataset" and data.format["type"] == "custom"  # its samples have other columns
    if is_transformed or not features:
        batch_format = BatchFormat(inputs, label, mean, std, layout)
        stored_names = _stored_names(features, label)
        if kind == "IterableDataset":
            return streamed_source(title, lambda: _samples(data, batch_format), batch_format, class_names, stored_names)
        return indexed_source(
            title,
            lambda p: stacked([data[int(i)] for i in p], batch_format),
            len(data),
            batch_format,
            class_names,
            stored_names,
        )
    label = _label_column(features, label, title)
    stored_names = _stored_names(features, label)
    column = _input_column(features, inputs, label)
    if column is None:
        source = _table(data, kind, features, label, None if stored_names else class_names, categorical, title)
        if stored_names:
            labels, names = in_order_of_names(source.all_labels, stored_names, class_names)
            source = replace(source, all_labels=labels, class_names=names)
        return source
    batch_format = BatchFormat(column, label, mean, std, layout)
    if kind == "IterableDataset":
        return streamed_source(title, lambda: _samples(data, batch_format), batch_format, class_names, stored_names)
    plain = data.with_format(None).select_columns([*([column] if isinstance(column, str) else column), label])

    def read_batch(positions: Sequence[int]) -> Any:
        try:
            columns = plain[[int(position) for position in positions]]
        except OSError as error:  # a file of a picture that is gone or damaged
            raise DataError(
                f"{title} must give its samples; reading some failed: {error}. Restore the files."
            ) from error
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return stacked(rows, batch_format)

    return indexed_source(title, read_batch, len(plain), batch_format, class_names, stored_names)


def _table(
    data: Any,
    kind: str | None,
    features: Mapping[str, Any],
    label: str,
    class_names: Sequence[str] | None,
    categorical: Sequence[int | str],
    name: str,
) -> Source:
    columns = [column for column in features if column != label]
    for column in columns:
        if not hasattr(features[column], "dtype"):
            raise DataError(
                f"column {column!r} of {name} must hold one value per sample; it holds {features[column]}. Drop it, or name the inputs: "
                "open_source(data, inputs=...)."
            )
    kinds = {str(getattr(features[column], "dtype", "")) for column in columns}
    if len(columns) == 1 and kinds <= {"string", "large_string"} and kind != "IterableDataset":
        plain = data.with_format(None)
        return from_arrays(list(plain[columns[0]]), np.asarray(plain[label]), class_names=class_names, name=name)
    if kind == "IterableDataset":
        frame = need("pandas", "pandas").DataFrame(list(data))
    else:
        frame = data.with_format(None).to_pandas()
    return from_frame(
        with_categories(frame[columns]), frame[label], class_names=class_names, categorical=categorical, name=name
    )


def _samples(data: Any, batch_format: BatchFormat) -> Iterator[Any]:
    return (stacked([sample], batch_format) for sample in data)


def _label_column(features: Mapping[str, Any], label: str | None, name: str) -> str:
    if label is not None:
        if label not in features:
            raise UnknownName.of("column", label, features)
        return label
    classes = _class_labels(features)
    candidates = classes if len(classes) == 1 else [column for column in LABEL_KEYS if column in features]
    if len(candidates) != 1:
        raise LabelsError(
            f"the column of labels of {name} must be named; it could be {', '.join(map(repr, classes or features))}. Pass "
            "open_source(data, label=...)."
        )
    return candidates[0]


def _input_column(
    features: Mapping[str, Any], inputs: str | Sequence[str] | None, label: str
) -> str | Sequence[str] | None:
    if inputs is not None:
        for column in [inputs] if isinstance(inputs, str) else inputs:
            if column not in features:
                raise UnknownName.of("column", column, features)
        return inputs
    candidates = [
        column for column, kind in features.items() if column != label and type(kind).__name__ in _INPUT_TYPES
    ]
    if len(candidates) > 1:
        raise DataError(
            f"one column must hold the inputs; {', '.join(map(repr, candidates))} could be it. Pass open_source(data, inputs=...); "
            "a list of columns is a dictionary of arrays."
        )
    return candidates[0] if candidates else None


def _stored_names(features: Mapping[str, Any], label: str | None) -> list[str] | None:
    classes = _class_labels(features) if label is None else [label]
    names = getattr(features.get(classes[0]), "names", None) if len(classes) == 1 else None
    return list(names) if names else None


def _class_labels(features: Mapping[str, Any]) -> list[str]:
    return [column for column, kind in features.items() if type(kind).__name__ == "ClassLabel"]
