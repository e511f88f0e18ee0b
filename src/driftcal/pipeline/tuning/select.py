"""Choosing a calibrator: the lowest error under shift among those that are as well calibrated in domain as TS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import CALIBRATORS, Calibrator, calibrator_class, make_calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.engines.remote_passes import map_logits
from driftcal.errors import DidNotConverge, InputError
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.sample_scores import SampleScores
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, family_of
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.pipeline.tuning.fit import stack_for_windows, stack_levels
from driftcal.types import Array, Float64, Labels, Logits

#: The clean weight of a fit on clean samples only.
CLEAN_ONLY = 1.0
#: The clean weights that every method is tried with. None is the paper's 1/N.
CLEAN_WEIGHTS: tuple[float | None, ...] = (CLEAN_ONLY, 0.9, 0.5, None)
#: With fewer validation samples per class, a map per class changes more predictions than it corrects (the paper's
#: experiment on the size of the validation set).
SAMPLES_PER_CLASS = 50
#: The largest product of samples and squared classes for Dirichlet calibration: above, it takes longer than all others.
MAX_MATRIX_WORK = 2e7
#: The tolerance of the networks that are trained for a comparison. A ten times smaller one gives PTS the same score on
#: the digits.
TRIAL_TOL = 1e-3
#: A candidate may lower the accuracy on clean samples by this much.
MAX_ACCURACY_LOSS = 0.02
#: Folds of the cross-validation: each candidate is fitted that often, on four fifths of the samples.
N_FOLDS = 5
#: Bootstrap resamples behind the admission bound and the standard error.
N_RESAMPLES = 200
#: Bins of the ECE, as in `evaluate`.
N_BINS = 15
#: The confidence of the one-sided bound of the in-domain difference to TS.
ADMISSION_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Selection:
    """How ``method="auto"`` chooses.

    A candidate is admitted if its in-domain ECE is at most that of temperature scaling plus `tolerance`. The admitted
    candidate with the lowest ECE under shift is chosen. Plain temperature scaling is always a candidate.

    Parameters
    ----------
    keep_accuracy
        Only candidates that never change the predicted class.
    tolerance
        How much the in-domain ECE may exceed that of temperature scaling.
    candidates
        Short names of methods. None: all methods that suit the data.
    """

    keep_accuracy: bool = True
    tolerance: float = 0.005
    candidates: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.tolerance, bool) or not isinstance(self.tolerance, (int, float)) or not self.tolerance >= 0:
            raise InputError(f"tolerance must be an ECE of at least 0; it is {self.tolerance!r}. The default is 0.005.")
        for name in self.candidates or ():
            calibrator_class(name)


@dataclass(frozen=True)
class Variant:
    """A method and the share of the clean samples in all weight: 1 is clean samples only, None the paper's 1/N."""

    method: str
    clean_weight: float | None = CLEAN_ONLY

    @property
    def label(self) -> str:
        """The name of the variant in explanations."""
        name = self.method.upper()
        if self.needs_window or self.clean_weight == CLEAN_ONLY:
            return name
        return f"{name}-P" if self.clean_weight is None else f"{name}-P with clean weight {self.clean_weight:g}"

    @property
    def needs_window(self) -> bool:
        """Whether the method is windowed."""
        return CALIBRATORS[self.method].needs_window


TS = Variant("ts")


