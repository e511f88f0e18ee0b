"""Whether a claim holds, by the interval of a difference."""

from __future__ import annotations


def verdict(low: float, high: float, margin: float = 0.0) -> str:
    """Whether a difference is above `margin`, by its interval.

    >>> verdict(0.01, 0.03), verdict(-0.03, -0.01), verdict(-0.01, 0.03)
    ('holds', 'does not hold', 'cannot be told')
    >>> verdict(-0.004, 0.002, margin=-0.01)  # "not worse by more than 0.01"
    'holds'
    """
    return "holds" if low > margin else "does not hold" if high < margin else "cannot be told"
