"""The last step of calibrators that map each class by itself: masked classes get 0, samples sum to 1."""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.types import Float64, Logits

#: A sample whose values sum to less than the first has next to no mass. Its classes then have the second at least: just above
#: where numbers underflow and an exponential function has few digits left.
NO_MASS, LEAST_VALUE = 1e-280, 1e-300


@kernel
def mask(logits: Logits, out: Float64) -> None:
    """Give masked classes exactly 0."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            if logits[i, c] == -np.inf:
                out[i, c] = 0.0


@kernel
def normalise(logits: Logits, out: Float64) -> None:
    """Give masked classes exactly 0 and let samples sum to 1.

    In a sample with next to no mass the other classes get LEAST_VALUE at least. One without any mass becomes uniform over them.
    """
    for i in range(out.shape[0]):
        total = 0.0
        for c in range(out.shape[1]):
            if logits[i, c] == -np.inf:
                out[i, c] = 0.0
            total += out[i, c]
        if total < NO_MASS:
            total = 0.0
            for c in range(out.shape[1]):
                if logits[i, c] > -np.inf:
                    out[i, c] = max(out[i, c], LEAST_VALUE)
                    total += out[i, c]
        for c in range(out.shape[1]):
            if total > 0:
                out[i, c] /= total