@dataclass(frozen=True, eq=False)
class Trial:
    """Out-of-fold predictions of one candidate and their errors.

    `shift_ece` is the mean of the ECE of each perturbation level, so that opposite errors do not cancel. `n_folds` is
    the number of folds that the candidate was fitted for.
    """

    variant: Variant
    by_level: Sequence[SampleScores]
    n_folds: int
    in_domain_ece: float = field(init=False)
    shift_ece: float = field(init=False)
    accuracy: float = field(init=False)

    def __post_init__(self) -> None:
        clean, *shifted = [Statistics.of_samples(scores, n_bins=N_BINS) for scores in self.by_level]
        object.__setattr__(self, "in_domain_ece", clean.ece)
        object.__setattr__(self, "shift_ece", float(np.mean([s.ece for s in shifted])) if shifted else clean.ece)
        object.__setattr__(self, "accuracy", clean.accuracy)


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen per-sample and windowed variants, every trial, and the reasons in plain sentences."""

    per_sample: Variant
    windowed: Variant | None
    trials: Sequence[Trial]
    explanation: str


def choose(
    selection: Selection,
    perturbed: PerturbedLogits,
    labels: Labels,
    *,
    clean_weight: float | None = None,
    features: CollectedFeatures | None = None,
) -> Choice:
    """Compare candidates by five-fold cross-validation over images: an image with all its levels is in one fold.

    A per-sample candidate is admitted if its in-domain ECE exceeds that of TS by at most the tolerance. The one-sided
    90 % bound of the difference is compared (paired bootstrap over images). Among the admitted candidates, those within
    one standard error of the lowest ECE under shift count as equal, and the simplest of them is chosen. TS is the
    simplest, so few data give TS. Windowed candidates are compared with each other, in windows of 100 held-out samples.
    After each fold, candidates that are clearly worse are dropped (successive halving).
    """
    level_features = features or CollectedFeatures()
    variants, reasons = _variants(selection, perturbed, labels, clean_weight, level_features)
    trials = _cross_validate(variants, perturbed, labels, level_features, selection.tolerance)
    if TS not in trials:
        reason = "TS has no finite optimum on a part of these samples, so candidates were not compared; TS was taken."
        return Choice(TS, None, tuple(trials.values()), " ".join([reason, *reasons]))
    model_accuracy = float(np.mean(np.asarray(perturbed.clean).argmax(axis=1) == labels))
    rule = _SelectionRule(trials[TS], selection.tolerance, model_accuracy)
    complete = [trial for trial in trials.values() if trial.n_folds == trials[TS].n_folds]
    best = rule.best([trial for trial in complete if not trial.variant.needs_window])
    windowed = rule.best_windowed([trial for trial in complete if trial.variant.needs_window])
    sentences = [
        _per_sample_sentence(best, rule),
        *(
            []
            if windowed is None
            else [_windowed_sentence(windowed, best, left_out=_leaves_out(windowed.variant, perturbed))]
        ),
        *reasons,
    ]
    return Choice(
        best.variant, None if windowed is None else windowed.variant, tuple(trials.values()), " ".join(sentences)
    )


@dataclass(frozen=True, eq=False)
class _EceReplicates:
    """The ECE in domain and the mean ECE over the perturbed levels, in each bootstrap replicate."""

    in_domain: Float64
    under_shift: Float64


class _SelectionRule:
    """In domain no worse than TS, the lowest ECE under shift, and the simplest within one standard error of it."""

    def __init__(self, ts: Trial, tolerance: float, model_accuracy: float) -> None:
        self.ts, self.tolerance, self.model_accuracy = ts, tolerance, model_accuracy
        self._bootstrap = ImageBootstrap(len(ts.by_level[0]), N_RESAMPLES, N_BINS)
        self._replicates: dict[int, _EceReplicates] = {}

    def best(self, trials: Sequence[Trial]) -> Trial:
        """The choice among per-sample trials, which include TS."""
        admitted = [trial for trial in trials if trial is self.ts or self._is_admitted(trial)]
        lowest = min(admitted, key=lambda trial: trial.shift_ece)
        near = [t for t in admitted if t.shift_ece - lowest.shift_ece <= self._standard_error(t, lowest)]
        return min(near, key=_simplicity)

    def best_windowed(self, trials: Sequence[Trial]) -> Trial | None:
        """The lowest ECE under shift of those admitted in domain; the lowest ECE in domain if none is admitted."""
        admitted = [trial for trial in trials if trial.in_domain_ece <= self.ts.in_domain_ece + self.tolerance]
        if admitted:
            return min(admitted, key=lambda trial: trial.shift_ece)
        return min(trials, key=lambda trial: trial.in_domain_ece, default=None)

    def _is_admitted(self, trial: Trial) -> bool:
        if self.model_accuracy - trial.accuracy > MAX_ACCURACY_LOSS:
            return False
        difference = self._ece(trial).in_domain - self._ece(self.ts).in_domain
        margin = float(np.quantile(difference - difference.mean(), ADMISSION_CONFIDENCE))
        return trial.in_domain_ece - self.ts.in_domain_ece + margin <= self.tolerance

    def _standard_error(self, trial: Trial, other: Trial) -> float:
        return float((self._ece(trial).under_shift - self._ece(other).under_shift).std())

    def _ece(self, trial: Trial) -> _EceReplicates:
        if id(trial) not in self._replicates:
            by_level = [self._bootstrap.ece(scores) for scores in trial.by_level]
            self._replicates[id(trial)] = _EceReplicates(by_level[0], np.mean(by_level[1:] or by_level, axis=0))
        return self._replicates[id(trial)]


def _simplicity(trial: Trial) -> tuple[int, bool]:
    """TS first, then the order of the registry; tuned on clean samples before tuned on perturbed ones."""
    order = ["ts", *(name for name in CALIBRATORS if name != "ts")]
    return order.index(trial.variant.method), trial.variant.clean_weight != CLEAN_ONLY


def _variants(
    selection: Selection,
    perturbed: PerturbedLogits,
    labels: Labels,
    clean_weight: float | None,
    features: CollectedFeatures,
) -> tuple[list[Variant], list[str]]:
    """Which variants are tried, and why others are not."""
    n_classes, n_levels, reasons = perturbed.clean.shape[1], len(perturbed.by_level), []
    rarest = int(np.bincount(labels, minlength=n_classes).min())
    names = [name for name in selection.candidates or CALIBRATORS if not CALIBRATORS[name].needs_features]
    if selection.candidates is None:
        names = [name for name in names if not CALIBRATORS[name].needs_window or name in default_windowed()]
    if n_levels == 1:  # without perturbed samples a windowed calibrator has nothing to follow
        names = [name for name in names if not CALIBRATORS[name].needs_window]
    if selection.keep_accuracy or rarest < SAMPLES_PER_CLASS:
        names = [name for name in names if CALIBRATORS[name].keeps_accuracy]
        if not selection.keep_accuracy:
            reasons.append(
                f"The rarest class has {rarest} validation samples, fewer than {SAMPLES_PER_CLASS}: methods with a map per class (IR, VS "
                "and others) were left out, because they would cost accuracy."
            )
    n_samples, n_parameters = n_levels * len(labels), n_classes**2
    # with fewer samples than parameters Dirichlet calibration fits a diagonal only, which is fast
    if "dirichlet" in names and n_samples >= n_parameters > MAX_MATRIX_WORK / n_samples:
        names.remove("dirichlet")
        reasons.append(f"DIRICHLET was left out: {n_classes}² numbers on {n_samples} samples take too long.")
    names += [
        name
        for name in features.methods
        if (selection.candidates is None or name in selection.candidates)
        and (CALIBRATORS[name].keeps_accuracy or not selection.keep_accuracy)
    ]
    if features.why_left_out:
        reasons.append(features.why_left_out)
    weights: tuple[float | None, ...] = CLEAN_WEIGHTS if clean_weight is None else (CLEAN_ONLY, clean_weight)
    if n_levels == 1:
        weights = (CLEAN_ONLY,)
    variants = [TS]
    for name in names:
        if CALIBRATORS[name].needs_window:
            variants.append(Variant(name, None))
        elif name == "base":
            variants.append(Variant(name))
        else:
            variants += [Variant(name, weight) for weight in weights]
    return list(dict.fromkeys(variants)), reasons


def _cross_validate(
    variants: Sequence[Variant],
    perturbed: PerturbedLogits,
    labels: Labels,
    features: CollectedFeatures,
    tolerance: float,
) -> dict[Variant, Trial]:
    """Out-of-fold predictions of every variant, as far as it was fitted; a variant that cannot be tuned has none."""
    fold = fold_of_samples(len(labels))
    score_columns: dict[Variant, list[list[Float64]]] = {}  # per level, a part of each fold
    trials: dict[Variant, Trial] = {}
    running = list(variants)
    for k in range(min(N_FOLDS, len(labels))):
        for variant in running:
            try:
                scores = held_out_scores(variant, perturbed, labels, fold == k, features)
            except DidNotConverge:
                trials.pop(variant, None)
                continue
            parts_by_level = score_columns.setdefault(variant, [[] for _ in perturbed.by_level])
            for parts, level_scores in zip(parts_by_level, scores, strict=True):
                parts.append(level_scores.columns)
            by_level = [SampleScores.of_columns(np.concatenate(parts)) for parts in parts_by_level]
            trials[variant] = Trial(variant, by_level, k + 1)
        running = _still_running(trials, k + 1, int(np.count_nonzero(fold <= k)), tolerance)
    return trials


def fold_of_samples(n_samples: int) -> Array:
    """The fold of each sample."""
    fold: Array = np.random.default_rng(0).permutation(n_samples) % N_FOLDS
    return fold


def _still_running(trials: dict[Variant, Trial], n_folds: int, n_samples: int, tolerance: float) -> list[Variant]:
    """TS, and every variant that is not clearly worse on the `n_samples` samples of the first folds."""
    ts = trials.get(TS)
    if ts is None:
        return []
    margin = 1 / math.sqrt(n_samples)  # two standard errors of a share of 1/2
    current = [trial for trial in trials.values() if trial.n_folds == n_folds]
    max_in_domain_ece = ts.in_domain_ece + tolerance + margin
    near_ts = [trial for trial in current if trial.in_domain_ece <= max_in_domain_ece]
    lowest = {
        windowed: min((t.shift_ece for t in near_ts if t.variant.needs_window == windowed), default=math.inf)
        for windowed in (False, True)
    }
    return [
        trial.variant
        for trial in current
        if trial is ts or (trial in near_ts and trial.shift_ece <= lowest[trial.variant.needs_window] + margin)
    ]


def held_out_scores(
    variant: Variant,
    perturbed: PerturbedLogits,
    labels: Labels,
    held_out: Array,
    features: CollectedFeatures,
    method: Calibrator | None = None,
) -> list[SampleScores]:
    """The scores of the held-out samples at each level, by the variant fitted on the other samples.

    `method` is an unfitted calibrator with the parameters to use. None: those of the variant by default.
    """
    kept = ~held_out
    method = make_calibrator(variant.method) if method is None else clone(method)
    if "tol" in method.get_params():
        method.set_params(tol=TRIAL_TOL)
    clean_only = variant.clean_weight == CLEAN_ONLY
    by_level = [perturbed.clean] if clean_only else perturbed.by_level
    used_features = features.clean if clean_only else features
    clean_weight = None if clean_only else variant.clean_weight
    if method.uses_families and perturbed.simulated is not None and perturbed.record is not None:
        # the shift of the levels is left out as well, so that the figures are those of an unknown shift
        family = family_of(str(perturbed.record["shift"]))
        stacked = stack_for_windows(perturbed, labels, selected=kept, leave_out=family)
    else:
        stacked = stack_levels(by_level, labels, clean_weight=clean_weight, selected=kept)
    method.fit(
        stacked.logits,
        stacked.labels,
        levels=stacked.levels,
        sample_weight=stacked.sample_weight,
        families=stacked.families,
        **used_features.for_method(method, kept),
    )
    window_size = WINDOW_SIZE if method.needs_window else None
    candidate = Candidate(variant.method, variant.method, method, window_size=window_size)
    options: dict[str, Any] = {"labels": labels, "held_out": held_out, "candidate": candidate}
    if method.needs_features:  # features are in this process, not in the cache
        return [
            _score(np.asarray(logits), **options, features={layer: values[held_out] for layer, values in level.items()})
            for logits, level in zip(perturbed.by_level, features.by_level, strict=True)
        ]
    return map_logits(_score, perturbed.by_level, options)


def _score(
    logits: Logits,
    labels: Labels,
    held_out: Array,
    candidate: Candidate,
    features: dict[str, Array] | None = None,
) -> SampleScores:
    return SampleScores.of_probabilities(labels[held_out], candidate.predict_proba(logits[held_out], features))


def _per_sample_sentence(best: Trial, rule: _SelectionRule) -> str:
    ts = rule.ts
    if len(ts.by_level) == 1:  # clean samples only
        others = "no other candidate is better" if best is ts else f"the lowest ECE; TS has {ts.in_domain_ece:.3f}"
        return f"{best.variant.label} was chosen (cross-validated ECE {best.in_domain_ece:.3f}): {others}."
    figures = f"ECE {best.in_domain_ece:.3f} in domain and {best.shift_ece:.3f} under the simulated shift"
    if best is ts:
        return (
            f"TS was chosen for single samples (cross-validated {figures}): no other candidate is better under shift while its in-domain "
            f"ECE stays within {rule.tolerance:g} of TS."
        )
    return (
        f"{best.variant.label} was chosen for single samples (cross-validated {figures}; TS has {ts.in_domain_ece:.3f} and "
        f"{ts.shift_ece:.3f}): the lowest error under shift of those whose in-domain ECE stays within {rule.tolerance:g} of TS."
    )


def _leaves_out(variant: Variant, perturbed: PerturbedLogits) -> bool:
    return CALIBRATORS[variant.method].uses_families and perturbed.simulated is not None


def _windowed_sentence(trial: Trial, per_sample: Trial, *, left_out: bool) -> str:
    unknown = ", which was left out of its fit" if left_out else ""
    advice = f"use calibrated.windowed({WINDOW_SIZE}) if you have recent inputs"
    if trial.shift_ece >= per_sample.shift_ece:
        advice = "windows gain nothing on these data"
    return (
        f"With windows of {WINDOW_SIZE} samples {trial.variant.label} has {trial.in_domain_ece:.3f} in domain and "
        f"{trial.shift_ece:.3f} under the simulated shift{unknown}: {advice}."
    )


def uses_simulated_shifts(method: str | Calibrator | Selection) -> bool:
    """Whether a calibrator that may be fitted gains from separate simulated shifts.

    >>> uses_simulated_shifts("auto"), uses_simulated_shifts("ts")
    (True, False)
    """
    calibrator = method_calibrator(method)
    if calibrator is not None:
        return calibrator.uses_families
    names = method.candidates if isinstance(method, Selection) else None
    return any(calibrator_class(name).uses_families for name in names or default_windowed())


def default_windowed() -> list[str]:
    """The windowed candidates if none are named: those that are fitted on many simulated shifts."""
    return [name for name, kind in CALIBRATORS.items() if kind.needs_window and kind.uses_families]


def method_calibrator(method: str | Calibrator | Selection) -> Calibrator | None:
    """The unfitted calibrator that `method` names or is; None for a selection.

    >>> method_calibrator("ts"), method_calibrator("auto") is None
    (TemperatureScaling(), True)
    """
    if isinstance(method, Selection) or method == "auto":
        return None
    if isinstance(method, Calibrator):
        if method.__sklearn_is_fitted__():
            raise InputError(
                f"method must be an unfitted calibrator; this {type(method).__name__} is fitted. Pass sklearn.base.clone(calibrator)."
            )
        return method
    if not isinstance(method, str):
        raise InputError(
            f"method must be a name, an unfitted calibrator or a driftcal.Selection; it is a {type(method).__name__}."
        )
    return make_calibrator(method)
