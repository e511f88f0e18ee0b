"""Margins between the largest logit of a sample and the next ones: the inputs of a small network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_argmax
from driftcal.types import Float64, Labels, Logits, Weights

#: An input with a smaller standard deviation is constant up to rounding, and is not divided by it.
MIN_STD = 1e-9


@dataclass(frozen=True)
class MarginInputs:
    """The inputs of the network: log(1 + margin/scale), clipped to low…high, standardised by mean and std."""

    scale: float
    low: Float64
    high: Float64
    mean: Float64
    std: Float64

    @property
    def width(self) -> int:
        """The number of margins of a sample."""
        return len(self.low)

    @property
    def arrays(self) -> tuple[float, Float64, Float64, Float64, Float64]:
        """The arguments of a kernel."""
        return self.scale, self.low, self.high, self.mean, self.std

    @classmethod
    def of(cls, data: LabelledLogits, width: int) -> MarginInputs:
        """Inputs of these samples, in three passes: the mean margin, the range, then mean and standard deviation."""
        total, weight = data.reduce_sum(_margin_sums, 2)
        scale = float(total / weight) if total > 0 else 1.0
        empty = np.stack([np.full(width, np.inf), np.full(width, -np.inf)])
        low, high = data.reduce(_margin_range, empty, _widen, scale)
        low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
        sums = data.reduce_sum(_margin_moments, (2, width), scale, low, high) / data.total_weight
        # moments around the middle of the range, so that a nearly constant input keeps its digits
        middle = (low + high) / 2
        first_moment, second_moment = sums
        std = np.sqrt(np.maximum(second_moment - first_moment**2, 0.0))
        return cls(scale, low, high, middle + first_moment, np.where(std > MIN_STD, std, 1.0))


def _widen(into: Float64, other: Float64) -> None:
    np.minimum(into[0], other[0], out=into[0])
    np.maximum(into[1], other[1], out=into[1])


@kernel
def write_margins(row: Any, margins: Float64) -> int:
    """Write the smallest margins of a sample in order, infinite for masked classes; return its top class."""
    best = row_argmax(row)
    top = np.float64(row[best])
    width = margins.shape[0]
    for j in range(width):
        margins[j] = np.inf
    for c in range(row.shape[0]):
        margin = top - np.float64(row[c])
        if c != best and margin < margins[width - 1]:
            j = width - 1
            while j > 0 and margins[j - 1] > margin:
                margins[j] = margins[j - 1]
                j -= 1
            margins[j] = margin
    return best


@kernel
def write_all_margins(logits: Logits, out: Float64) -> None:
    """Write the margins of every sample."""
    for i in range(logits.shape[0]):
        write_margins(logits[i], out[i])


@kernel
def _margin_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    """Add the margin to the second largest logit, and the weight of the samples that have one."""
    margins = np.empty(1)
    for i in range(logits.shape[0]):
        write_margins(logits[i], margins)
        if weights[i] > 0 and margins[0] < np.inf:
            sums[0] += weights[i] * margins[0]
            sums[1] += weights[i]


@kernel
def _margin_range(logits: Logits, labels: Labels, weights: Weights, bounds: Float64, scale: float) -> None:
    """Update the least and greatest log(1 + margin/scale); masked classes do not count."""
    margins = np.empty(bounds.shape[1])
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            write_margins(logits[i], margins)
            for j in range(margins.shape[0]):
                if margins[j] < np.inf:
                    x = math.log1p(margins[j] / scale)
                    bounds[0, j] = min(bounds[0, j], x)
                    bounds[1, j] = max(bounds[1, j], x)


@kernel
def _margin_moments(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, scale: float, low: Float64, high: Float64
) -> None:
    """Add first and second moments of the clipped inputs around the middle of their range."""
    margins = np.empty(low.shape[0])
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            write_margins(logits[i], margins)
            for j in range(margins.shape[0]):
                x = min(max(math.log1p(margins[j] / scale), low[j]), high[j]) - (low[j] + high[j]) / 2.0
                sums[0, j] += weights[i] * x
                sums[1, j] += weights[i] * x * x
