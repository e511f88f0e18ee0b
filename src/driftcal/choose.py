"""Which calibrator? The paper's guideline (Tomani et al. 2021, appendix D) as code, settled by evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.calibrators.adaptive import WINDOW, predict_windows
from driftcal.calibrators.rungs import rung_weights
from driftcal.errors import DidNotConverge, UnknownName
from driftcal.metrics import Statistics
from driftcal.sharded import Part, each_part, stack
from driftcal.types import Array, Labels, Logits

#: What weighs how much: (clean rows, all levels of the ladder pooled).
FOCUS: dict[str, tuple[float, float]] = {"in-domain": (1.0, 0.0), "drift": (0.0, 1.0), "both": (0.5, 0.5)}
#: The guideline's own candidates, first those that keep the accuracy; then those beyond the paper that logits suffice for.
#: Lines and matrices on log-probabilities (vs, svs, dirichlet, beta) are left out: they learn which way noise moves each class, so
#: that held-out rows of the ladder flatter them, and other drift goes another way.
CANDIDATES = ("irm", "ets", "ts", "ir", "ts-ir", "hts", "pts", "ladder-ts", "ladder-ec", "ladder-irm", "ladder-pts")
#: Below this many validation rows per class, a curve per class changes more answers than it repairs
#: (the paper's experiment on the size of the validation set).
ROWS_PER_CLASS = 50
_FOLDS = 5


@dataclass(frozen=True)
class Trial:
    """Cross-validated errors of one candidate: ECE on clean rows and over the ladder, Brier score over the ladder.

    `accuracy` is that of its answers on clean rows.
    """

    method: str
    clean_ece: float
    drift_ece: float
    brier: float
    accuracy: float

    def score(self, focus: str) -> float:
        """What is to be small."""
        clean, drift = FOCUS[focus]
        return clean * self.clean_ece + drift * self.drift_ece


@dataclass(frozen=True)
class Choice:
    """The chosen method, every trial, and the reasons in words."""

    method: str
    trials: tuple[Trial, ...]
    explanation: str


def choose(
    levels: Sequence[Part],
    labels: Labels,
    *,
    keep_accuracy: bool = False,
    focus: str = "both",
    t_max: float | None = None,
    clean_weight: float | None = None,
    adaptive: bool = True,
    candidates: Sequence[str] = CANDIDATES,
) -> Choice:
    """Compare candidates by five-fold cross-validation over images: an image with all its levels is in one fold.

    `levels` are the ladder's logits, the clean ones first, each with the same `labels`. Those that follow a window of
    unlabelled rows are given windows of the held-out rows of one level; ``adaptive=False`` leaves them out.
    """
    if focus not in FOCUS:
        raise UnknownName.of("focus", focus, FOCUS)
    counts = np.bincount(labels, minlength=levels[0].shape[1])
    few = int(counts.min()) < ROWS_PER_CLASS
    reasons = []
    names = [name for name in candidates if adaptive or not CALIBRATORS[name].adaptive]
    if len(levels) == 1:  # without a ladder they are what they were made from
        names = [name for name in names if not CALIBRATORS[name].adaptive]
    if keep_accuracy:
        names = [name for name in names if CALIBRATORS[name].keeps_accuracy]
        reasons.append("Only calibrators that never change the predicted class were considered, as asked.")
    elif few:
        names = [name for name in names if CALIBRATORS[name].keeps_accuracy]
        reasons.append(
            f"The rarest class has {int(counts.min())} validation rows, fewer than {ROWS_PER_CLASS}: curves per class (IR, TS-IR) were left out, "
            "because with so few they cost accuracy."
        )
    trials = sorted(
        (t for name in names if (t := _try(name, levels, labels, t_max, clean_weight))), key=lambda t: t.score(focus)
    )
    if not trials:
        return Choice(
            "base", (), " ".join([*reasons, "No candidate could be tuned on these rows; the model is kept as it is."])
        )
    best = trials[0]
    beaten = ", ".join(f"{t.method.upper()} {t.score(focus):.3f}" for t in trials[1:])
    weighs = {
        "in-domain": "on clean rows",
        "drift": "over the ladder",
        "both": "averaged over clean rows and the ladder",
    }[focus]
    reasons.insert(
        0,
        f"{best.method.upper()} had the lowest cross-validated ECE {weighs}: {best.score(focus):.3f}"
        f"{f' against {beaten}' if beaten else ''} (clean {best.clean_ece:.3f}, ladder {best.drift_ece:.3f}).",
    )
    if CALIBRATORS[best.method].adaptive:
        reasons.append(
            f"It follows the data: rows that are predicted together, or a stream's last {WINDOW}, say how far they have drifted. "
            "Fewer than 20 rows get its static map; if inputs come one by one and cannot be remembered, ask for no adaptive ones."
        )
    if not CALIBRATORS[best.method].keeps_accuracy:
        before = float(np.mean(np.asarray(levels[0]).argmax(axis=1) == labels))
        reasons.append(
            f"It may change answers: accuracy on clean rows is {best.accuracy:.3f} with it, {before:.3f} without. "
            "If that is too much, ask to keep the accuracy."
        )
    return Choice(best.method, tuple(trials), " ".join(reasons))


def _held_out(logits: Logits, labels: Labels, held: Array, fitted: Calibrator) -> Statistics:
    return Statistics.of_probabilities(labels[held], predict_windows(fitted, logits[held]))


def _try(
    name: str, levels: Sequence[Part], labels: Labels, t_max: float | None, clean_weight: float | None
) -> Trial | None:
    """The candidate's errors on rows it was not tuned on, or None where it cannot be tuned."""
    n = len(labels)
    fold = np.random.default_rng(0).permutation(n) % _FOLDS
    clean: Statistics | None = None
    ladder: Statistics | None = None
    cap = {"t_max": t_max} if t_max is not None and "t_max" in make_calibrator(name).get_params() else {}
    weights = rung_weights(len(levels), clean_weight)
    for k in range(_FOLDS):
        kept, held = fold != k, fold == k
        if not held.any():
            continue
        try:
            rungs = np.repeat(np.arange(len(levels)), int(kept.sum()))
            logits, kept_labels = stack(levels, labels, kept, weights=weights)
            row_weights = None if weights is None or kept_labels is None else np.repeat(weights, np.count_nonzero(kept))
            fitted = make_calibrator(name, **cap).fit(logits, kept_labels, levels=rungs, sample_weight=row_weights)
        except DidNotConverge:
            return None
        answers = each_part(_held_out, levels, {"labels": labels, "held": held, "fitted": fitted})
        for i, seen in enumerate(answers):
            ladder = seen if ladder is None else ladder + seen
            if i == 0:
                clean = seen if clean is None else clean + seen
    if clean is None or ladder is None:
        return None
    return Trial(name, clean.ece, ladder.ece, ladder.brier, clean.accuracy)
