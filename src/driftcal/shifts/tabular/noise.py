"""Noise for feature matrices: what Gaussian noise is to images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from driftcal.core.images import as_indices, as_strength
from driftcal.errors import InputError, NotFittedError
from driftcal.shifts.shift import sample_keys
from driftcal.types import AnyArray, Array, Float64


@dataclass(frozen=True, eq=False, repr=False)
class TabularNoise:
    """x + sqrt(level) * scale * N(0, 1), drawn together again so that a feature keeps its mean and its variance.

    Mean and scale of each feature, its standard deviation, come from the validation set. Without drawing together, noise that
    makes a linear model guess would make its logits hundreds of times larger, and a temperature for those ruins all others.

    A categorical column, named by its index, is resampled instead: with probability level / (1 + level), the share
    of noise in the variance of the other columns, the entry is replaced by one drawn from the validation column.
    NaN (a missing value) stays. Constant columns stay. Nothing is clipped.

    >>> import numpy as np
    >>> features = np.column_stack([np.arange(6.0), np.arange(6) % 2])
    >>> shift = TabularNoise().fit(features, categorical=[1])
    >>> shift.scale.tolist()
    [1.707825127659933, 0.0]
    >>> bool(abs(shift(np.tile(features, (999, 1)), 100.0)[:, 0].std() - 1.71) < 0.1)
    True
    >>> shift(features, 0.5, seed=1).shape
    (6, 2)
    """

    scale: Float64 | None = None
    centre: Float64 | None = None
    columns: tuple[tuple[int, Array], ...] = ()
    name: ClassVar[str] = "tabular_noise"
    levels: ClassVar[None] = None

    def fit(self, features: AnyArray, *, categorical: Sequence[int] = ()) -> TabularNoise:
        """The same shift with scales and categories learnt from the (validation) matrix."""
        array = as_matrix(features)
        width = array.shape[1]
        if len(array) == 0:
            raise InputError("features must have at least one row to learn scales from; got none.")
        wrong = [c for c in categorical if isinstance(c, bool) or not -width <= c < width]
        if wrong:
            raise InputError(
                f"categorical must hold column numbers of {width} features; got {wrong[0]!r}. Count from 0."
            )
        named = sorted({int(c) % width for c in categorical})
        scale, centre = np.zeros(width), np.zeros(width)
        for j in range(width):
            if j not in named:
                values = as_numbers(array[:, j], j)
                known = values[~np.isnan(values)]
                if len(known) and not np.isfinite(known).all():
                    raise InputError(f"features must be finite or NaN; column {j} holds inf. Replace it.")
                if len(known):
                    scale[j], centre[j] = known.std(), known.mean()
        return TabularNoise(scale, centre, tuple((c, np.sort(array[:, c])) for c in named))

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The features with noise; a new matrix of the same type (float64 for whole numbers)."""
        strength = as_strength(level, self.name)
        if self.scale is None or self.centre is None:
            raise NotFittedError(
                "the shift 'tabular_noise' does not know the features' scales yet. "
                "Learn them on the validation set: get_shift('tabular_noise').fit(x_val, categorical=[...])."
            )
        array = as_matrix(inputs)
        n, width = array.shape
        if width != len(self.scale):
            raise InputError(
                f"inputs must have the {len(self.scale)} features the scales were learnt on; got {width}. Fit again."
            )
        out = array.astype(np.float64) if array.dtype.kind in "iub" else array.copy()
        keys = sample_keys(self.name, seed, as_indices(indices, n))
        if strength == 0 or n == 0:
            return out
        noise = _normals(keys, width) * (np.sqrt(strength) * self.scale)
        for j in np.flatnonzero(self.scale):
            away = as_numbers(array[:, j], int(j)) - self.centre[j]
            out[:, j] = self.centre[j] + (away + noise[:, j]) / np.sqrt(1 + strength)
        drawn = uniforms(keys, width, 2 * len(self.columns))
        for c, (column, values) in enumerate(self.columns):
            hit = drawn[:, 2 * c] < strength / (1 + strength)
            out[hit, column] = values[(drawn[hit, 2 * c + 1] * len(values)).astype(np.int64)]
        return out

    def __repr__(self) -> str:
        if self.scale is None:
            return "TabularNoise()"
        return f"TabularNoise({len(self.scale)} features, categorical {[c for c, _ in self.columns]})"


def as_matrix(features: AnyArray) -> Array:
    """Features as a matrix."""
    array = np.asarray(features)
    if array.ndim != 2:
        raise InputError(
            f"features must be a matrix (n, features); got shape {array.shape}. One row? Use features[None]."
        )
    return array


def as_numbers(column: Array, j: int) -> Float64:
    """Column j as numbers."""
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"features must be numbers; column {j} holds {column[0]!r}. Is it a category? Name it: categorical=[{j}]."
        ) from None


def _normals(keys: Array, count: int) -> Float64:
    from scipy.special import ndtri

    from driftcal.core.random import first_uniforms

    # the middle of each of 2^53 cells, so that 0 and 1 cannot occur
    return np.asarray(ndtri(first_uniforms(keys, count) + 2.0**-54))


def uniforms(keys: Array, skip: int, count: int) -> Float64:
    """The `count` numbers from 0 to 1 that follow the first `skip` of each key."""
    from driftcal.core.random import first_uniforms

    return first_uniforms(keys, skip + count)[:, skip:]
