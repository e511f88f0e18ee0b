"""Which calibrator? The paper's guideline (Tomani et al. 2021, appendix D) as code, settled by evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.calibrators.levels import level_weights
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW, predict_windows
from driftcal.engines.remote_passes import ConditionLogits, map_logits, stack
from driftcal.errors import DidNotConverge, UnknownName
from driftcal.metrics import Statistics
from driftcal.pipeline.layer_features import CollectedFeatures
from driftcal.types import Array, Labels, Logits

#: What weighs how much: (clean rows, all levels of the ladder pooled).
FOCUS: dict[str, tuple[float, float]] = {"in-domain": (1.0, 0.0), "drift": (0.0, 1.0), "both": (0.5, 0.5)}
#: Every calibrator that logits suffice for; the others look inside the model.
CANDIDATES = tuple(name for name, kind in CALIBRATORS.items() if not kind.needs_features)
#: Below this many validation rows per class, a curve per class changes more answers than it repairs
#: (the paper's experiment on the size of the validation set).
ROWS_PER_CLASS = 50
#: Rows times classes squared up to which Dirichlet calibration is tried: beyond, it alone takes longer than all others.
MATRIX_WORK = 2e7
#: How closely a trial settles what is trained by descent: on the digits PTS and ladder-pts score the same at a tenth of it.
TRIAL_TOL = 1e-3
#: So much accuracy on clean rows a map may cost: whoever gives every row the same answer is never over-confident.
ACCURACY_COST = 0.02
_FOLDS = 5


@dataclass(frozen=True)
class Trial:
    """Cross-validated errors of one candidate: ECE on clean rows and over the ladder, Brier score over the ladder.

    `accuracy` is that of its answers on clean rows, by `lost` lower than the model's own; `folds` is how many of the folds it was in
    the race for.
    """

    method: str
    clean_ece: float
    drift_ece: float
    brier: float
    accuracy: float
    lost: float
    folds: int

    @property
    def fair(self) -> bool:
        """Whether it leaves the model its accuracy."""
        return self.lost <= ACCURACY_COST

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
    levels: Sequence[ConditionLogits],
    labels: Labels,
    *,
    keep_accuracy: bool = False,
    focus: str = "both",
    t_max: float | None = None,
    clean_weight: float | None = None,
    adaptive: bool = True,
    candidates: Sequence[str] | None = None,
    seen: CollectedFeatures | None = None,
) -> Choice:
    """Compare candidates by five-fold cross-validation over images: an image with all its levels is in one fold.

    It is a race: after each fold those leave it that are behind the first by more than 1/√rows, two standard errors of a share
    of the rows judged so far, so that slow candidates without a chance cost one fit. None wins that costs more than 0.02 of the
    accuracy on clean rows. `levels` are the ladder's logits, the clean ones first, each with the same `labels`. Those that
    follow a window of unlabelled rows are given windows of the held-out rows of one level; ``adaptive=False`` leaves them out.
    Those that look inside the model are tried where `seen` shows what there is of the same levels. None as `candidates` are all of them.
    """
    if focus not in FOCUS:
        raise UnknownName.of("focus", focus, FOCUS)
    inside = seen or CollectedFeatures()
    wanted = (*CANDIDATES, *inside.methods) if candidates is None else candidates
    names, reasons = _entrants(levels, labels, wanted, keep_accuracy, adaptive, inside)
    trials = sorted(
        _race(names, levels, labels, focus, t_max, clean_weight, inside),
        key=lambda t: (not t.fair, -t.folds, t.score(focus)),
    )
    if not trials:
        return Choice(
            "base", (), " ".join([*reasons, "No candidate could be tuned on these rows; the model is kept as it is."])
        )
    best = trials[0]

    def listed(some: Callable[[Trial], bool]) -> str:
        return ", ".join(f"{t.method.upper()} {t.score(focus):.3f}" for t in trials[1:] if some(t))

    beaten = listed(lambda t: t.fair and t.folds == best.folds)
    behind = listed(lambda t: t.fair and t.folds < best.folds)
    costly = listed(lambda t: not t.fair)
    weighs = {
        "in-domain": "on clean rows",
        "drift": "over the ladder",
        "both": "averaged over clean rows and the ladder",
    }[focus]
    if costly:
        reasons.insert(
            0,
            f"Out of the question, since they cost more than {ACCURACY_COST} of the accuracy on clean rows: {costly}.",
        )
    if behind:
        reasons.insert(0, f"Too far behind after the first folds: {behind}.")
    reasons.insert(
        0,
        f"{best.method.upper()} had the lowest cross-validated ECE {weighs}: {best.score(focus):.3f} "
        f"(clean {best.clean_ece:.3f}, ladder {best.drift_ece:.3f}){f', against {beaten}' if beaten else ''}.",
    )
    if CALIBRATORS[best.method].adaptive:
        reasons.append(
            f"It follows the data: rows that are predicted together, or a stream's last {WINDOW}, say how far they have drifted. "
            "Fewer than 20 rows get its static map; if inputs come one by one and cannot be remembered, ask for no adaptive ones."
        )
    if CALIBRATORS[best.method].needs_features:
        reasons.append("It looks inside the model at each input: the layers' features are needed wherever it is used.")
    if not CALIBRATORS[best.method].keeps_accuracy:
        reasons.append(
            f"It may change answers: accuracy on clean rows is {best.accuracy:.3f} with it, {best.accuracy + best.lost:.3f} without. "
            "If that is too much, ask to keep the accuracy."
        )
    return Choice(best.method, tuple(trials), " ".join(reasons))


def _entrants(
    levels: Sequence[ConditionLogits],
    labels: Labels,
    candidates: Sequence[str],
    keep_accuracy: bool,
    adaptive: bool,
    seen: CollectedFeatures,
) -> tuple[list[str], list[str]]:
    """Which candidates are tried, and in words why others are not."""
    n_classes, reasons = levels[0].shape[1], []
    rarest = int(np.bincount(labels, minlength=n_classes).min())
    names = [name for name in candidates if adaptive or not CALIBRATORS[name].adaptive]
    if len(levels) == 1:  # without a ladder they are what they were made from
        names = [name for name in names if not CALIBRATORS[name].adaptive]
    if keep_accuracy or rarest < ROWS_PER_CLASS:
        names = [name for name in names if CALIBRATORS[name].keeps_accuracy]
    if keep_accuracy:
        reasons.append("Only calibrators that never change the predicted class were considered, as asked.")
    elif rarest < ROWS_PER_CLASS:
        reasons.append(
            f"The rarest class has {rarest} validation rows, fewer than {ROWS_PER_CLASS}: maps of their own for each class (IR, VS and the "
            "like) were left out, because with so few they cost accuracy."
        )
    rows, numbers = len(levels) * len(labels), n_classes**2
    if "dirichlet" in names and rows >= numbers > MATRIX_WORK / rows:  # with fewer rows it has a diagonal only
        names.remove("dirichlet")
        reasons.append(
            f"DIRICHLET was left out: {n_classes}² numbers on {rows} rows take longer than all others together."
        )
    names = [name for name in names if not CALIBRATORS[name].needs_features or name in seen.methods]
    if seen.why_not:
        reasons.append(seen.why_not)
    return names, reasons


def _race(
    names: Sequence[str],
    levels: Sequence[ConditionLogits],
    labels: Labels,
    focus: str,
    t_max: float | None,
    clean_weight: float | None,
    seen: CollectedFeatures,
) -> list[Trial]:
    """Fold by fold, the errors of all candidates that are not yet hopeless; one that cannot be tuned has none."""
    fold = np.random.default_rng(0).permutation(len(labels)) % _FOLDS
    right = np.asarray(levels[0]).argmax(axis=1) == labels
    sums: dict[str, tuple[Statistics, Statistics]] = {}
    trials: dict[str, Trial] = {}
    running = list(names)
    for k in range(min(_FOLDS, len(labels))):
        for name in running:
            try:
                clean, ladder = _judge(name, levels, labels, fold == k, t_max, clean_weight, seen)
            except DidNotConverge:
                trials.pop(name, None)
                continue
            if name in sums:
                clean, ladder = sums[name][0] + clean, sums[name][1] + ladder
            sums[name] = clean, ladder
            lost = float(right[fold <= k].mean()) - clean.accuracy
            trials[name] = Trial(name, clean.ece, ladder.ece, ladder.brier, clean.accuracy, lost, k + 1)
        within = 1 / math.sqrt(np.count_nonzero(fold <= k))
        least = min((t.score(focus) for t in trials.values() if t.folds == k + 1 and t.fair), default=math.inf)
        running = [
            t.method
            for t in trials.values()
            if t.folds == k + 1 and t.score(focus) <= least + within and t.lost <= ACCURACY_COST + within
        ]
    return list(trials.values())


def _judge(
    name: str,
    levels: Sequence[ConditionLogits],
    labels: Labels,
    held: Array,
    t_max: float | None,
    clean_weight: float | None,
    seen: CollectedFeatures,
) -> tuple[Statistics, Statistics]:
    """How the candidate, tuned on the other rows, does on the clean ones of `held`, and on those of all levels."""
    kept, weights = ~held, level_weights(len(levels), clean_weight)
    logits, kept_labels = stack(levels, labels, kept, weights=weights)
    by_level = np.repeat(np.arange(len(levels)), np.count_nonzero(kept))
    row_weights = None if weights is None or kept_labels is None else np.repeat(weights, np.count_nonzero(kept))
    wishes = {"t_max": t_max, "tol": TRIAL_TOL}
    known = make_calibrator(name).get_params()
    fitted = make_calibrator(name, **{key: wish for key, wish in wishes.items() if key in known and wish is not None})
    fitted.fit(logits, kept_labels, levels=by_level, sample_weight=row_weights, **seen.beside(name, kept))
    if isinstance(fitted, FeatureCalibrator):  # features are here, not in a store
        clean, *rest = [
            _held_inside(np.asarray(z), labels, held, fitted, x) for z, x in zip(levels, seen.by_level, strict=True)
        ]
    else:
        clean, *rest = map_logits(_held_out, levels, {"labels": labels, "held": held, "fitted": fitted})
    return clean, sum(rest, clean)


def _held_inside(
    logits: Logits, labels: Labels, held: Array, fitted: FeatureCalibrator, features: Mapping[str, Array]
) -> Statistics:
    shown = {layer: rows[held] for layer, rows in features.items()}
    return Statistics.of(labels[held], fitted.predict_proba(logits[held], shown), score_type="probabilities")


def _held_out(logits: Logits, labels: Labels, held: Array, fitted: Calibrator) -> Statistics:
    return Statistics.of(labels[held], predict_windows(fitted, logits[held]), score_type="probabilities")
