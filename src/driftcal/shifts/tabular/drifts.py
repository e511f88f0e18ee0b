"""Drifts of feature tables: seven for evaluation, and others on which windowed calibrators are fitted.

None of either is the noise that tuning uses, and none of the others is one of the seven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from driftcal.core.validation import NUMBER_KINDS
from driftcal.errors import NotFittedError
from driftcal.shifts.arguments import as_indices, as_step
from driftcal.shifts.shift import sample_keys
from driftcal.shifts.tabular.columns import categories_of, codes_of, open_table
from driftcal.shifts.tabular.tabular_noise import TabularNoise, check_width, uniforms
from driftcal.types import AnyArray, Array, Float64

#: name -> amounts at levels 1 to 5: standard deviations, factors, or shares.
DRIFTS: dict[str, tuple[float, ...]] = {
    "feature_offset": (0.25, 0.5, 1.0, 1.5, 2.0),
    "feature_spread": (1.25, 1.5, 2.0, 3.0, 4.0),
    "feature_shrink": (0.8, 0.6, 0.4, 0.2, 0.1),
    "feature_missing": (0.1, 0.2, 0.3, 0.45, 0.6),
    "feature_dead": (0.05, 0.1, 0.2, 0.3, 0.5),
    "feature_shuffled": (0.1, 0.2, 0.3, 0.45, 0.6),
    "feature_outliers": (0.01, 0.02, 0.05, 0.1, 0.2),
}
#: name -> (family, amounts at levels 1 to 5) of the drifts for fitting. Close relatives: ``feature_scaled`` and
#: ``feature_warped`` of spread and shrink; ``feature_tilted`` of offset; ``feature_blended`` and ``feature_redrawn`` of
#: shuffled; ``feature_dropped`` of missing.
SIMULATED_DRIFTS: dict[str, tuple[str, tuple[float, ...]]] = {
    "feature_scaled": ("scale", (0.3, 0.6, 1.0, 1.5, 2.2)),
    "feature_warped": ("scale", (0.8, 0.65, 0.5, 0.35, 0.2)),
    "feature_tilted": ("offset", (0.4, 0.8, 1.5, 2.2, 3.0)),
    "feature_blended": ("blend", (0.1, 0.2, 0.35, 0.5, 0.7)),
    "feature_redrawn": ("columns", (0.05, 0.1, 0.2, 0.35, 0.6)),
    "feature_dropped": ("dropped", (0.05, 0.1, 0.2, 0.35, 0.5)),
    "feature_rounded": ("rounding", (0.3, 0.6, 1.0, 1.6, 2.5)),
}
#: Distance of an outlier, in standard deviations.
_OUTLIER_DISTANCE = 6.0
#: Largest number of values of a column that are stored to draw from.
_MAX_VALUES = 1000


@dataclass(frozen=True, eq=False, repr=False)
class FeatureDrift:
    """One drift of feature tables, in the units of the data it was fitted on.

    ``feature_offset`` moves each column by a number of standard deviations; the seed decides whether up or down.
    ``feature_spread`` and ``feature_shrink`` multiply the distance from the mean.
    ``feature_missing`` replaces a share of the entries by the mean, or by the most frequent category.
    ``feature_dead`` does the same to a share of the columns.
    ``feature_shuffled`` replaces a share of the entries by others of their column.
    ``feature_outliers`` moves a share of the entries by six standard deviations.

    For fitting: ``feature_scaled`` multiplies a sample's distances from the mean by a random factor, ``feature_warped``
    raises them to a power. ``feature_tilted`` moves a sample a random distance along one direction that the seed decides.
    ``feature_blended`` moves entries towards those of other samples, ``feature_redrawn`` replaces whole columns by them.
    ``feature_dropped`` replaces entries by the lowest value of the column. ``feature_rounded`` rounds to multiples of
    standard deviations.

    Drifts that move numbers do not change categorical columns. Missing values stay. A higher level changes all entries
    that a lower level changes. A pandas data frame keeps its columns, index and dtypes, as for :class:`TabularNoise`.

    >>> import numpy as np
    >>> features = np.column_stack([np.arange(6.0), np.arange(6) % 2])
    >>> spread = FeatureDrift("feature_spread").fit(features, categorical=[1])
    >>> spread(features, 3)[:, 0].tolist()
    [-2.5, -0.5, 1.5, 3.5, 5.5, 7.5]
    >>> spread.label(3)
    '×2'
    """

    name: str
    scale: Float64 | None = None
    #: Mean of each column; for a categorical column its most frequent value, as a number or a code.
    centre: Float64 | None = None
    #: Sorted values of each column to draw from: (values, columns), or an array per column if some are not numbers.
    values: Float64 | tuple[Array, ...] | None = None
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    def fit(self, features: AnyArray, *, categorical: Sequence[int | str] = ()) -> FeatureDrift:
        """The same drift in the units of these features.

        `categorical` holds numbers of columns, for a data frame also names.
        """
        table = open_table(features)
        noise = TabularNoise().fit(features, categorical=categorical)
        category_values = dict(noise.columns)
        columns, centre = [], np.asarray(noise.centre).copy()
        for j in range(table.n_features):
            values = category_values[j] if j in category_values else table.numbers(j)
            columns.append(_evenly_chosen(values, table.n_samples))
            if j in category_values:
                numbers, counts = np.unique(_as_numbers(columns[j]), return_counts=True)
                centre[j] = numbers[counts.argmax()]
        are_numbers = all(column.dtype != object for column in columns)
        drawn_from: Any = np.stack(columns, axis=1) if are_numbers else tuple(columns)
        return replace(self, scale=noise.scale, centre=centre, values=drawn_from)

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Any:
        """The drifted features: a new data frame, or a new matrix of the same type (float64 for whole numbers)."""
        step = as_step(level, self.levels, self.name)
        if self.scale is None:
            raise NotFittedError(
                f"the shift {self.name!r} must be fitted on features before it is used; it is not. "
                f"Fit it: get_shift({self.name!r}).fit(x)."
            )
        table = open_table(inputs)
        check_width(table, len(self.scale))
        x = table.to_numbers(self._categories)
        if step == 0 or table.n_samples == 0:
            return table.with_numbers(x, x, self._categories)
        keys = sample_keys(self.name, seed, as_indices(indices, table.n_samples))
        # one draw for all samples: it decides which columns move up and which are replaced
        column_key = sample_keys(f"{self.name} columns", seed, np.zeros(1, np.int64))
        column_draws = uniforms(column_key, 0, table.n_features)[0]
        drifted = self._drifted(x, self._amounts[step - 1], keys, column_draws)
        return table.with_numbers(x, np.where(np.isnan(x), x, drifted), self._categories)

    @property
    def family(self) -> str:
        """Drifts of one family are alike: cross-validation leaves them out together."""
        return SIMULATED_DRIFTS[self.name][0] if self.name in SIMULATED_DRIFTS else self.name

    @property
    def _amounts(self) -> tuple[float, ...]:
        return SIMULATED_DRIFTS[self.name][1] if self.name in SIMULATED_DRIFTS else DRIFTS[self.name]

    @cached_property
    def _categories(self) -> dict[int, Array]:
        if not isinstance(self.values, tuple):
            return {}
        return {j: categories_of(column) for j, column in enumerate(self.values) if column.dtype == object}

    @cached_property
    def _numbers_to_draw(self) -> Float64:
        """`values` as numbers and codes, (values, columns)."""
        if not isinstance(self.values, tuple):
            return np.asarray(self.values)
        return np.stack([_as_numbers(column) for column in self.values], axis=1)

    def _drifted(self, x: Float64, amount: float, keys: Array, column_draws: Float64) -> Float64:
        """All entries after the drift, as numbers and codes; `column_draws` is a random number in [0, 1) per column."""
        assert self.scale is not None
        assert self.centre is not None
        kind, width = self.name.removeprefix("feature_"), x.shape[1]
        if kind == "offset":
            return x + amount * self.scale * np.where(column_draws < 0.5, -1.0, 1.0)
        if kind in ("spread", "shrink"):
            return np.where(self.scale > 0, self.centre + amount * (x - self.centre), x)
        if kind in ("dead", "redrawn"):
            chosen_columns = column_draws.argsort().argsort() < max(1, round(amount * width))
            return np.where(chosen_columns, self.centre if kind == "dead" else self._drawn(uniforms(keys, 0, width)), x)
        if kind in ("scaled", "warped", "tilted", "rounded"):
            return np.where(self.scale > 0, self._moved(kind, x, amount, uniforms(keys, 0, 1), column_draws), x)
        draws = uniforms(keys, 0, 2 * width)
        changed, second_draw = draws[:, :width] < amount, draws[:, width:]
        if kind == "missing":
            return np.where(changed, self.centre, x)
        if kind == "dropped":
            return np.where(changed, np.nanmin(self._numbers_to_draw, axis=0), x)
        if kind == "blended":
            others = self._drawn(second_draw)
            return np.where(self.scale > 0, x + amount * (others - x), np.where(changed, others, x))
        if kind == "shuffled":
            return np.where(changed, self._drawn(second_draw), x)
        return np.where(changed, x + _OUTLIER_DISTANCE * self.scale * np.where(second_draw < 0.5, -1.0, 1.0), x)

    def _drawn(self, draws: Float64) -> Float64:
        """An entry of the same column for each draw."""
        chosen = (draws * len(self._numbers_to_draw)).astype(np.int64)
        return np.take_along_axis(self._numbers_to_draw, chosen, axis=0)

    def _moved(self, kind: str, x: Float64, amount: float, draw: Float64, column_draws: Float64) -> Float64:
        """Entries that moved within their columns; `draw` is a random number per sample, (n, 1)."""
        assert self.scale is not None
        assert self.centre is not None
        scale = np.where(self.scale > 0, self.scale, 1.0)
        z = (x - self.centre) / scale
        if kind == "scaled":
            z = z * np.exp(amount * (2 * draw - 1))
        elif kind == "warped":
            z = np.sign(z) * np.abs(z) ** amount
        elif kind == "tilted":
            z = z + amount * draw * np.where(column_draws < 0.5, -1.0, 1.0)
        else:
            z = np.round(z / amount) * amount
        moved: Float64 = self.centre + scale * z
        return moved

    def label(self, level: float) -> str:
        """The meaning of a level: a factor, standard deviations or a share."""
        step = as_step(level, self.levels, self.name)
        if step == 0:
            return "clean"
        amount = self._amounts[step - 1]
        if self.name in SIMULATED_DRIFTS:
            return f"{amount:g}"
        if self.name in ("feature_spread", "feature_shrink"):
            return f"×{amount:g}"
        return f"±{amount:g} sd" if self.name == "feature_offset" else f"{amount:.0%}"

    def __repr__(self) -> str:
        fitted = "" if self.scale is None else f", fitted on {len(self.scale)} features"
        return f"FeatureDrift({self.name!r}{fitted})"


def _evenly_chosen(values: Array, n_samples: int) -> Array:
    """At most `_MAX_VALUES` of a column's values, evenly spaced in their order."""
    quantiles = np.linspace(0, 1, min(_MAX_VALUES, n_samples))
    numbers = _as_numbers(values)
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers):
        return np.full(len(quantiles), np.nan, values.dtype if values.dtype == object else np.float64)
    chosen = np.quantile(numbers, quantiles, method="nearest")
    return chosen if values.dtype.kind in NUMBER_KINDS else categories_of(values)[chosen.astype(np.int64)]


def _as_numbers(values: Array) -> Float64:
    """Numbers as they are, sorted categories as codes."""
    return values.astype(np.float64) if values.dtype.kind in NUMBER_KINDS else codes_of(values, categories_of(values))
