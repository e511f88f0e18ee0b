"""Every check of logits, labels, probabilities and weights, and every message about them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.errors import InputError, LabelsError, LogitsError, ProbabilitiesError, WeightsError
from driftcal.types import AnyArray, Array, Labels, Logits, LogProbs, Probs, Weights

#: How far from 1 a row of probabilities may sum: a softmax in float16 over 1,000 classes is off by up to this much.
SUM_TOLERANCE = 1e-3


def as_array(values: AnyArray, name: str, error: type[InputError] = InputError) -> Array:
    """A numpy array from a list, a pandas object, a torch tensor or an array; never a copy of a memory map."""
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        values = values.numpy()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if hasattr(values, "toarray"):
        raise error(
            f"{name} must be dense; a sparse {type(values).__name__} was given, and sparse input is not supported. Call its toarray()."
        )
    if np.ma.is_masked(values):
        raise error(
            f"{name} must not have masked entries; numpy would read what lies under the mask. Fill or drop them."
        )
    try:
        return np.asarray(values)
    except ValueError as cause:
        raise error(f"{name} must be a rectangular array; numpy says: {cause}. Pad or drop the odd rows.") from cause


def as_logits(logits: AnyArray) -> tuple[Logits, tuple[int, ...]]:
    """Logits as (rows, C) with C >= 2, and the shape that the caller's rows had.

    >>> as_logits([0.0, 2.0])  # binary: the log-odds of class 1
    (array([[0., 0.],
           [0., 2.]]), (2,))
    """
    if is_chunked(logits):
        raise LogitsError("logits must be an array here; a source of chunks was given. Pass its chunks one by one.")
    array = as_array(logits, "logits", LogitsError)
    if array.dtype == object and hasattr(logits, "dtypes"):  # pandas' own numbers, which know missing values
        kinds = {getattr(kind, "kind", "") for kind in np.ravel(np.array(logits.dtypes, object))}
        with contextlib.suppress(TypeError, ValueError):
            array = array.astype(np.float64) if kinds <= set("fiu") else array
    if array.dtype.kind not in "fiu":
        raise LogitsError(
            f"logits must be real numbers; they have dtype {array.dtype}. Convert the columns to floats first."
        )
    if array.ndim == 0:
        raise LogitsError(
            "logits must have at least one axis; a single number was given. Pass an array of shape (n, classes)."
        )
    if array.ndim == 1 or array.shape[-1] == 1:
        shape = array.shape if array.ndim == 1 else array.shape[:-1]
        positive = array.reshape(-1)
        return np.stack([np.zeros_like(positive), positive], axis=1), shape
    if array.shape[-1] == 0:
        raise LogitsError(f"logits must have a column per class; their shape is {array.shape}. Pass (n, classes).")
    return array.reshape(-1, array.shape[-1]), array.shape[:-1]


def for_kernel(logits: Logits) -> Logits:
    """A block of rows as contiguous float32 or float64; float16 becomes float32, which is exact."""
    narrow = logits.dtype == np.float16 or (logits.dtype == np.float32 and logits.dtype.isnative)
    return unlocked(np.ascontiguousarray(logits, np.float32 if narrow else np.float64))


def unlocked(array: Array) -> Array:
    """A read-only array (a memory map, a pandas column, what Ray hands over) as one that is not, for a kernel that only reads.

    To the compiler it would be another type: kernels would compile twice.
    """
    return array if array.flags.writeable else np.asarray(_Unlocked(array))


class _Unlocked:
    def __init__(self, array: Array) -> None:
        self.array = array  # keeps the memory alive
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


def finite_logits(logits: Logits, n_classes: int) -> None:
    """Refuse logits that a fitted calibrator with `n_classes` columns cannot map."""
    if logits.shape[1] != n_classes:
        raise LogitsError(
            f"logits must have {n_classes} columns, as in fit; they have {logits.shape[1]}. "
            "Load the calibrator that belongs to this model, or fit one."
        )
    top = logits.max(axis=1) if len(logits) else np.zeros(0)
    bad = np.flatnonzero(~np.isfinite(top))  # NaN and +inf rise to the maximum, a row of -inf has none
    if len(bad):
        value = top[bad[0]]
        fact = "holds NaN" if np.isnan(value) else "holds +inf" if value > 0 else "is -inf in every column"
        raise unusable_row(int(bad[0]), fact)


def unusable_row(row: int, fact: str) -> LogitsError:
    """The error for a row of logits without a softmax."""
    return LogitsError(
        f"logits must be finite (-inf marks a masked class, one per row must be finite); row {row} {fact}. "
        "Drop such rows, or find the overflow in the model that made them."
    )


def looks_like_probabilities(logits: Logits, tolerance: float = SUM_TOLERANCE) -> bool:
    """Whether every row satisfies the rule of :func:`from_probabilities`; stops at the first row that does not."""
    return _is_distribution(logits[:1], tolerance) and _is_distribution(logits, tolerance)


def _is_distribution(rows: Array, tolerance: float) -> bool:
    values = rows.astype(np.float64)
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= tolerance).all())


def as_labels(y: AnyArray, n_classes: int, n: int, *, classes: Sequence[Any] | None = None) -> tuple[Labels, Array]:
    """Labels as column numbers, and the class that each column stands for.

    Integers count columns from 0; names are sorted unless `classes` gives them in column order; rows of 0 and 1 with
    a single 1 are one-hot. Whether integers lie in range is seen when the rows are read.

    >>> as_labels(["cat", "dog", "cat"], 2, 3)
    (array([0, 1, 0]), array(['cat', 'dog'], dtype='<U3'))
    """
    if y is None:
        raise LabelsError("y must hold a label per row of logits; it is missing. Pass fit(logits, y).")
    frame: Any = y
    columns = list(getattr(frame, "columns", ()))
    if classes is not None and columns != list(classes) and sorted(map(str, columns)) == sorted(map(str, classes)):
        frame = frame[list(classes)]  # one-hot rows whose columns have names, in another order
    array = as_array(frame, "y", LabelsError)
    if array.ndim >= 2 and array.shape[-1] == n_classes and array.size == n * n_classes:
        array = _from_one_hot(array.reshape(n, n_classes))
    array = array.reshape(-1)
    if len(array) != n:
        raise LabelsError(
            f"y must hold one label per row of logits; there are {n} rows and {len(array)} labels. Were both cut from the same data?"
        )
    names = np.arange(n_classes) if classes is None else as_classes(classes, n_classes)
    if array.dtype.kind == "O" and all(isinstance(v, (int, np.integer)) for v in array.tolist()):
        array = array.astype(np.int64)
    if array.dtype.kind in "OUST":
        return _from_names(array, names if classes is not None else None, n_classes)
    if array.dtype.kind == "f":
        bad = np.flatnonzero(~((np.floor(array) == array) & (np.abs(array) < 2**53)))  # NaN is not equal to itself
        if len(bad):
            raise LabelsError(
                f"y must hold whole numbers or class names; row {bad[0]} holds {array[bad[0]]}. Are y and logits swapped?"
            )
    elif array.dtype.kind not in "iub":
        raise LabelsError(
            f"y must hold integers, class names or one-hot rows; it has dtype {array.dtype}. Convert it first."
        )
    if classes is not None and names.dtype.kind in "iufb" and not np.array_equal(names, np.arange(n_classes)):
        return _from_names(array, names, n_classes)
    return array.astype(np.int64), names


def _from_one_hot(rows: Array) -> Labels:
    if rows.dtype.kind not in "fiub" or not np.isin(rows, (0, 1)).all():
        raise LabelsError(
            f"y must be integers, names or one-hot rows of 0 and 1; its shape is {rows.shape} but it holds other values. "
            "Are y and logits swapped?"
        )
    ones = rows.astype(np.int64).sum(axis=1)
    bad = np.flatnonzero(ones != 1)
    if len(bad):
        raise LabelsError(
            f"one-hot y must have a single 1 per row; row {bad[0]} has {ones[bad[0]]}. Multi-label data is not supported."
        )
    labels: Labels = rows.argmax(axis=1)
    return labels


def as_classes(classes: Sequence[Any], n_classes: int) -> Array:
    """The names of so many columns, all different."""
    if isinstance(classes, set | frozenset):
        raise InputError("classes must come in the order of the columns; a set has none. Pass a list.")
    names = as_array(list(classes), "classes")
    if len(names) != n_classes or len(set(names.tolist())) != n_classes:
        raise InputError(
            f"classes must name each of the {n_classes} columns of logits once; it holds {len(names)} names, "
            f"{len(set(names.tolist()))} of them different. List them in column order."
        )
    return names


def _kind_of_name(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    try:
        return "missing values" if value is None or value != value else "numbers"
    except TypeError:  # pandas.NA refuses to be compared
        return "missing values"


def _from_names(array: Array, names: Array | None, n_classes: int) -> tuple[Labels, Array]:
    kinds = {_kind_of_name(v) for v in array.tolist()}
    if len(kinds) > 1 or kinds == {"missing values"}:
        raise LabelsError(
            f"y must hold class names or numbers, one kind in every row; it holds {' and '.join(sorted(kinds))}. "
            "Convert one into the other, and drop rows without a label."
        )
    if names is None:
        names = np.unique(array.astype(str) if kinds == {"text"} else array)
        if len(names) != n_classes:
            raise LabelsError(
                f"y must name all {n_classes} classes when names are given without their order; it holds {len(names)} different names. "
                "Pass classes=[...] in the order of the columns of logits."
            )
    position = {name: i for i, name in enumerate(names.tolist())}
    try:
        return np.array([position[v] for v in array.tolist()], np.int64), names
    except KeyError as unknown:
        raise LabelsError(
            f"y must hold names from classes; {unknown.args[0]!r} is not among them. Known: {', '.join(map(repr, names.tolist()[:10]))}. "
            "Pass classes=[...] in the order of the columns of logits."
        ) from None


def as_weights(sample_weight: AnyArray, n: int) -> Weights | None:
    """Sample weights as float64, or None for equal ones."""
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, "sample_weight", WeightsError)
    if weights.dtype.kind not in "fiub" or weights.size != n:
        raise WeightsError(
            f"sample_weight must hold one number per row; there are {n} rows and it has shape {weights.shape}, dtype {weights.dtype}. "
            "Leave it out to weight all rows alike."
        )
    weights = weights.reshape(-1).astype(np.float64)
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if len(bad):
        raise WeightsError(
            f"sample_weight must be finite and at least 0; row {bad[0]} holds {weights[bad[0]]}. Use 0 to leave a row out."
        )
    return weights


def as_probabilities(p: AnyArray, name: str = "probabilities") -> Probs:
    """Probabilities as float64 (rows, C); a 1-D array is the probability of class 1.

    >>> as_probabilities([0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    array = as_array(p, name, ProbabilitiesError)
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise ProbabilitiesError(
            f"{name} must be an array of numbers in [0, 1]; it has dtype {array.dtype} and shape {array.shape}. "
            "The order of arguments is (y_true, probabilities)."
        )
    values = array.astype(np.float64)
    if not ((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all():
        outside = values[~((values >= 0) & (values <= 1 + SUM_TOLERANCE))]
        raise ProbabilitiesError(
            f"{name} must lie in [0, 1]; it holds {outside[0]}. If these are logits, use driftcal.metrics.evaluate(logits, y) or a "
            "calibrator's predict_proba."
        )
    if values.ndim == 1 or values.shape[-1] == 1:
        positive = np.minimum(values.reshape(-1), 1)
        return np.stack([1 - positive, positive], axis=1)
    values = values.reshape(-1, values.shape[-1])
    sums = values.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if len(bad):
        raise ProbabilitiesError(
            f"rows of {name} must sum to 1; row {bad[0]} sums to {sums[bad[0]]:.6g}. If these are one-against-rest scores, normalise "
            "the rows; if they are logits, pass them to a calibrator."
        )
    return values


def from_probabilities(p: AnyArray) -> LogProbs:
    """Log-probabilities, which are valid logits, from probabilities; a probability of 0 becomes -inf, a masked class.

    Rows must lie in [0, 1] and sum to 1 within 0.001; they are normalised exactly.

    >>> import numpy as np
    >>> np.exp(from_probabilities([[0.2, 0.8], [1.0, 0.0]]))
    array([[0.2, 0.8],
           [1. , 0. ]])
    """
    values = as_probabilities(p)
    with np.errstate(divide="ignore"):
        log_probs: LogProbs = np.log(values / values.sum(axis=1, keepdims=True))
    return log_probs


def is_chunked(logits: AnyArray) -> bool:
    """Whether `logits` is a source of chunks: iterable, but neither an array nor a list of numbers.

    >>> is_chunked([[1.0, 2.0], [3.0, 4.0]]), is_chunked([(np.zeros((2, 3)), [0, 1])])
    (False, True)
    """
    if isinstance(logits, (list, tuple)) and logits and all(isinstance(chunk, tuple) for chunk in logits):
        return all(len(chunk) in (2, 3) and getattr(chunk[0], "ndim", 0) >= 2 for chunk in logits)
    if (
        isinstance(logits, (list, tuple, str, bytes, np.ndarray, dict))
        or hasattr(logits, "__array__")
        or hasattr(logits, "toarray")
        or hasattr(logits, "detach")
    ):
        return False
    return hasattr(logits, "__iter__")
