"""Changes of time series, (n, length, channels), in units of the standard deviation of each channel.

Each change gets a series whose channels have mean 0 and standard deviation 1, an amount, and random numbers of the sample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftcal.types import Array, Float64

#: ``change(z, amount, draws, normals) -> z``: z is (n, length, channels), draws (n, N_DRAWS) in [0, 1), normals as z.
Change = Callable[[Float64, float, Float64, Float64], Float64]

#: Random numbers per sample that a change may use.
N_DRAWS = 6
#: Share of the last value that the next one keeps in coloured noise.
_MEMORY = 0.9
#: Distance of a spike, in standard deviations.
_SPIKE = 5.0


def _coloured_noise(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    from scipy.signal import lfilter

    first = np.sqrt(1 - _MEMORY**2)
    start = normals.copy()
    start[:, 1:] *= first  # the first value has the variance of all others
    noise: Float64 = lfilter([1.0], [1.0, -_MEMORY], start, axis=1)
    return z + amount * noise


def _spikes(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    from scipy.special import ndtri

    return np.where(np.abs(normals) > -ndtri(amount / 2), z + _SPIKE * np.sign(normals), z)


def _dropout(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """A gap in which the last value is held."""
    length = z.shape[1]
    size = max(1, round(amount * length))
    start = (draws[:, :1] * (length - size + 1)).astype(np.int64)
    time = np.arange(length)
    held = np.where((time >= start) & (time < start + size), np.maximum(start - 1, 0), time)
    return _at(z, held)


def _drift(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """A baseline that rises or falls over the series, with a slow wave on it."""
    time = np.linspace(0, 1, z.shape[1])
    sign = np.where(draws[:, :1] < 0.5, -1.0, 1.0)
    baseline = sign * time + 0.5 * np.sin(2 * np.pi * (time + draws[:, 1:2]))
    return z + amount * baseline[..., None]


def _scaling(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """The amplitude is multiplied or divided."""
    factor = np.where(draws[:, 0] < 0.5, amount, 1 / amount)
    return z * factor[:, None, None]


def _stretch(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """Time runs faster or slower around a point of the series; the ends are held."""
    length = z.shape[1]
    factor = np.where(draws[:, :1] < 0.5, amount, 1 / amount)
    fixed = draws[:, 1:2] * (length - 1)
    return _interpolated(z, fixed + (np.arange(length) - fixed) * factor)


def _offset(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    return z + amount * np.where(draws[:, 0] < 0.5, -1.0, 1.0)[:, None, None]


def _interference(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """A sine with 3 to 10 periods, as of mains hum."""
    time = np.linspace(0, 1, z.shape[1])
    periods = 3 + 7 * draws[:, :1]
    return z + (amount * np.sin(2 * np.pi * (periods * time + draws[:, 1:2])))[..., None]


def _smoothing(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """The mean over a window, as of a slow sensor. Missing values stay missing and count in no mean."""
    from scipy.ndimage import uniform_filter1d

    size = 1 + 2 * max(1, round(amount * z.shape[1] / 2))  # odd: an even window would also move the series
    missing = np.isnan(z)
    smooth: Float64 = uniform_filter1d(np.where(missing, 0.0, z), size, axis=1, mode="nearest")
    if missing.any():  # the filter adds and subtracts, so one NaN would stay to the end of the series
        share = uniform_filter1d((~missing).astype(np.float64), size, axis=1, mode="nearest")
        smooth = np.where(missing, np.nan, smooth / np.maximum(share, 1 / size))
    return smooth


def _rounding(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    return np.round(z / amount) * amount


def _clipping(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """A sensor that saturates at this many standard deviations."""
    return np.clip(z, -amount, amount)


def _delay(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """The series begins earlier or later; the ends are held."""
    length = z.shape[1]
    steps = np.where(draws[:, :1] < 0.5, -amount, amount) * length
    return _interpolated(z, np.arange(length) + steps)


def _warped(z: Float64, amount: float, draws: Float64, normals: Float64) -> Float64:
    """Values are raised to a power, sign by sign: large ones shrink."""
    return np.sign(z) * np.abs(z) ** amount


def _at(z: Float64, positions: Array) -> Float64:
    return np.take_along_axis(z, positions[..., None], axis=1)


def _interpolated(z: Float64, positions: Float64) -> Float64:
    """Values at positions between the samples of a series."""
    clipped = np.clip(positions, 0, z.shape[1] - 1)
    low = np.minimum(clipped.astype(np.int64), max(0, z.shape[1] - 2))
    share = (clipped - low)[..., None]
    return (1 - share) * _at(z, low) + share * _at(z, np.minimum(low + 1, z.shape[1] - 1))


#: name -> (change, amounts at levels 1 to 5)
SERIES_SHIFTS: dict[str, tuple[Change, tuple[float, ...]]] = {
    "series_coloured_noise": (_coloured_noise, (0.1, 0.25, 0.5, 0.8, 1.2)),
    "series_spikes": (_spikes, (0.01, 0.03, 0.06, 0.12, 0.25)),
    "series_dropout": (_dropout, (0.1, 0.2, 0.35, 0.5, 0.7)),
    "series_drift": (_drift, (0.25, 0.5, 1.0, 1.6, 2.5)),
    "series_scaling": (_scaling, (1.2, 1.5, 2.0, 3.0, 4.5)),
    "series_stretch": (_stretch, (1.08, 1.2, 1.4, 1.7, 2.2)),
}
#: name -> (family, change, amounts at levels 1 to 5) of the shifts for fitting windowed calibrators. Close relatives:
#: ``series_offset`` and ``series_hum`` of drift, ``series_warped`` of scaling, ``series_delay`` of stretch.
SIMULATED_SERIES: dict[str, tuple[str, Change, tuple[float, ...]]] = {
    "series_offset": ("offset", _offset, (0.2, 0.4, 0.8, 1.3, 2.0)),
    "series_hum": ("interference", _interference, (0.2, 0.4, 0.8, 1.3, 2.0)),
    "series_smooth": ("resolution", _smoothing, (0.06, 0.12, 0.2, 0.35, 0.6)),
    "series_rounded": ("resolution", _rounding, (0.3, 0.6, 1.0, 1.6, 2.5)),
    "series_clipped": ("amplitude", _clipping, (1.3, 0.9, 0.6, 0.3, 0.12)),
    "series_warped": ("amplitude", _warped, (0.85, 0.7, 0.5, 0.3, 0.15)),
    "series_delay": ("time", _delay, (0.05, 0.1, 0.2, 0.3, 0.45)),
}
