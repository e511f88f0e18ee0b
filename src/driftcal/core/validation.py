"""Checks of logits, probabilities, sample weights and data frames; :mod:`driftcal.core.labels` checks labels."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftcal.core.scalars import is_whole
from driftcal.errors import InputError, LogitsError, ProbabilitiesError, UnknownName, WeightsError
from driftcal.types import AnyArray, Array, Logits, LogProbs, Probs, Weights

#: How far from 1 the probabilities of a sample may sum: the error of a softmax in float16 over 1,000 classes.
SUM_TOLERANCE = 1e-3
#: The same for probabilities that a file holds with two digits.
ROUNDED_SUM_TOLERANCE = 0.02
#: A prediction refuses this many samples that all look like probabilities; fewer may be logits by accident.
SURELY_PROBABILITIES = 10

#: numpy's ``dtype.kind`` of real numbers: floats, integers, unsigned integers.
REAL_KINDS = "fiu"
#: The same with truth values, which count as 0 and 1.
NUMBER_KINDS = "fiub"


def is_matrix_of_integers(inputs: Any) -> bool:
    """Whether these are an array or tensor (n, F) of whole numbers; a data frame is none.

    >>> is_matrix_of_integers(np.zeros((3, 2), np.uint8)), is_matrix_of_integers([[0, 1], [2, 3]]), is_matrix_of_integers([[0.5]])
    (True, True, False)
    """
    if hasattr(inputs, "iloc") or isinstance(inputs, Mapping):
        return False
    array = as_array(inputs, "inputs")
    return array.ndim == 2 and array.dtype.kind in "iu"


def as_array(values: AnyArray, name: str, error: type[InputError] = InputError) -> Array:
    """A numpy array from a list, a pandas object, a torch tensor or an array; never a copy of a memory map."""
    if hasattr(values, "detach"):  # a torch tensor, without importing torch
        if str(getattr(values, "layout", "torch.strided")) != "torch.strided":
            raise error(f"{name} must be dense; it is a sparse tensor, which is not supported. Call its to_dense().")
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        values = values.numpy()
    elif hasattr(values, "to_numpy"):
        values = values.to_numpy()
    if hasattr(values, "toarray"):
        raise error(
            f"{name} must be dense; it is a sparse {type(values).__name__}, which is not supported. Call its toarray()."
        )
    if np.ma.is_masked(values):
        raise error(
            f"{name} must not have masked entries; numpy would read what lies under the mask. Fill or drop them."
        )
    try:
        return np.asarray(values)
    except ValueError as cause:
        raise error(
            f"{name} must be a rectangular array; numpy says: {cause}. Pad or drop the shorter samples."
        ) from cause


def as_logits(logits: AnyArray) -> tuple[Logits, tuple[int, ...]]:
    """Logits as (n_samples, C) with C >= 2, and the shape of the caller's samples.

    >>> as_logits([0.0, 2.0])  # binary: the log-odds of class 1
    (array([[0., 0.],
           [0., 2.]]), (2,))
    """
    if is_chunked(logits):
        raise LogitsError("logits must be an array here; they are a source of chunks. Pass its chunks one by one.")
    array = as_array(logits, "logits", LogitsError)
    if array.dtype == object and hasattr(logits, "dtypes"):  # pandas' nullable numbers
        kinds = {getattr(kind, "kind", "") for kind in np.ravel(np.array(logits.dtypes, object))}
        with contextlib.suppress(TypeError, ValueError):
            array = array.astype(np.float64) if kinds <= set(REAL_KINDS) else array
    if array.dtype.kind not in REAL_KINDS:
        raise LogitsError(
            f"logits must be real numbers; they have dtype {array.dtype}. Convert the columns to floats first."
        )
    if array.ndim == 0:
        raise LogitsError(
            "logits must have at least one axis; they are a single number. Pass an array of shape (n, classes)."
        )
    if array.ndim == 1 or array.shape[-1] == 1:
        shape = array.shape if array.ndim == 1 else array.shape[:-1]
        positive = array.reshape(-1)
        return np.stack([np.zeros_like(positive), positive], axis=1), shape
    if array.shape[-1] == 0:
        raise LogitsError(f"logits must have a column per class; their shape is {array.shape}. Pass (n, classes).")
    return array.reshape(-1, array.shape[-1]), array.shape[:-1]


def for_kernel(logits: Logits) -> Logits:
    """Logits as contiguous float32 or float64; float16 becomes float32, which is exact."""
    narrow = logits.dtype == np.float16 or (logits.dtype == np.float32 and logits.dtype.isnative)
    return unlocked(np.ascontiguousarray(logits, np.float32 if narrow else np.float64))


def unlocked(array: Array) -> Array:
    """A read-only array (a memory map, a pandas column, an array from Ray) as a writable one, without a copy.

    Only for kernels that do not write. The compiler treats a read-only array as another type and would compile them
    twice.
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
    bad = np.flatnonzero(
        ~np.isfinite(top)
    )  # NaN and +inf are the maximum of their sample; a sample of -inf only has -inf
    if len(bad):
        value = top[bad[0]]
        problem = "holds NaN" if np.isnan(value) else "holds +inf" if value > 0 else "is -inf in every column"
        raise unusable_sample(int(bad[0]), problem)


def unusable_sample(sample: int, problem: str) -> LogitsError:
    """The error for a sample whose softmax is undefined."""
    return LogitsError(
        f"logits must be finite (-inf marks a masked class, one per sample must be finite); sample {sample} {problem}. "
        "Drop such samples, or find the overflow in the model that made them."
    )


