"""Noise for feature tables: the shift that tuning uses for them, as Gaussian noise for images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from driftcal.core.validation import NUMBER_KINDS
from driftcal.errors import InputError, NotFittedError
from driftcal.shifts.arguments import as_indices, as_strength
from driftcal.shifts.shift import sample_keys
from driftcal.shifts.tabular.columns import (
    FeatureTable,
    categorical_positions,
    categories_of,
    codes_of,
    open_table,
    sorted_values,
)
from driftcal.types import AnyArray, Array, Float64


@dataclass(frozen=True, eq=False, repr=False)
class TabularNoise:
    """centre + (x - centre + sqrt(level) * scale * N(0, 1)) / sqrt(1 + level): a feature keeps its mean and variance.

    Centre and scale of each feature are its mean and standard deviation on the validation set. Without the division,
    noise that brings a linear model to chance would make its logits hundreds of times larger. One temperature could
    then not fit these and all other levels.

    A categorical column is resampled. With probability level / (1 + level), the share of noise in the variance of the
    other columns, an entry is replaced by one drawn from the validation column. Missing values and constant columns
    stay. Nothing is clipped.

    Features are a matrix or a pandas data frame. A frame keeps its columns, index and dtypes. Whole numbers are
    rounded. Columns of dtype category, object, string or bool are always categorical.

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
    #: (number, sorted values to draw from) of each categorical column
    columns: tuple[tuple[int, Array], ...] = ()
    name: ClassVar[str] = "tabular_noise"
    levels: ClassVar[None] = None

    def fit(self, features: AnyArray, *, categorical: Sequence[int | str] = ()) -> TabularNoise:
        """The same shift with scales and categories of these (validation) features.

        `categorical` holds numbers of columns, for a data frame also names.
        """
        table = open_table(features)
        if table.n_samples == 0:
            raise InputError("features must have at least one sample to learn scales from; got none. Check the filter.")
        positions = categorical_positions(table, categorical)
        scale, centre = np.zeros(table.n_features), np.zeros(table.n_features)
        for j in range(table.n_features):
            if j not in positions:
                numbers = table.numbers(j)
                numbers = numbers[~np.isnan(numbers)]
                if len(numbers) and not np.isfinite(numbers).all():
                    raise InputError(
                        f"features must be finite or NaN; column {table.column_name(j)} holds inf. Replace it."
                    )
                if len(numbers):
                    scale[j], centre[j] = numbers.std(), numbers.mean()
        return TabularNoise(scale, centre, tuple((j, sorted_values(table.values(j))) for j in positions))

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Any:
        """The features with noise: a new data frame, or a new matrix of the same type (float64 for whole numbers)."""
        strength = as_strength(level, self.name)
        if self.scale is None or self.centre is None:
            raise NotFittedError(
                "the shift 'tabular_noise' must be fitted on features before it is used; it is not. "
                "Fit it on the validation set: get_shift('tabular_noise').fit(x_val, categorical=[...])."
            )
        table = open_table(inputs)
        check_width(table, len(self.scale))
        keys = sample_keys(self.name, seed, as_indices(indices, table.n_samples))
        x = table.to_numbers(self._categories)
        if strength == 0 or table.n_samples == 0:
            return table.with_numbers(x, x, self._categories)
        noise = _normals(keys, table.n_features) * (np.sqrt(strength) * self.scale)
        noisy = x.copy()
        for j in np.flatnonzero(self.scale).tolist():
            noisy[:, j] = self.centre[j] + (x[:, j] - self.centre[j] + noise[:, j]) / np.sqrt(1 + strength)
        draws = uniforms(keys, table.n_features, 2 * len(self._numbers_to_draw))
        for c, (j, numbers) in enumerate(self._numbers_to_draw):
            resampled = (draws[:, 2 * c] < strength / (1 + strength)) & ~np.isnan(x[:, j])
            if len(numbers):
                noisy[resampled, j] = numbers[(draws[resampled, 2 * c + 1] * len(numbers)).astype(np.int64)]
        return table.with_numbers(x, noisy, self._categories)

    @cached_property
    def _categories(self) -> dict[int, Array]:
        return {j: categories_of(values) for j, values in self.columns if values.dtype.kind not in NUMBER_KINDS}

    @cached_property
    def _numbers_to_draw(self) -> list[tuple[int, Float64]]:
        """`columns` as numbers and codes."""
        return [
            (j, codes_of(values, self._categories[j]) if j in self._categories else values.astype(np.float64))
            for j, values in self.columns
        ]

    def __repr__(self) -> str:
        if self.scale is None:
            return "TabularNoise()"
        return f"TabularNoise({len(self.scale)} features, categorical {[j for j, _ in self.columns]})"


def check_width(table: FeatureTable, n_features: int) -> None:
    """Refuse a table with another number of columns than a shift was fitted on."""
    if table.n_features != n_features:
        raise InputError(
            f"inputs must have the {n_features} features that the shift was fitted on; got {table.n_features}. Fit again."
        )


def _normals(keys: Array, count: int) -> Float64:
    from scipy.special import ndtri

    from driftcal.core.random import first_uniforms

    # the middle of each of 2^53 intervals: the quantiles of 0 and 1 would be infinite
    return np.asarray(ndtri(first_uniforms(keys, count) + 2.0**-54))


def uniforms(keys: Array, skip: int, count: int) -> Float64:
    """The `count` numbers from 0 to 1 that follow the first `skip` of each key."""
    from driftcal.core.random import first_uniforms

    return first_uniforms(keys, skip + count)[:, skip:]
