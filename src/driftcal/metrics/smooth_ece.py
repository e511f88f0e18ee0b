"""Smooth ECE: the integral of the residual, smoothed by a Gaussian whose bandwidth is the error itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftcal.core.numerics import exp, kernel
from driftcal.types import Float64, Weights

#: Intervals of the grid on [0, 1]. A residual is divided between the two grid points around its confidence.
GRID = 1024
#: The search for the fixed point ends within this distance of it.
TOLERANCE = 1e-9
#: Largest number of steps of the search; it usually takes fewer than ten.
MAX_STEPS = 60


@dataclass(frozen=True, eq=False)
class SmoothedResiduals:
    """Confidence and residual (confidence − outcome) of each sample, ready to be weighted and smoothed."""

    confidence: Float64
    residuals: Float64

    @classmethod
    def of(cls, confidence: Float64, outcome: Float64) -> SmoothedResiduals:
        """The residuals from the confidence and outcome of each sample."""
        return cls(confidence, confidence - outcome)

    def grid(self, weights: Weights) -> Float64:
        """The weighted mean residual at each grid point."""
        points = np.zeros(GRID + 1)
        add_to_grid(self.confidence, self.residuals, weights, points)
        return points

    def error(self, weights: Weights, bandwidth: float | None = None) -> float:
        """The smooth error at a bandwidth, or at the fixed point."""
        grids = self.grid(weights)[None]
        return float(fixed_points(grids)[0] if bandwidth is None else smoothed(grids, np.array([bandwidth]))[0])


@kernel
def add_to_grid(confidence: Float64, residuals: Float64, weights: Weights, points: Float64) -> None:
    """Add each sample's share of the residual to the two grid points around its confidence."""
    total = 0.0
    for i in range(confidence.shape[0]):
        total += weights[i]
    for i in range(confidence.shape[0]):
        position = confidence[i] * GRID
        low = min(int(position), GRID - 1)
        share = weights[i] * residuals[i] / total
        points[low] += share * (low + 1 - position)
        points[low + 1] += share * (position - low)


@kernel
def _damp(waves: Float64, bandwidths: Float64) -> None:
    """Multiply wave k of each grid by exp(−(π k σ)² / 2)."""
    for b in range(waves.shape[0]):
        rate = -0.5 * (np.pi * bandwidths[b]) ** 2
        for k in range(waves.shape[1]):
            waves[b, k] *= exp(rate * k * k)


def smoothed(grids: Float64, bandwidths: Float64) -> Float64:
    """∫ |Σ_i w_i r_i K_σ(c_i, t)| dt / W for each of the grids, with the Gaussian reflected at 0 and 1.

    Because of the reflection, cosines are the eigenfunctions of the kernel: smoothing multiplies wave k by
    exp(−(π k σ)² / 2).
    """
    return _smoothed_waves(_waves(grids), bandwidths)


def _waves(grids: Float64) -> Float64:
    from scipy import fft  # imported here to keep the import of driftcal.metrics fast

    mass = grids.copy()
    mass[:, [0, -1]] *= 2  # an end point has half an interval
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
    """The error at the bandwidth that equals the error, for each of the grids.

    Wider kernels never raise the error, so there is one such bandwidth. It lies between the absolute mean residual, the
    smallest error of any kernel, and the error at that bandwidth. Regula falsi with the Illinois rule converges to it.
    """
    waves = _waves(grids)
    low = np.abs(grids.sum(axis=1))
    high = _smoothed_waves(waves, low)
    # error − bandwidth: at least 0 at the low end, at most 0 at the high end
    excess_low, excess_high = high - low, _smoothed_waves(waves, high) - high
    kept_low, kept_high = np.zeros(len(grids), bool), np.zeros(len(grids), bool)  # ends that the last step kept
    for _ in range(MAX_STEPS):
        if ((high - low < TOLERANCE) | (excess_low < TOLERANCE) | (excess_high > -TOLERANCE)).all():
            break
        fall = np.where(excess_low - excess_high > 0, excess_low - excess_high, 1)
        middle = np.clip(low + (high - low) * excess_low / fall, low, high)
        excess = _smoothed_waves(waves, middle) - middle
        is_low = excess > 0  # the middle replaces the low end
        excess_high = np.where(is_low & kept_high, excess_high / 2, np.where(is_low, excess_high, excess))
        excess_low = np.where(~is_low & kept_low, excess_low / 2, np.where(is_low, excess, excess_low))
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
        kept_low, kept_high = ~is_low, is_low
    return np.where(excess_low < TOLERANCE, low, np.where(excess_high > -TOLERANCE, high, (low + high) / 2))
