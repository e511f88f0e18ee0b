"""Numbers as whole multiples of 2⁻³², which add exactly in any order."""

from __future__ import annotations

import numpy as np

from driftcal.types import Array, Float64

#: Steps from 0 to 1. Sums over 2³¹ numbers in [0, 1] fit into 64 bits.
UNIT = 2.0**32


def to_fixed_point(values: Float64, units: Float64 | float = UNIT) -> Array:
    """The nearest multiples of 2⁻³², or of 1 / `units`.

    >>> to_fixed_point(np.array([0.5, 1.0]))
    array([2147483648, 4294967296])
    """
    multiples: Array = np.rint(values * units).astype(np.int64)
    return multiples
