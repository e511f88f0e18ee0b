"""Drifts of feature matrices, to test under: none of them is the noise that tuning uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from driftcal.core.images import as_indices, as_step
from driftcal.errors import InputError, NotFittedError
from driftcal.shifts.shift import sample_keys
from driftcal.shifts.tabular.noise import TabularNoise, as_matrix, as_numbers, uniforms
from driftcal.types import AnyArray, Array, Float64

#: name -> what its levels 1 to 5 do: standard deviations, factors, or shares.
DRIFTS: dict[str, tuple[float, ...]] = {
    "feature_offset": (0.25, 0.5, 1.0, 1.5, 2.0),
    "feature_spread": (1.25, 1.5, 2.0, 3.0, 4.0),
    "feature_shrink": (0.8, 0.6, 0.4, 0.2, 0.1),
    "feature_missing": (0.1, 0.2, 0.3, 0.45, 0.6),
    "feature_dead": (0.05, 0.1, 0.2, 0.3, 0.5),
    "feature_shuffled": (0.1, 0.2, 0.3, 0.45, 0.6),
    "feature_outliers": (0.01, 0.02, 0.05, 0.1, 0.2),
}
#: How far off an outlier is, in standard deviations.
_FAR = 6.0
#: Values that are remembered of each column, to draw from.
_REMEMBERED = 1000


@dataclass(frozen=True, eq=False, repr=False)
class FeatureDrift:
    """One way in which feature matrices drift, in the units of the data it was fitted on.

    ``feature_offset`` moves each column by so many standard deviations, up or down as the seed says; ``feature_spread`` and
    ``feature_shrink`` multiply its distance from the mean; ``feature_missing`` replaces a share of the entries and ``feature_dead``
    a share of the columns by the mean, the commonest value of a categorical one; ``feature_shuffled`` replaces a share of the
    entries by others of their column; ``feature_outliers`` throws a share of them far off. Categorical columns keep their
    values where numbers are moved. NaN stays. A share of a higher level holds that of a lower one.

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
    centre: Float64 | None = None
    #: of each column, values in order to draw from, (values, columns)
    values: Float64 | None = None
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    def fit(self, features: AnyArray, *, categorical: Sequence[int] = ()) -> FeatureDrift:
        """The same drift in the units of these features."""
        known = TabularNoise().fit(features, categorical=categorical)
        array, centre = as_matrix(features), np.asarray(known.centre).copy()
        places = np.linspace(0, 1, min(_REMEMBERED, len(array)))
        values = np.empty((len(places), array.shape[1]))
        for j in range(array.shape[1]):
            column = as_numbers(array[:, j], j)
            column = column[~np.isnan(column)]
            values[:, j] = np.quantile(column, places, method="nearest") if len(column) else np.nan
        for j, _ in known.columns:
            found, counts = np.unique(values[:, j], return_counts=True)
            centre[j] = found[counts.argmax()]
        return replace(self, scale=known.scale, centre=centre, values=values)

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The drifted features; a new matrix of the same type (float64 for whole numbers)."""
        step = as_step(level, self.levels, self.name)
        if self.scale is None or self.centre is None or self.values is None:
            raise NotFittedError(
                f"the shift {self.name!r} does not know the features' scales yet. Learn them: get_shift({self.name!r}).fit(x)."
            )
        array = as_matrix(inputs)
        n, width = array.shape
        if width != len(self.scale):
            raise InputError(
                f"inputs must have the {len(self.scale)} features the scales were learnt on; got {width}. Fit again."
            )
        out = np.array(array, np.float32 if array.dtype == np.float32 else np.float64)
        if step == 0 or n == 0:
            return out
        keys = sample_keys(self.name, seed, as_indices(indices, n))
        # one draw for all rows: which columns go up, which go dead
        columns = uniforms(sample_keys(f"{self.name} columns", seed, np.zeros(1, np.int64)), 0, width)[0]
        drifted = self._drifted(out.astype(np.float64), DRIFTS[self.name][step - 1], keys, columns)
        return np.where(np.isnan(out), out, drifted).astype(out.dtype)

    def _drifted(self, x: Float64, amount: float, keys: Array, columns: Float64) -> Float64:
        assert self.scale is not None
        assert self.centre is not None
        assert self.values is not None
        kind, width = self.name.removeprefix("feature_"), x.shape[1]
        if kind == "offset":
            return x + amount * self.scale * np.where(columns < 0.5, -1.0, 1.0)
        if kind in ("spread", "shrink"):
            return np.where(self.scale > 0, self.centre + amount * (x - self.centre), x)
        if kind == "dead":
            dead = columns.argsort().argsort() < max(1, round(amount * width))
            return np.where(dead, self.centre, x)
        drawn = uniforms(keys, 0, 2 * width)
        hit, other = drawn[:, :width] < amount, drawn[:, width:]
        if kind == "missing":
            return np.where(hit, self.centre, x)
        if kind == "shuffled":
            chosen = (other * len(self.values)).astype(np.int64)
            return np.where(hit, np.take_along_axis(self.values, chosen, axis=0), x)
        return np.where(hit, x + _FAR * self.scale * np.where(other < 0.5, -1.0, 1.0), x)

    def label(self, level: float) -> str:
        """What a level means, in words."""
        step = as_step(level, self.levels, self.name)
        if step == 0:
            return "as it is"
        amount = DRIFTS[self.name][step - 1]
        if self.name in ("feature_spread", "feature_shrink"):
            return f"×{amount:g}"
        return f"±{amount:g} sd" if self.name == "feature_offset" else f"{amount:.0%}"

    def __repr__(self) -> str:
        fitted = "" if self.scale is None else f", fitted on {len(self.scale)} features"
        return f"FeatureDrift({self.name!r}{fitted})"
