"""The rule by which a refit is worse than the calibrator it would replace."""

from __future__ import annotations

from driftcal.metrics import Evaluation, difference


def what_got_worse(before: Evaluation, after: Evaluation) -> tuple[str, ...]:
    """What got worse, in sentences: Brier score, negative log-likelihood; ECE and accuracy beyond their intervals."""
    worse = []
    for metric, label in (("brier", "Brier score"), ("nll", "negative log-likelihood")):
        old, new = getattr(before, metric), getattr(after, metric)
        if new > old:
            worse.append(f"the {label} rises from {old:.4g} to {new:.4g}")
    rise, interval = difference(after, before, "ece")
    if rise > 0 and interval.low > 0:
        worse.append(f"the ECE rises from {before.ece:.4g} to {after.ece:.4g}")
    drop, interval = difference(before, after, "accuracy")
    if drop > 0 and interval.low > 0:
        worse.append(f"the accuracy falls from {before.accuracy:.4g} to {after.accuracy:.4g}")
    return tuple(worse)
