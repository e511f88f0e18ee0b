"""Kernels for a temperature per sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftcal.core.numerics import MASKED, exp, kernel, row_max, softmax_row
from driftcal.types import Float64, Logits


@kernel
def moments(row: Any, beta: float) -> tuple[float, float, float, float, float]:
    """Σeˣ, Σeˣ·x, Σe²ˣ, Σe²ˣ·x and Σe²ˣ·x² with x = beta·(z − max z), from which losses of softmax(beta·z) follow."""
    top = row_max(row)
    s0 = 0.0
    s1 = 0.0
    q0 = 0.0
    q1 = 0.0
    q2 = 0.0
    for c in range(row.shape[0]):
        x = max(beta * (np.float64(row[c]) - top), MASKED)
        e = exp(x)
        e_x = e * x
        s0 += e
        s1 += e_x
        q0 += e * e
        q1 += e * e_x
        q2 += e_x * e_x
    return s0, s1, q0, q1, q2


@kernel
def scale_row(row: Any, beta: float, out: Float64, as_log: bool) -> None:
    """Write softmax(beta·row) or its logarithm; a masked class gets 0 or -inf."""
    total = softmax_row(row, beta, out)
    if as_log:
        top = row_max(row)
        for c in range(row.shape[0]):
            out[c] = beta * (np.float64(row[c]) - top) - math.log(total)


@kernel
def scale_rows(logits: Logits, betas: Float64, out: Float64, as_log: bool) -> None:
    """Write softmax(beta·z) of every sample, or its logarithm, into `out`."""
    for i in range(logits.shape[0]):
        scale_row(logits[i], betas[i], out[i], as_log)
