"""Intervals by resampling images: every replicate is a vector of weights, never a copy of logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from driftcal.checks import as_array
from driftcal.cores import threads
from driftcal.errors import InputError, UnknownName
from driftcal.numerics import kernel
from driftcal.types import AnyArray, Array, Float64, Weights


@dataclass(frozen=True)
class Interval:
    """Where the true value lies with probability `level`."""

    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


#: Kinds of intervals.
METHODS = ("basic", "bias-corrected")


def units_of(groups: AnyArray, kept: Array, n: int) -> Array:
    """The number of the image that each kept row belongs to: its own, or that of its group."""
    if groups is None:
        return np.arange(len(kept))
    names = as_array(groups, "groups")
    if names.ndim == 0 or names.size != n:
        raise InputError(
            f"groups must name the image of each row; there are {n} rows and it has shape {names.shape}. "
            "Repeat an image's name for each of its rows."
        )
    flat = names.reshape(-1)[kept]
    units: Array = np.unique(flat.astype(str) if flat.dtype == object else flat, return_inverse=True)[1]
    return units


@kernel
def draw(seed: int, replicate: int, counts: Float64) -> None:
    """How often each of n images is drawn in n draws with replacement: a pure function of (seed, replicate)."""
    n = np.uint64(counts.shape[0])
    counts[:] = 0.0
    state = _mix(_mix(np.uint64(seed)) + np.uint64(replicate))
    for _ in range(counts.shape[0]):
        state += np.uint64(0x9E3779B97F4A7C15)
        counts[np.int64(((_mix(state) >> np.uint64(32)) * n) >> np.uint64(32))] += 1.0


@kernel
def _mix(x: Any) -> Any:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def uniform(seed: int, stream: int, out: Float64) -> None:
    """Numbers in [0, 1), a pure function of (seed, stream)."""
    state = _mix(_mix(np.uint64(seed)) + np.uint64(stream))
    for i in range(out.shape[0]):
        state += np.uint64(0x9E3779B97F4A7C15)
        out[i] = np.float64(np.int64(_mix(state) >> np.uint64(11))) * 2.0**-53


@kernel
def draw_weights(seed: int, replicate: int, units: Array, base: Weights, counts: Float64, weights: Weights) -> None:
    """The weights of a replicate: a row counts as often as its image was drawn."""
    draw(seed, replicate, counts)
    for i in range(units.shape[0]):
        weights[i] = base[i] * counts[units[i]]


def over_replicates(run: Callable[[int, int], None], draws: int) -> None:
    """``run(first, last)`` over all replicates on all cores."""
    step = max(1, -(-draws // (4 * threads())))
    with ThreadPoolExecutor(threads()) as pool:
        list(pool.map(lambda first: run(first, min(first + step, draws)), range(0, draws, step)))


def interval_of(
    estimate: float,
    replicates: Float64,
    *,
    level: float = 0.95,
    method: str = "basic",
    bounds: tuple[float, float] = (-np.inf, np.inf),
    calibrated: Float64 | None = None,
) -> Interval:
    """A bootstrap interval from an estimate and its replicates, within `bounds`.

    ``basic`` reflects the replicates at the estimate: the ECE of a resample is larger than that of the sample by about
    as much as that one is larger than the truth, and reflection undoes it twice over. ``bias-corrected`` shifts the
    quantiles by the share of replicates below the estimate. Both are stretched to hold the estimate itself, and down to
    0 where the estimate is no larger than `calibrated` models often show.  Efron & Tibshirani 1993, chapters 13 and 14.

    >>> print(interval_of(0.5, np.linspace(0.4, 0.7, 101), level=0.9))
    [0.315, 0.585]
    """
    check_level(level)
    tail = (1 - level) / 2
    if method == "basic":
        low, high = (2 * estimate - quantile for quantile in _quantiles(replicates, 1 - tail, tail))
    elif method == "bias-corrected":
        below = (replicates < estimate).sum() + (replicates == estimate).sum() / 2
        normal = NormalDist()
        shift = normal.inv_cdf((below + 0.5) / (len(replicates) + 1))
        low, high = _quantiles(replicates, *(normal.cdf(2 * shift + normal.inv_cdf(q)) for q in (tail, 1 - tail)))
    else:
        raise UnknownName.of("interval method", method, METHODS)
    if calibrated is not None and estimate <= _quantiles(calibrated, 1 - tail)[0]:
        low = 0.0
    least, most = bounds
    low, high = (min(max(end, least), most) for end in (min(low, estimate), max(high, estimate)))
    return Interval(float(low), float(high), level)


def _quantiles(values: Float64, *shares: float) -> list[float]:
    """numpy's, to the bit, in a tenth of the time: an evaluation asks for thousands of them, each of a few hundred values."""
    ordered = np.sort(values)
    if np.isnan(ordered[-1]):
        return [math.nan] * len(shares)
    found = []
    for share in shares:
        place = share * (len(ordered) - 1)
        below = min(int(place), len(ordered) - 1)
        low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
        part = place - below
        found.append(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))
    return found


def check_level(level: float) -> None:
    """Refuse a level that is no probability."""
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1; it is {level}. The usual choice is 0.95.")
