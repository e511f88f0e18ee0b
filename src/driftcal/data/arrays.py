"""Sources in memory or in a memory map: arrays, ``.npz`` files, scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict, as_array_dict, is_array_dict
from driftcal.core.inputs.frames import check_no_mixed_values, is_frame
from driftcal.core.inputs.images import check_images
from driftcal.core.inputs.texts import as_texts, digest_of_texts, is_text
from driftcal.core.labels import MOST_CLASSES, columns_and_names
from driftcal.core.validation import NUMBER_KINDS, as_array, column_names, is_matrix_of_integers
from driftcal.data.layout import Layout, arranged, check_series
from driftcal.data.source import Source
from driftcal.data.tables import from_frame
from driftcal.errors import DataError, ImagesError, LabelsError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.npz import INPUT_NAMES, LABEL_NAMES, open_arrays
from driftcal.io.paths import AnyPath
from driftcal.types import AnyArray, Array, Indices, Labels


def from_arrays(
    x: AnyArray,
    y: AnyArray,
    *,
    class_names: Sequence[str] | None = None,
    categorical: Sequence[int | str] = (),
    groups: AnyArray | None = None,
    layout: Layout | None = None,
    name: str = "arrays",
) -> Source:
    """A source from images or features with one label each.

    Parameters
    ----------
    x
        Images (n, H, W) or (n, H, W, C), uint8 or floats in [0, 1]; or features (n, F), an array or a data frame. A data
        frame keeps its dtypes and categories. Missing features are NaN. Or texts: a list of ``str``. Or a dictionary of
        arrays, each with one entry per sample. Or time series and spectra (n, length, channels).
    y
        Labels: integers from 0 (-1: no class is correct), or names among `class_names`.
    class_names
        All classes in the order of the model's outputs. Without them, the number of classes is the largest label plus
        1, which is too few if the last classes have no sample.
    categorical
        The columns of features that hold categories: numbers, or names in a data frame.
    groups
        One group (camera, site, …) per sample.
    layout
        The axes of an array that may be images or series: "NHW" (grey images), "NLC" (series: length, channels), "NCL"
        (series, channels first), or "NHWC" and "NCHW". None: by the shape, if it can only be one of them.
    name
        The name of the data in results.

    >>> source = from_arrays(np.zeros((4, 8, 8), np.uint8), ["cat", "dog", "cat", "dog"], class_names=["cat", "dog"])
    >>> source.input_shape, source.class_names, source.labels
    ((8, 8, 1), ('cat', 'dog'), array([0, 1, 0, 1]))
    """
    if is_frame(x):
        return from_frame(x, y, class_names=class_names, categorical=categorical, groups=groups, name=name)
    if is_array_dict(x):
        return _from_dictionary(as_array_dict(x), y, class_names, groups, name)
    inputs = as_texts(x) if is_text(x) else _as_inputs(as_array(x, "x", ImagesError), layout)
    labels, names = _labels_of(y, class_names, len(inputs))

    def read(indices: Indices) -> Array:
        selected = inputs[indices]
        if inputs.dtype == object:  # texts
            return selected
        if inputs.dtype == np.uint8 and inputs.ndim == 4:
            return np.divide(selected, np.float32(255), dtype=np.float32)
        keeps_float64 = inputs.dtype == np.float64 and inputs.ndim == 2
        return np.ascontiguousarray(selected, np.float64 if keeps_float64 else np.float32)

    source = Source(
        name,
        read,
        labels,
        names,
        content=lambda: fingerprint({"inputs": digest_of_texts(inputs) if inputs.dtype == object else inputs}),
        all_groups=None if groups is None else as_array(groups, "groups"),
        holds_whole_numbers=is_matrix_of_integers(x),
    )
    return source.with_categorical(categorical, column_names(x))


def _from_dictionary(
    inputs: ArrayDict, y: AnyArray, class_names: Sequence[str] | None, groups: AnyArray | None, name: str
) -> Source:
    labels, names = _labels_of(y, class_names, len(inputs))
    all_groups = None if groups is None else as_array(groups, "groups")
    return Source(name, lambda i: inputs[i], labels, names, content=lambda: inputs.digest, all_groups=all_groups)


def _labels_of(y: AnyArray, class_names: Sequence[str] | None, n_samples: int) -> tuple[Labels, tuple[str, ...]]:
    """Labels as columns, one for each of `n_samples`, and the names of the columns."""
    labels, names = columns_and_names(y, class_names)
    if len(labels) != n_samples:
        raise LabelsError(
            f"y must hold one label per sample; there are {n_samples} samples and {len(labels)} labels. "
            "Were both cut from the same data?"
        )
    return labels, names


def _as_inputs(x: Array, layout: Layout | None) -> Array:
    """`x` as images (n, H, W, C), series (n, L, C) or features (n, F), checked."""
    check_no_mixed_values(x, "x")
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in NUMBER_KINDS:
        way_out = " Are inputs and labels swapped?" if x.ndim == 1 else ""
        raise ImagesError(
            f"x must be images (n, H, W) or (n, H, W, C), series (n, length, channels), or features (n, F); it is {x.dtype} of shape "
            f"{x.shape}.{way_out}"
        )
    if len(x) == 0:
        raise ImagesError("x must have at least one sample; it has none.")
    if x.ndim == 2:
        if x.dtype.kind == "f" and np.isinf(x).any():
            sample = int(np.flatnonzero(np.isinf(x).any(axis=1))[0])
            raise ImagesError(
                f"features must be finite, or NaN where they are missing; sample {sample} holds infinity. Replace it."
            )
        # uint8 features are counts, not pixels: they are not divided by 255
        return x if x.dtype.kind == "f" else x.astype(np.float32)
    x = arranged(x, layout)
    if x.ndim == 3:
        check_series(x)
        return x
    check_images(x)
    return x


def npz(
    path: AnyPath,
    *,
    x: str | None = None,
    y: str | None = None,
    group: str | None = None,
    class_names: Sequence[str] | None = None,
    layout: Layout | None = None,
) -> Source:
    """A ``.npz`` file with inputs ("x"), labels ("y") and, optionally, "class_names" and "groups".

    Parameters
    ----------
    path
        The file. Pickled arrays are refused.
    x, y, group
        The names of the arrays, if they have other names.
    class_names
        All classes in the order of the model's outputs. Labels that are text need them, here or in the file.
    layout
        The axes of inputs that may be images or series, as in :func:`from_arrays`.
    """
    file = open_arrays(path)
    inputs = file.find([x] if x else INPUT_NAMES, "inputs", "Name the array with x=NAME.")
    labels = file.find([y] if y else LABEL_NAMES, "labels", "Name the array with y=NAME.")
    groups = file.find([group], "groups", "Name the array with group=NAME.") if group else file.get("groups")
    stored_names = file.get("class_names")
    names = class_names if stored_names is None else _names_of(stored_names, file.path)
    source = from_arrays(inputs, labels, class_names=names, groups=groups, layout=layout, name=file.path.name)
    return source if class_names is None else source.with_classes(class_names)


def _names_of(names: Array, path: Path) -> list[str]:
    if names.ndim != 1 or names.dtype.kind not in "USiu" or not 0 < len(names) <= MOST_CLASSES:
        raise DataError(
            f"class_names in {str(path)!r} must hold the name of each class, at most {MOST_CLASSES:,}; it is {names.dtype} of shape "
            f"{names.shape}. Write a list of text."
        )
    return [name.decode(errors="backslashreplace") if isinstance(name, bytes) else str(name) for name in names.tolist()]


def digits() -> Source:
    """scikit-learn's digits: 1,797 grey images of 8×8 pixels, 10 classes. scikit-learn contains them."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images / 16).astype(np.float32)
    return from_arrays(images, bunch.target, class_names=[str(digit) for digit in range(10)], name="digits")
