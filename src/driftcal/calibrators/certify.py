"""The last check of a fit: it must not end with a higher loss than the uncalibrated model."""

from __future__ import annotations

from driftcal.errors import DidNotConverge

#: Sums over millions of samples are rounded by less than this share.
ROUNDING = 1e-10


def certify(loss: str, before: float, after: float) -> None:
    """Raise `DidNotConverge` if a fit ends with a higher loss than the uncalibrated model.

    It applies to fits that minimise this loss and could choose the uncalibrated model.
    """
    if not after <= before + ROUNDING * max(1.0, abs(before)):
        raise DidNotConverge(
            f"a fit must not raise its own {loss}; it went from {before:.9g} to {after:.9g}. Please report these logits."
        )
