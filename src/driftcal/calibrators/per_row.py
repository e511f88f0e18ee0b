"""Rows that each have their own temperature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftcal.numerics import kernel, row_max, softmax_row
from driftcal.types import Float64, Logits


@kernel
def scale_row(row: Any, beta: float, out: Float64, as_log: bool) -> None:
    """softmax(beta·row), or its logarithm; a masked class stays at 0 or -inf."""
    total = softmax_row(row, beta, out)
    if as_log:
        top = row_max(row)
        for c in range(row.shape[0]):
            out[c] = beta * (np.float64(row[c]) - top) - math.log(total)


@kernel
def scale_rows(logits: Logits, betas: Float64, out: Float64, as_log: bool) -> None:
    """Rows of softmax(beta·z), or their logarithms, into `out`."""
    for i in range(logits.shape[0]):
        scale_row(logits[i], betas[i], out[i], as_log)
