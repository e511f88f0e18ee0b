"""Smooth ECE: the residual smoothed by a Gaussian whose width is the error itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.numerics import exp, kernel
from driftcal.types import Float64, Weights

#: Cells of the grid on [0, 1] that confidences are spread on, each between its two neighbours.
CELLS = 1024
#: How near the fixed point the search ends, and after how many steps it would give up.
TOLERANCE, MOST_STEPS = 1e-9, 60


@dataclass(frozen=True, eq=False)
class Smooth:
    """Rows of claims and outcomes, ready to be weighed and smoothed."""

    claims: Float64
    residuals: Float64

    @classmethod
    def of(cls, claims: Float64, outcomes: Float64) -> Smooth:
        """Rows from claims and outcomes."""
        return cls(claims, claims - outcomes)

    def grid(self, weights: Weights) -> Float64:
        """The weighted mean residual, spread on the grid."""
        cells = np.zeros(CELLS + 1)
        spread(self.claims, self.residuals, weights, cells)
        return cells

    def error(self, weights: Weights, bandwidth: float | None = None) -> float:
        """The smooth error at a bandwidth, or at the fixed point."""
        grids = self.grid(weights)[None]
        return float(fixed_points(grids)[0] if bandwidth is None else smoothed(grids, np.array([bandwidth]))[0])


@kernel
def spread(claims: Float64, residuals: Float64, weights: Weights, cells: Float64) -> None:
    """Add each row's share of residual to the two grid points around its claim."""
    total = 0.0
    for i in range(claims.shape[0]):
        total += weights[i]
    for i in range(claims.shape[0]):
        place = claims[i] * CELLS
        low = min(int(place), CELLS - 1)
        share = weights[i] * residuals[i] / total
        cells[low] += share * (low + 1 - place)
        cells[low + 1] += share * (place - low)


@kernel
def _damp(waves: Float64, bandwidths: Float64) -> None:
    for b in range(waves.shape[0]):
        rate = -0.5 * (np.pi * bandwidths[b]) ** 2
        for k in range(waves.shape[1]):
            waves[b, k] *= exp(rate * k * k)


def smoothed(grids: Float64, bandwidths: Float64) -> Float64:
    """∫ |Σ_i w_i r_i K_σ(c_i, t)| dt / W for each row of grids, with the Gaussian reflected at 0 and 1.

    Reflection makes cosines the kernel's eigenfunctions: smoothing multiplies wave k by exp(−(π k σ)² / 2).
    """
    return _smoothed_waves(_waves(grids), bandwidths)


def _waves(grids: Float64) -> Float64:
    from scipy import fft  # here, so that importing driftcal.metrics stays quick

    mass = grids.copy()
    mass[:, [0, -1]] *= 2  # an end point owns half a cell
    waves: Float64 = fft.dct(mass, type=1, axis=1)
    return waves


def _smoothed_waves(waves: Float64, bandwidths: Float64) -> Float64:
    from scipy import fft

    waves = waves.copy()
    _damp(waves, bandwidths)
    density = np.abs(fft.idct(waves, type=1, axis=1, overwrite_x=True))
    result: Float64 = density[:, 1:-1].sum(axis=1) + (density[:, 0] + density[:, -1]) / 2
    return result


def fixed_points(grids: Float64) -> Float64:
    """The error at the bandwidth that equals it: wider kernels never raise the error, so there is one crossing.

    It lies between the absolute mean residual, which no kernel gets below, and the error at that bandwidth. Regula falsi
    with the Illinois rule closes in on it.
    """
    waves = _waves(grids)
    low = np.abs(grids.sum(axis=1))
    high = _smoothed_waves(waves, low)
    above, below = high - low, _smoothed_waves(waves, high) - high  # error − bandwidth at both ends
    kept_low, kept_high = np.zeros(len(grids), bool), np.zeros(len(grids), bool)
    for _ in range(MOST_STEPS):
        if ((high - low < TOLERANCE) | (above < TOLERANCE) | (below > -TOLERANCE)).all():
            break
        slope = np.where(above - below > 0, above - below, 1)
        middle = np.clip(low + (high - low) * above / slope, low, high)
        value = _smoothed_waves(waves, middle) - middle
        up = value > 0
        below = np.where(up & kept_high, below / 2, np.where(up, below, value))
        above = np.where(~up & kept_low, above / 2, np.where(up, value, above))
        low, high = np.where(up, middle, low), np.where(up, high, middle)
        kept_low, kept_high = ~up, up
    return np.where(above < TOLERANCE, low, np.where(below > -TOLERANCE, high, (low + high) / 2))
