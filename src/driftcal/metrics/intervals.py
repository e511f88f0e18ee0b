"""Confidence intervals: of a statistic from its bootstrap replicates, and of a share (Wilson)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from driftcal.errors import InputError, UnknownName
from driftcal.types import Float64

#: Kinds of bootstrap intervals.
INTERVAL_METHODS = ("basic", "bias-corrected")


@dataclass(frozen=True)
class Interval:
    """A range that contains the true value with probability `confidence_level`."""

    low: float
    high: float
    confidence_level: float

    def __str__(self) -> str:
        return f"[{self.low:.4g}, {self.high:.4g}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def bootstrap_interval(
    estimate: float,
    replicates: Float64,
    *,
    confidence_level: float = 0.95,
    method: str = "basic",
    bounds: tuple[float, float] = (-np.inf, np.inf),
    null_replicates: Float64 | None = None,
) -> Interval:
    """A bootstrap interval from an estimate and its replicates, within `bounds`.

    ``basic`` reflects the replicates at the estimate. The ECE of a resample exceeds that of the sample by about as much
    as the sample's exceeds the true value, and reflection removes both. ``bias-corrected`` shifts the quantiles by the
    share of replicates below the estimate. Both intervals are widened to contain the estimate. They begin at 0 if the
    estimate is within the usual range of a calibrated model (`null_replicates`).  Efron & Tibshirani 1993, chapters 13
    and 14.

    >>> print(bootstrap_interval(0.5, np.linspace(0.4, 0.7, 101), confidence_level=0.9))
    [0.315, 0.585]
    """
    check_confidence_level(confidence_level)
    tail = (1 - confidence_level) / 2
    if method == "basic":
        low, high = (2 * estimate - quantile for quantile in _quantiles(replicates, 1 - tail, tail))
    elif method == "bias-corrected":
        below = (replicates < estimate).sum() + (replicates == estimate).sum() / 2
        normal = NormalDist()
        shift = normal.inv_cdf((below + 0.5) / (len(replicates) + 1))
        low, high = _quantiles(replicates, *(normal.cdf(2 * shift + normal.inv_cdf(q)) for q in (tail, 1 - tail)))
    else:
        raise UnknownName.of("interval method", method, INTERVAL_METHODS)
    if null_replicates is not None and estimate <= _quantiles(null_replicates, 1 - tail)[0]:
        low = 0.0
    smallest, largest = bounds
    low, high = (min(max(end, smallest), largest) for end in (min(low, estimate), max(high, estimate)))
    return Interval(float(low), float(high), confidence_level)


def wilson_interval(share: Float64, n: Float64, confidence_level: float = 0.95) -> tuple[Float64, Float64]:
    """The score interval of shares of `n` samples each, widened to contain the share itself.  Wilson 1927.

    >>> low, high = wilson_interval(np.array([0.9]), np.array([100.0]))
    >>> print(f"{low[0]:.3f} {high[0]:.3f}")
    0.826 0.945
    """
    z = NormalDist().inv_cdf((1 + confidence_level) / 2)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return np.minimum(np.clip(centre - half, 0, 1), share), np.maximum(np.clip(centre + half, 0, 1), share)


def check_confidence_level(confidence_level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    if not 0 < confidence_level < 1:
        raise InputError(
            f"confidence_level must lie between 0 and 1; it is {confidence_level}. The usual choice is 0.95."
        )


def _quantiles(values: Float64, *shares: float) -> list[float]:
    """numpy's quantiles with the same bits in a tenth of the time: an evaluation needs thousands of them."""
    ordered = np.sort(values)
    if np.isnan(ordered[-1]):
        return [math.nan] * len(shares)
    quantiles = []
    for share in shares:
        position = share * (len(ordered) - 1)
        below = min(int(position), len(ordered) - 1)
        low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
        fraction = position - below
        quantiles.append(low + (high - low) * fraction if fraction < 0.5 else high - (high - low) * (1 - fraction))
    return quantiles
