"""Gaps between a row's largest logits, as inputs of a small network: log(1 + gap/scale), clipped, standardised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_argmax
from driftcal.types import Float64, Labels, Logits, Weights


@dataclass(frozen=True)
class Inputs:
    """How distances from the largest logit become inputs of the network: log(1 + d/scale), clipped, standardised."""

    scale: float
    low: Float64
    high: Float64
    mean: Float64
    spread: Float64

    @property
    def width(self) -> int:
        """How many gaps of a row are looked at."""
        return len(self.low)

    @property
    def arrays(self) -> tuple[float, Float64, Float64, Float64, Float64]:
        """What a kernel is given."""
        return self.scale, self.low, self.high, self.mean, self.spread

    @classmethod
    def of(cls, rows: LabelledLogits, width: int) -> Inputs:
        """Three passes: their mean size, their range, their mean and spread."""
        total, weight = rows.reduce_sum(_gap_sums, 2)
        scale = float(total / weight) if total > 0 else 1.0
        empty = np.stack([np.full(width, np.inf), np.full(width, -np.inf)])
        low, high = rows.reduce(_gap_range, empty, _widen, scale)
        low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
        sums = rows.reduce_sum(_gap_moments, (2, width), scale, low, high) / rows.weight
        # second moments around the range's middle, so that a nearly constant input loses no digits
        middle = (low + high) / 2
        spread = np.sqrt(np.maximum(sums[1] - sums[0] ** 2, 0.0))
        return cls(scale, low, high, middle + sums[0], np.where(spread > 1e-9, spread, 1.0))


def _widen(into: Float64, other: Float64) -> None:
    np.minimum(into[0], other[0], out=into[0])
    np.maximum(into[1], other[1], out=into[1])


@kernel
def write_gaps(row: Any, gaps: Float64) -> int:
    """Write how far the next largest logits lie below the largest, in order; returns where the largest stands."""
    best = row_argmax(row)
    top = np.float64(row[best])
    width = gaps.shape[0]
    for j in range(width):
        gaps[j] = np.inf
    for c in range(row.shape[0]):
        gap = top - np.float64(row[c])
        if c != best and gap < gaps[width - 1]:
            j = width - 1
            while j > 0 and gaps[j - 1] > gap:
                gaps[j] = gaps[j - 1]
                j -= 1
            gaps[j] = gap
    return best


@kernel
def _gap_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    """Add the gap to the second largest logit, and the weight of the rows that have one."""
    gaps = np.empty(1)
    for i in range(logits.shape[0]):
        write_gaps(logits[i], gaps)
        if weights[i] > 0 and gaps[0] < np.inf:
            sums[0] += weights[i] * gaps[0]
            sums[1] += weights[i]


@kernel
def _gap_range(logits: Logits, labels: Labels, weights: Weights, bounds: Float64, scale: float) -> None:
    """Least and greatest log(1 + gap/scale); masked classes do not count."""
    gaps = np.empty(bounds.shape[1])
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            write_gaps(logits[i], gaps)
            for j in range(gaps.shape[0]):
                if gaps[j] < np.inf:
                    x = math.log1p(gaps[j] / scale)
                    bounds[0, j] = min(bounds[0, j], x)
                    bounds[1, j] = max(bounds[1, j], x)


@kernel
def _gap_moments(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, scale: float, low: Float64, high: Float64
) -> None:
    gaps = np.empty(low.shape[0])
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            write_gaps(logits[i], gaps)
            for j in range(gaps.shape[0]):
                x = min(max(math.log1p(gaps[j] / scale), low[j]), high[j]) - (low[j] + high[j]) / 2.0
                sums[0, j] += weights[i] * x
                sums[1, j] += weights[i] * x * x
