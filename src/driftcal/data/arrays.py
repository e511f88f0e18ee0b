"""Sources that fit in memory, or in a memory map: arrays, ``.npz`` files, scikit-learn's digits."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from driftcal.core.labels import columns_and_names
from driftcal.core.validation import as_array
from driftcal.data.source import Source
from driftcal.errors import ImagesError, LabelsError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.npz import INPUT_NAMES, LABEL_NAMES, open_arrays
from driftcal.types import AnyArray, Array, Indices


def from_arrays(
    x: AnyArray,
    y: AnyArray,
    *,
    class_names: Sequence[str] | None = None,
    groups: AnyArray | None = None,
    name: str = "arrays",
) -> Source:
    """Images (n, H, W), (n, H, W, C) or features (n, F) with one label each.

    uint8 images are divided by 255; float images must lie in [0, 1]. Grey images get a channel axis. Labels are
    integers from 0 (-1: no class is right) or names from `class_names`, which come in the order of the model's outputs.
    Without `class_names` there are as many classes as the largest label says, which is wrong when the last classes are
    absent: name them then.

    >>> source = from_arrays(np.zeros((4, 8, 8), np.uint8), ["cat", "dog", "cat", "dog"], class_names=["cat", "dog"])
    >>> source.input_shape, source.class_names, source.labels
    ((8, 8, 1), ('cat', 'dog'), array([0, 1, 0, 1]))
    """
    inputs = _as_inputs(as_array(x, "x", ImagesError))
    labels, names = columns_and_names(y, class_names)
    if len(labels) != len(inputs):
        raise LabelsError(f"y must hold one label per row of x; there are {len(inputs)} rows and {len(labels)} labels.")

    def read(rows: Indices) -> Array:
        chosen = inputs[rows]
        if inputs.dtype == np.uint8:
            return np.divide(chosen, np.float32(255), dtype=np.float32)
        return np.ascontiguousarray(
            chosen, np.float64 if inputs.dtype == np.float64 and inputs.ndim == 2 else np.float32
        )

    return Source(
        name,
        read,
        labels,
        names,
        content=lambda: fingerprint({"inputs": inputs}),
        all_groups=None if groups is None else as_array(groups, "groups"),
    )


def _as_inputs(x: Array) -> Array:
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "fiub":
        raise ImagesError(
            f"x must be images (n, H, W) or (n, H, W, C), or features (n, F); it is {x.dtype} of shape {x.shape}."
        )
    if len(x) == 0:
        raise ImagesError("x must have at least one row; it has none.")
    if x.ndim == 2:
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise ImagesError(f"x must be finite; row {row} holds NaN or infinity. Fill or drop such rows.")
        # uint8 features are counts, not pixels: they keep their values
        return x if x.dtype.kind == "f" else x.astype(np.float32)
    if x.ndim == 3:
        x = x[..., None]
    if x.shape[-1] not in (1, 3):
        hint = " It looks like (n, channels, H, W): move the axis with x.transpose(0, 2, 3, 1)." if x.shape[1] in (1, 3) else ""  # fmt: skip
        raise ImagesError(f"images must have 1 or 3 channels on the last axis; the shape is {x.shape}.{hint}")
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind != "f":
        raise ImagesError(f"images must be uint8 (0..255) or floats in [0, 1]; they are {x.dtype}. Convert them first.")
    low, high = float(x.min()), float(x.max())
    if not (low >= 0 and high <= 1):
        fact = "they hold NaN" if np.isnan(low) or np.isnan(high) else f"they reach from {low:g} to {high:g}"
        raise ImagesError(
            f"float images must lie in [0, 1]; {fact}. Divide by 255, or undo the normalising: it belongs into the "
            "model's preprocessing."
        )
    return x


def npz(
    path: str | os.PathLike[str],
    *,
    x: str | None = None,
    y: str | None = None,
    group: str | None = None,
    class_names: Sequence[str] | None = None,
) -> Source:
    """A ``.npz`` file with inputs ("x"), labels ("y") and, if it has them, "class_names" and "groups".

    `x`, `y` and `group` name the arrays when they are called something else. Labels that are text need `class_names`, here or
    in the file, in the order of the model's outputs. Pickled arrays are refused.
    """
    file = open_arrays(path)
    inputs = file.find([x] if x else INPUT_NAMES, "inputs", "Name the array with x=NAME.")
    labels = file.find([y] if y else LABEL_NAMES, "labels", "Name the array with y=NAME.")
    groups = file.find([group], "groups", "Name the array with group=NAME.") if group else file.get("groups")
    names = class_names if (stored := file.get("class_names")) is None else [str(name) for name in stored]
    source = from_arrays(inputs, labels, class_names=names, groups=groups, name=file.path.name)
    return source if class_names is None else source.with_classes(class_names)


def digits() -> Source:
    """scikit-learn's digits: 1,797 grey images of 8×8 pixels, 10 classes. Comes with scikit-learn, needs no download."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = (bunch.images / 16).astype(np.float32)
    return from_arrays(images, bunch.target, class_names=[str(n) for n in range(10)], name="digits")
