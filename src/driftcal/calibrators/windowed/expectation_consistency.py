"""Expectation consistency: the temperature at which a window's mean confidence equals its estimated accuracy.

It is read from the mean confidences at fixed temperatures, which are sums over the window's samples.
"""

from __future__ import annotations

import math

import numpy as np

from driftcal.core import validation
from driftcal.core.numerics import exp, kernel, row_max
from driftcal.core.passes import map_blocks
from driftcal.types import AnyArray, Float64, Logits

#: A window's temperature stays within this factor of the clean one: accuracies at or below chance would ask for infinity.
MAX_FACTOR = 100.0
#: Confidences per sample. They are smooth in log T: a quintic spline through these is off by less than 3e-5.
N_TEMPERATURES = 49


def temperature_grid(near: float) -> Float64:
    """The `N_TEMPERATURES` at which a window's confidence is kept, within a factor of `MAX_FACTOR` of `near`."""
    steps = np.linspace(-math.log(MAX_FACTOR), math.log(MAX_FACTOR), N_TEMPERATURES)
    grid: Float64 = near * np.exp(steps)
    return grid


def scaled_confidences(logits: AnyArray, temperatures: Float64) -> Float64:
    """(n, k): the confidence of each sample at each of the temperatures.

    >>> import numpy as np
    >>> scaled_confidences(np.log([[0.9, 0.1]]), np.array([1.0, 2.0])).round(6)
    array([[0.9 , 0.75]])
    """
    scores, _ = validation.as_logits(logits)
    scales = 1 / temperatures
    return map_blocks(lambda block, out: _scaled_confidences(block, scales, out), scores, len(scales))


def consistent_temperature(confidences: Float64, accuracy: float, temperatures: Float64) -> float:
    """The T at which the mean confidence is `accuracy`, given the mean confidences at the rising `temperatures`.

    Mean confidence falls as T rises, so there is one; beyond the first and the last temperature it is that one.
    Clarté et al. 2023, section 2.

    >>> import numpy as np
    >>> grid = temperature_grid(1.0)
    >>> means = scaled_confidences(np.log([[0.9, 0.1], [0.1, 0.9]]), grid).mean(axis=0)
    >>> round(consistent_temperature(means, 0.75, grid), 4)
    2.0
    """
    from scipy.interpolate import make_interp_spline
    from scipy.optimize import brentq

    if confidences[0] <= accuracy:
        return float(temperatures[0])
    if confidences[-1] >= accuracy:
        return float(temperatures[-1])
    log_t = np.log(temperatures)
    excess = make_interp_spline(log_t, confidences - accuracy, k=5)
    above = int(np.flatnonzero(confidences > accuracy)[-1])  # the root lies between this temperature and the next
    return math.exp(brentq(excess, log_t[above], log_t[above + 1], xtol=1e-12))


@kernel
def _scaled_confidences(logits: Logits, scales: Float64, out: Float64) -> None:
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        for k in range(scales.shape[0]):
            total = 0.0
            for c in range(row.shape[0]):
                d = np.float64(row[c]) - top
                total += exp(max(scales[k] * d, -745.0)) if d > -np.inf else 0.0
            out[i, k] = 1.0 / total
