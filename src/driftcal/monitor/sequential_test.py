"""A sequential test of calibration from late labels; its result may be read after every label."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from driftcal.monitor.fixed_point import UNIT
from driftcal.types import Array, Float64

#: The shares of the capital that are bet on (outcome − confidence); the sign is the direction of the bet.
STAKES = (1 / 32, 1 / 8, 1 / 2, -1 / 32, -1 / 8, -1 / 2)
#: Ranges of confidence with separate bets; the first holds all samples.
CONFIDENCE_RANGES = ((0.0, 1.0), (0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.0))
N_BETS = len(STAKES) * len(CONFIDENCE_RANGES)


def log_bets(confidence: Float64, correct: Array, tolerance: float) -> Array:
    """The log of the factor on the capital of each bet, (N_BETS,) in fixed point.

    Factors are rounded down, so that rounding never adds evidence.
    """
    difference = correct - confidence
    logs = [np.floor(np.log1p(s * (difference - math.copysign(tolerance, s))) * UNIT).astype(np.int64) for s in STAKES]
    totals = np.empty((len(CONFIDENCE_RANGES), len(STAKES)), np.int64)
    for i, (low, high) in enumerate(CONFIDENCE_RANGES):
        in_range = (confidence > low) & (confidence <= high)
        totals[i] = [log[in_range].sum() for log in logs]
    return totals.reshape(-1)


def log_evidence(windows: Sequence[int], bets: Sequence[Array], older_bets: Array, first_window: int) -> float:
    """The log of an e-process against "of the samples with any confidence p, a share p is predicted correctly".

    Each bet multiplies its capital by 1 + λ·(y − p). While the calibration holds, the mean of this factor is at most 1
    for any order of the labels. The evidence is the mean capital over stakes and confidence ranges. Bets may begin in
    any window; the evidence is a weighted mean over these windows, with weight 1 / ((j+1)(j+2)) for the j-th. So a long
    calibrated period does not hide a later problem. By Ville's inequality the evidence ever exceeds 1/α with
    probability at most α. So it may be read after every label (Ramdas et al. 2023, section 2).

    Parameters
    ----------
    windows : index of each window.
    bets : fixed-point :func:`log_bets` of each window.
    older_bets : the sum of the bets of the windows that are no longer kept separately.
    first_window : index of the first window ever.
    """
    newest_first = sorted(range(len(windows)), key=lambda i: -windows[i])
    log_capital = np.cumsum([*(bets[i] for i in newest_first), older_bets], axis=0) / UNIT  # whole numbers add exactly
    starts = np.array([windows[i] - first_window for i in newest_first] + [0.0])
    counted = starts > 0  # bets that begin in the first window are the last entry, with all older windows
    counted[-1] = True
    logs = _log_sum_exp(log_capital, axis=1) - math.log(log_capital.shape[1]) - np.log((starts + 1) * (starts + 2))
    return float(_log_sum_exp(logs[counted], axis=0))


def _log_sum_exp(values: Float64, axis: int) -> Float64:
    top = values.max(axis=axis, keepdims=True)
    total: Float64 = np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis)
    return total
