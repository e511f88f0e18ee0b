"""Shifts of time series for evaluation and for fitting, and the noise that tuning uses on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from driftcal.errors import InputError, NotFittedError
from driftcal.shifts.arguments import as_indices, as_step, as_strength
from driftcal.shifts.series.changes import N_DRAWS, SERIES_SHIFTS, SIMULATED_SERIES, Change
from driftcal.shifts.shift import sample_keys
from driftcal.types import AnyArray, Array, Float64


@dataclass(frozen=True, eq=False, repr=False)
class FittedOnChannels:
    """A shift of series in the units of its channels: their means and standard deviations, which `fit` learns."""

    centre: Float64 | None = None
    scale: Float64 | None = None

    def fit(self, series: AnyArray) -> Self:
        """The same shift in the units of these series, (n, length, channels)."""
        values = series_array(series).astype(np.float64)
        if not len(values):
            raise InputError("series must have at least one sample to learn scales from; got none. Check the filter.")
        return self._with(np.nanmean(values, axis=(0, 1)), np.nanstd(values, axis=(0, 1)))

    def _with(self, centre: Float64, scale: Float64) -> Self:
        raise NotImplementedError

    def _units(self, name: str, values: Array) -> tuple[Float64, Float64]:
        """Centre and scale of each channel; a constant channel has the scale 0."""
        if self.centre is None or self.scale is None:
            raise NotFittedError(
                f"the shift {name!r} must be fitted on series before it is used; it is not. Fit it: get_shift({name!r}).fit(x)."
            )
        if values.shape[2] != len(self.scale):
            raise InputError(
                f"inputs must have the {len(self.scale)} channels that the shift {name!r} was fitted on; they have {values.shape[2]}. "
                "Series are (n, length, channels)."
            )
        return self.centre, self.scale


@dataclass(frozen=True, eq=False, repr=False)
class SeriesShift(FittedOnChannels):
    """One shift of time series or spectra at levels 0 to 5, in the units of the data it was fitted on.

    ``series_coloured_noise`` adds noise whose values follow their predecessors. ``series_spikes`` moves single values by five
    standard deviations. ``series_dropout`` holds a value over a part of the series. ``series_drift`` adds a rising or falling
    baseline. ``series_scaling`` multiplies or divides the amplitude, ``series_stretch`` the speed.

    For fitting: ``series_offset`` moves the whole series, ``series_hum`` adds a sine, ``series_smooth`` and
    ``series_rounded`` lower the resolution, ``series_clipped`` and ``series_warped`` the amplitude, ``series_delay``
    moves it in time. Missing values (NaN) stay missing where a value does not move.

    >>> ramp = np.linspace(0, 1, 6)[None, :, None]
    >>> SeriesShift(name="series_offset").fit(ramp)(ramp, 5).ravel().round(1)
    array([0.7, 0.9, 1.1, 1.3, 1.5, 1.7], dtype=float32)
    """

    name: str = ""
    levels: ClassVar[tuple[int, ...]] = tuple(range(6))

    @property
    def family(self) -> str:
        """Shifts of one family are alike: cross-validation leaves them out together."""
        return SIMULATED_SERIES[self.name][0] if self.name in SIMULATED_SERIES else self.name

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The changed series, float32."""
        step = as_step(level, self.levels, self.name)
        values = series_array(inputs)
        centre, scale = self._units(self.name, values)
        if step == 0 or not len(values):
            return values.astype(np.float32)
        change, amounts = self._change
        keys = sample_keys(self.name, seed, as_indices(indices, len(values)))
        draws, normals = _random_numbers(keys, values.shape)
        z = (values - centre) / np.where(scale > 0, scale, 1.0)
        changed = centre + np.where(scale > 0, scale, 1.0) * change(z, amounts[step - 1], draws, normals)
        return np.where(scale > 0, changed, values).astype(np.float32)

    def label(self, level: float) -> str:
        """The amount at a level."""
        step = as_step(level, self.levels, self.name)
        if step == 0:
            return "clean"
        amount = self._change[1][step - 1]
        if self.name in ("series_spikes", "series_dropout"):
            return f"{amount:.0%}"
        return f"×{amount:g}" if self.name in ("series_scaling", "series_stretch") else f"{amount:g}"

    def __repr__(self) -> str:
        fitted = "" if self.scale is None else f", fitted on {len(self.scale)} channels"
        return f"SeriesShift({self.name!r}{fitted})"

    @property
    def _change(self) -> tuple[Change, tuple[float, ...]]:
        return SIMULATED_SERIES[self.name][1:] if self.name in SIMULATED_SERIES else SERIES_SHIFTS[self.name]

    def _with(self, centre: Float64, scale: Float64) -> Self:
        return type(self)(centre, scale, self.name)


@dataclass(frozen=True, eq=False, repr=False)
class SeriesNoise(FittedOnChannels):
    """White noise on series, which tuning uses: centre + (x - centre + sqrt(level) * scale * N(0, 1)) / sqrt(1 + level).

    A channel keeps its mean and variance, as a feature under `TabularNoise`. At high levels nothing of the series is
    left, so the accuracy falls to chance, as Algorithm 1 needs. None of the suite ``series`` is this noise;
    ``series_coloured_noise`` is a close relative.

    >>> SeriesNoise().fit(np.zeros((2, 5, 1)))(np.zeros((1, 5, 1)), 0.5).ravel().tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """

    name: ClassVar[str] = "series_noise"
    levels: ClassVar[None] = None

    def __call__(self, inputs: AnyArray, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Array:
        """The noisy series, float32."""
        strength = as_strength(level, self.name)
        values = series_array(inputs)
        centre, scale = self._units(self.name, values)
        if strength == 0 or not len(values):
            return values.astype(np.float32)
        keys = sample_keys(self.name, seed, as_indices(indices, len(values)))
        _, normals = _random_numbers(keys, values.shape)
        noisy = centre + (values - centre + np.sqrt(strength) * scale * normals) / np.sqrt(1 + strength)
        return np.where(scale > 0, noisy, values).astype(np.float32)

    def __repr__(self) -> str:
        return "SeriesNoise()" if self.scale is None else f"SeriesNoise({len(self.scale)} channels)"

    def _with(self, centre: Float64, scale: Float64) -> Self:
        return type(self)(centre, scale)


def series_array(inputs: AnyArray) -> Array:
    """Series as floats (n, length, channels)."""
    values = np.asarray(inputs)
    if values.ndim != 3 or values.dtype.kind not in "fiu":
        raise InputError(
            f"series must be numbers (n, length, channels); they are {values.dtype} of shape {values.shape}. One channel needs an axis, "
            "too: x[..., None]."
        )
    return values


def _random_numbers(keys: Array, shape: tuple[int, ...]) -> tuple[Float64, Float64]:
    """Uniform numbers (n, N_DRAWS) and normal numbers (n, length, channels) of each sample."""
    from scipy.special import ndtri

    from driftcal.core.random import first_uniforms

    uniforms = first_uniforms(keys, N_DRAWS + shape[1] * shape[2])
    # the middle of each of 2^53 intervals: the quantiles of 0 and 1 would be infinite
    normals: Float64 = ndtri(uniforms[:, N_DRAWS:] + 2.0**-54).reshape(shape)
    return uniforms[:, :N_DRAWS], normals
