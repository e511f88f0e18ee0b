"""What late labels tell: accuracy, calibration error, and a test that may be looked at whenever one likes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm

from driftcal.monitor.window_sums import UNIT, Sums
from driftcal.types import Array, Float64


def label_report(sums: Sums) -> dict[str, Any] | None:
    """True accuracy (Wilson's interval) and ECE (basic bootstrap interval over the bins) of the labelled rows."""
    n = sums.labelled
    if not n:
        return None
    ece, interval = ece_of_bins(*sums.bins)
    return {
        "rows": n,
        "accuracy": sums.correct / n,
        "accuracy_interval": wilson(sums.correct, n),
        "ece": ece,
        "ece_interval": interval,
    }


def wilson(right: int, n: int, level: float = 0.95) -> list[float]:
    """The score interval of a share.

    >>> [round(edge, 3) for edge in wilson(90, 100)]
    [0.826, 0.945]
    """
    z = float(norm.isf((1 - level) / 2))
    centre = (right + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(right * (n - right) / n + z * z / 4)
    return [max(0.0, centre - half), min(1.0, centre + half)]


def ece_of_bins(rows: Array, confidence: Float64, correct: Array, *, draws: int = 1000) -> tuple[float, list[float]]:
    """ECE = Σ_b |correct_b − confidence_b| / n, and its 95 % interval by redrawing the outcomes of every bin.

    The interval is the basic one, 2·ECE − quantile, which takes off the upward bias that redrawing adds.
    """
    used = rows > 0
    n_b, stated, right = rows[used], confidence[used], correct[used]
    n = int(n_b.sum())
    ece = float(np.abs(right - stated).sum() / n)
    rng = np.random.default_rng(0)  # the same labels give the same interval
    drawn = rng.binomial(n_b, (right + 0.5) / (n_b + 1), size=(draws, len(n_b)))
    low, high = np.quantile(np.abs(drawn - stated).sum(axis=1) / n, [0.025, 0.975])
    return ece, [max(0.0, 2 * ece - float(high)), min(1.0, max(ece, 2 * ece - float(low)))]


def log_evidence(keys: Sequence[int], windows: Sequence[Sums], folded: Sums, origin: int) -> float:
    """Log of an e-process against "among rows of any stated confidence, that share is right".

    Every bet puts a fixed share of its money on or against (outcome − confidence): money is multiplied by
    1 + λ·(y − p), whose mean is at most 1 while calibration holds, in whatever order labels come. The evidence is the
    mean over stakes and bands, and a weighted mean over the window at which the bets begin, 1 / ((j+1)(j+2)) for the
    j-th: a long good time before does not hide what comes after. By Ville's inequality it ever exceeds 1/α with
    probability at most α, so one may look after every label (Ramdas et al. 2023, section 2).
    """
    order = sorted(range(len(keys)), key=lambda i: -keys[i])
    bets = [windows[i].bets for i in order]
    money = np.cumsum([*bets, folded.bets], axis=0) / UNIT  # whole numbers add exactly, the newest window first
    starts = np.array([keys[i] - origin for i in order] + [0.0])
    counted = starts > 0  # bets from the first window on are those on everything, older windows included
    counted[-1] = True
    logs = _log_sum(money, axis=1) - math.log(money.shape[1]) - np.log((starts + 1) * (starts + 2))
    return float(_log_sum(logs[counted], axis=0))


def _log_sum(values: Float64, axis: int) -> Float64:
    top = values.max(axis=axis, keepdims=True)
    total: Float64 = np.log(np.exp(values - top).sum(axis=axis)) + top.squeeze(axis)
    return total