def looks_like_probabilities(logits: Logits, tolerance: float = SUM_TOLERANCE) -> bool:
    """Whether every sample could be the probabilities that :func:`from_probabilities` takes."""
    # the first sample is enough to recognise most logits
    return _is_distribution(logits[:1], tolerance) and _is_distribution(logits, tolerance)


def probabilities_as_logits(name: str) -> LogitsError:
    """The error for probabilities where logits are needed."""
    return LogitsError(
        f"{name} must be unnormalised scores or log-probabilities; every sample lies in [0, 1] and sums to 1 (or nearly), so these are "
        "probabilities. Convert them with driftcal.from_probabilities(p), divided by their sums if they were rounded."
    )


def _is_distribution(samples: Array, tolerance: float) -> bool:
    values = samples.astype(np.float64)
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) <= tolerance).all())


def as_weights(sample_weight: AnyArray, n_samples: int) -> Weights | None:
    """Sample weights as float64, or None for equal ones."""
    if sample_weight is None:
        return None
    weights = as_array(sample_weight, "sample_weight", WeightsError)
    if weights.dtype.kind not in NUMBER_KINDS or weights.size != n_samples:
        raise WeightsError(
            f"sample_weight must hold one number per sample; there are {n_samples} samples and it has shape {weights.shape}, dtype {weights.dtype}. "
            "Leave it out to weight all samples alike."
        )
    weights = weights.reshape(-1).astype(np.float64)
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights)))
    if len(bad):
        raise WeightsError(
            f"sample_weight must be finite and at least 0; sample {bad[0]} has {weights[bad[0]]}. Use 0 to leave a sample out."
        )
    return weights


def as_probabilities(p: AnyArray, name: str = "probabilities") -> Probs:
    """Probabilities as float64 (n_samples, C); a 1-D array is the probability of class 1.

    >>> as_probabilities([0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    array = as_array(p, name, ProbabilitiesError)
    if array.dtype.kind not in NUMBER_KINDS or array.ndim == 0:
        raise ProbabilitiesError(
            f"{name} must be an array of numbers in [0, 1]; it has dtype {array.dtype} and shape {array.shape}. "
            "The order of arguments is (y_true, probabilities)."
        )
    values = array.astype(np.float64)
    if not ((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all():
        outside = values[~((values >= 0) & (values <= 1 + SUM_TOLERANCE))]
        raise ProbabilitiesError(
            f"{name} must lie in [0, 1]; it holds {outside[0]}. If these are logits, use driftcal.metrics.evaluate(y, logits), or a "
            "calibrator that was fitted on logits."
        )
    if values.ndim == 1 or values.shape[-1] == 1:
        positive = np.minimum(values.reshape(-1), 1)
        return np.stack([1 - positive, positive], axis=1)
    values = values.reshape(-1, values.shape[-1])
    sums = values.sum(axis=1)
    bad = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if len(bad):
        raise ProbabilitiesError(
            f"{name} must sum to 1 for each sample; sample {bad[0]} sums to {sums[bad[0]]:.6g}. If these are one-against-rest scores, "
            "normalise each sample; if they are logits, pass them to a calibrator."
        )
    return values


def from_probabilities(p: AnyArray, name: str = "probabilities") -> LogProbs:
    """Log-probabilities, which are valid logits, from probabilities; a probability of 0 becomes -inf, a masked class.

    Each sample must lie in [0, 1] and sum to 1 within 0.001; it is normalised exactly. Messages call them `name`.

    >>> import numpy as np
    >>> np.exp(from_probabilities([[0.2, 0.8], [1.0, 0.0]]))
    array([[0.2, 0.8],
           [1. , 0. ]])
    """
    values = as_probabilities(p, name)
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


def column_names(logits: AnyArray) -> list[str] | None:
    """The names of a frame's columns, if all of them are strings."""
    names = list(getattr(logits, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


def check_columns(
    frame: AnyArray,
    fitted_names: Sequence[Any] | None,
    name: str,
    owner: str,
    error: type[InputError],
    way_out: str = "",
) -> None:
    """Refuse a frame whose columns are not `fitted_names` in the same order; without names nothing is compared."""
    names = column_names(frame)
    if not names or fitted_names is None or names == list(fitted_names):
        return
    missing = [column for column in fitted_names if column not in names]
    extra = [column for column in names if column not in fitted_names]
    facts = [
        f"{', '.join(map(repr, columns[:3]))}{' …' * (len(columns) > 3)} {'is' if len(columns) == 1 else 'are'} {word}"
        for columns, word in ((missing, "missing"), (extra, "not among them"))
        if columns
    ]
    fact = "; " + " and ".join(facts) if facts else f", {list(fitted_names)[:3]} …; they have {names[:3]} …"
    usual = "Add what is missing." if missing else f"Pass {name}[{owner}.feature_names_in_]."
    raise error(f"{name} must have the columns of fit in the same order{fact}. {way_out or usual}")


def column_indices(
    columns: Sequence[int | str], n_columns: int, names: Sequence[Any] | None = None, argument: str = "categorical"
) -> tuple[int, ...]:
    """The numbers of `columns` of a feature table, sorted; each is a number, negative from the end, or one of `names`.

    >>> column_indices(["colour", -1], 4, ["size", "colour", "weight", "shop"])
    (1, 3)
    """
    indices = set()
    for column in columns:
        if isinstance(column, str) and names:
            if column not in names:
                raise UnknownName.of("column", column, map(str, names))
            indices.add(list(names).index(column))
        elif is_whole(column) and -n_columns <= column < n_columns:
            indices.add(int(column) % n_columns)
        else:
            raise InputError(
                f"{argument} must hold column numbers from 0 to {n_columns - 1}{', or names of columns' if names else ''}; "
                f"it holds {column!r}. Correct or remove it."
            )
    return tuple(sorted(indices))
