"""Declared shape, dtype and range of the fitted attributes of a calibrator, which loading a file checks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

#: The name of the length that is the number of classes.
CLASSES = "classes"
#: Calibrators divide by positive numbers; the quotient by a smaller one overflows.
_SMALLEST_POSITIVE = 1e-300
#: Calibrators multiply other numbers with logits.
_LARGEST = 1e200


@dataclass(frozen=True)
class FittedArray:
    """Shape, dtype and range of a fitted attribute; without arguments it is a finite float.

    Parameters
    ----------
    *shape
        A length per axis: a number, "classes" for the number of classes, or any name. Lengths with the same name must
        agree. A last length that ends in "?" may be missing. Without lengths it is a single number.
    dtype
        float64 by default.
    positive
        Whether all values must be above 0.
    may_be_empty
        Whether a named length may be 0.
    low, high
        The smallest and the largest value that is allowed.

    >>> FittedArray("classes", "bins")
    FittedArray('classes', 'bins')
    """

    shape: tuple[int | str, ...]
    dtype: Any = np.float64
    positive: bool = False
    may_be_empty: bool = False
    low: float = -math.inf
    high: float = math.inf

    def __init__(
        self,
        *shape: int | str,
        dtype: Any = np.float64,
        positive: bool = False,
        may_be_empty: bool = False,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> None:
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "positive", positive)
        object.__setattr__(self, "may_be_empty", may_be_empty)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def __repr__(self) -> str:
        return f"FittedArray({', '.join(map(repr, self.shape))})"


def check_arrays(values: Mapping[str, Any], declared: Mapping[str, FittedArray], n_classes: int) -> None:
    """Raise `ValueError` for arrays that are not as declared: kernels trust shapes and ranges.

    >>> check_arrays({"slopes_": np.ones(3)}, {"slopes_": FittedArray("classes")}, 3)
    """
    lengths = {CLASSES: n_classes}
    for name, spec in declared.items():
        value = np.asarray(values[name])
        if value.dtype != spec.dtype or not np.isfinite(value).all():
            raise ValueError(f"{name} must hold finite {np.dtype(spec.dtype).name} numbers")
        if not spec.positive and value.dtype == np.float64 and not (np.abs(value) <= _LARGEST).all():
            raise ValueError(f"{name} must lie in [-{_LARGEST:g}, {_LARGEST:g}]: products with logits overflow")
        if spec.positive and not (value >= _SMALLEST_POSITIVE).all():
            raise ValueError(f"{name} must be positive")
        if not ((value >= spec.low) & (value <= spec.high)).all():
            raise ValueError(f"{name} must lie in [{spec.low:g}, {spec.high:g}]")
        shape = spec.shape
        if shape and str(shape[-1]).endswith("?"):
            shape = (*shape[:-1], str(shape[-1])[:-1]) if value.ndim == len(shape) else shape[:-1]
        if value.ndim != len(shape):
            raise ValueError(f"{name} must have {len(shape)} axes; it has {value.ndim}")
        for length, axis in zip(value.shape, shape, strict=True):
            expected = lengths.setdefault(axis, length) if isinstance(axis, str) else axis
            if length != expected:
                raise ValueError(f"{name} must have length {expected} for {axis!r}; it has {length}")
            if length == 0 and not spec.may_be_empty:
                raise ValueError(f"{name} must not be empty")
