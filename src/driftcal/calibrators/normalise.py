"""The last step of calibrators that map each class separately: masked classes get 0, samples sum to 1."""

from __future__ import annotations

import numpy as np

from driftcal.core.numerics import kernel
from driftcal.types import Float64, Logits

#: A sample whose values sum to less has almost no mass. Its classes then get at least `LEAST_VALUE`.
NO_MASS = 1e-280
#: Just above the numbers that underflow, where an exponential function has few digits left.
LEAST_VALUE = 1e-300


@kernel
def mask(logits: Logits, out: Float64) -> None:
    """Give masked classes exactly 0."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            if logits[i, c] == -np.inf:
                out[i, c] = 0.0


@kernel
def normalise(logits: Logits, out: Float64) -> None:
    """Give masked classes exactly 0, and divide each sample by its sum.

    In a sample with almost no mass, the other classes first get at least `LEAST_VALUE`. So a sample without any mass
    becomes uniform over them.
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


def _small_normalise(logits: Logits, out: Float64) -> None:
    is_masked = logits == -np.inf
    out[is_masked] = 0.0
    raised = (out.sum(axis=1, keepdims=True) < NO_MASS) & ~is_masked
    out[raised] = np.maximum(out[raised], LEAST_VALUE)
    total = out.sum(axis=1, keepdims=True)
    np.divide(out, total, out=out, where=total > 0)


#: `normalise`, in numpy on small inputs, where the order of a sum may change the last bit: for calibrators that otherwise
#: compile nothing. Values of bins and curves are often round numbers, for which a last bit decides between two bins of an ECE.
normalise_small_too = kernel(normalise.py_func, small=_small_normalise)  # type: ignore[attr-defined]
