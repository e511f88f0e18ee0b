"""The last check of a fit: it must not end with a higher loss than the uncalibrated model, or the report says so."""

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


def warn_if_worse(loss: str, before: float, after: float) -> tuple[str, ...]:
    """The warning of a fit that ends with a higher loss than the uncalibrated model; none if it does not.

    It applies to fits that cannot choose the uncalibrated model, such as bins.

    >>> warn_if_worse("squared error", 0.2, 0.1)
    ()
    """
    if after <= before + ROUNDING * max(1.0, abs(before)):
        return ()
    return (
        f"the {loss} of the tuning samples rose from {before:.6g} to {after:.6g}: on them the uncalibrated model is better. "
        "Tune on more samples, or choose another method.",
    )
