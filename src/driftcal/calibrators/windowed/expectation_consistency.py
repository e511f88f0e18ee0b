"""Expectation consistency: the temperature at which a window's mean confidence equals its estimated accuracy."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from driftcal.core import validation
from driftcal.core.numerics import exp, kernel, row_max
from driftcal.types import Logits

#: A window's temperature stays within this factor of the clean one: accuracies at or below chance would ask for infinity.
MAX_FACTOR = 100.0


def consistent_temperature(logits: Logits, accuracy: float, near: float = 1.0) -> float:
    """The T with mean confidence of softmax(z / T) = `accuracy`, within a factor of `MAX_FACTOR` of `near`.

    Mean confidence falls as T rises, so there is one. Clarté et al. 2023, section 2.

    >>> import numpy as np
    >>> round(consistent_temperature(np.log([[0.9, 0.1], [0.1, 0.9]]), 0.75), 6)
    2.0
    """
    window = validation.for_kernel(validation.as_logits(logits)[0])

    def excess(log_t: float) -> float:
        return float(_mean_confidence(window, math.exp(-log_t)) - accuracy)

    low, high = math.log(near / MAX_FACTOR), math.log(near * MAX_FACTOR)
    if excess(low) <= 0:
        return math.exp(low)
    if excess(high) >= 0:
        return math.exp(high)
    return math.exp(brentq(excess, low, high, xtol=1e-10))


@kernel
def _mean_confidence(logits: Logits, scale: float) -> float:
    """Without threads and without other statistics: a search calls this a dozen times per window."""
    confidence = 0.0
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        total = 0.0
        for c in range(row.shape[0]):
            d = np.float64(row[c]) - top
            total += exp(max(scale * d, -745.0)) if d > -np.inf else 0.0
        confidence += 1.0 / total
    mean: float = confidence / logits.shape[0]
    return mean
