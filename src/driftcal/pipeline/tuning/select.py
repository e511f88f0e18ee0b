"""Choosing a calibrator: the lowest error under shift among those that are in domain as well calibrated as TS."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, calibrator_class, make_calibrator
from driftcal.calibrators.levels import level_weights
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.engines.remote_passes import map_logits, stack
from driftcal.errors import DidNotConverge, InputError
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.sample_scores import SampleScores
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.types import Array, Float64, Labels, Logits

#: Clean weights that every method is tried with: clean samples only, two shares, and the paper's 1/N (None).
CLEAN_ONLY = 1.0
CLEAN_WEIGHTS: tuple[float | None, ...] = (CLEAN_ONLY, 0.9, 0.5, None)
#: With fewer validation samples per class, a map per class changes more predictions than it corrects (the paper's
#: experiment on the size of the validation set).
SAMPLES_PER_CLASS = 50
#: Samples times classes squared up to which Dirichlet calibration is tried: beyond, it takes longer than all others.
MATRIX_WORK = 2e7
#: How closely a trial trains a network: on the digits PTS scores the same at a tenth of it.
TRIAL_TOL = 1e-3
#: A candidate may lower the accuracy on clean samples by this much.
MAX_ACCURACY_LOSS = 0.02
N_FOLDS = 5
N_RESAMPLES = 200
N_BINS = 15
#: The share of bootstrap replicates below the one-sided bound of the in-domain difference.
BOUND = 0.9


@dataclass(frozen=True)
class Selection:
    """How ``method="auto"`` chooses.

    Among all candidates, plain temperature scaling included, it takes the lowest ECE under shift of those whose in-domain ECE is
    at most that of temperature scaling plus `tolerance`.

    Parameters
    ----------
    keep_accuracy
        Only candidates that never change the predicted class.
    tolerance
        By how much the in-domain ECE may exceed that of temperature scaling.
    candidates
        Short names of methods. None: all that fit the data.
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
        """How explanations name it."""
        name = self.method.upper()
        if self.needs_window or self.clean_weight == CLEAN_ONLY:
            return name
        return f"{name}-P" if self.clean_weight is None else f"{name}-P with clean weight {self.clean_weight:g}"

    @property
    def needs_window(self) -> bool:
        """Whether it follows a window."""
        return CALIBRATORS[self.method].needs_window


TS = Variant("ts")


@dataclass(frozen=True, eq=False)
class Trial:
    """Out-of-fold predictions of one candidate and their errors.

    `shift_ece` is the mean of the ECE at the single perturbation levels, where opposite errors do not cancel. `n_folds` says on
    how many folds it was tried before it was dropped.
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

    A per-sample candidate is admitted if the one-sided 90 % bound of its in-domain ECE minus that of TS (paired bootstrap over
    images) is below the tolerance. Of those the lowest ECE under shift wins; within one standard error of it the simplest,
    TS first. So little data gives TS. Windowed candidates are judged by themselves, in windows of 100 held-out samples.
    After each fold, candidates that are clearly worse are dropped (successive halving).
    """
    collected = features or CollectedFeatures()
    variants, reasons = _variants(selection, perturbed, labels, clean_weight, collected)
    trials = _cross_validate(variants, perturbed, labels, collected, selection.tolerance)
    if TS not in trials:
        reason = "TS has no finite optimum on a part of these samples, so candidates were not compared; TS was taken."
        return Choice(TS, None, tuple(trials.values()), " ".join([reason, *reasons]))
    judge = _Judge(
        trials[TS], selection.tolerance, float(np.mean(np.asarray(perturbed.clean).argmax(axis=1) == labels))
    )
    complete = [trial for trial in trials.values() if trial.n_folds == trials[TS].n_folds]
    best = judge.best([trial for trial in complete if not trial.variant.needs_window])
    windowed = judge.best_windowed([trial for trial in complete if trial.variant.needs_window])
    sentences = [
        _per_sample_sentence(best, judge),
        *([] if windowed is None else [_windowed_sentence(windowed)]),
        *reasons,
    ]
    return Choice(
        best.variant, None if windowed is None else windowed.variant, tuple(trials.values()), " ".join(sentences)
    )


class _Judge:
    """The rule: in domain no worse than TS, under shift the lowest, the simplest within one standard error."""

    def __init__(self, ts: Trial, tolerance: float, accuracy: float) -> None:
        self.ts, self.tolerance, self.accuracy = ts, tolerance, accuracy
        self._bootstrap = ImageBootstrap(len(ts.by_level[0]), N_RESAMPLES, N_BINS)
        self._replicates: dict[int, tuple[Float64, Float64]] = {}

    def best(self, trials: Sequence[Trial]) -> Trial:
        """The choice among per-sample trials; TS is one of them."""
        admitted = [trial for trial in trials if trial is self.ts or self._is_admitted(trial)]
        lowest = min(admitted, key=lambda trial: trial.shift_ece)
        near = [t for t in admitted if t.shift_ece - lowest.shift_ece <= self._standard_error(t, lowest)]
        return min(near, key=_simplicity)

    def best_windowed(self, trials: Sequence[Trial]) -> Trial | None:
        """The lowest under shift of those admitted in domain; where none is, the lowest in domain."""
        admitted = [trial for trial in trials if trial.in_domain_ece <= self.ts.in_domain_ece + self.tolerance]
        if admitted:
            return min(admitted, key=lambda trial: trial.shift_ece)
        return min(trials, key=lambda trial: trial.in_domain_ece, default=None)

    def _is_admitted(self, trial: Trial) -> bool:
        if self.accuracy - trial.accuracy > MAX_ACCURACY_LOSS:
            return False
        difference = self._ece(trial)[0] - self._ece(self.ts)[0]
        spread = float(np.quantile(difference - difference.mean(), BOUND))
        return trial.in_domain_ece - self.ts.in_domain_ece + spread <= self.tolerance

    def _standard_error(self, trial: Trial, other: Trial) -> float:
        return float((self._ece(trial)[1] - self._ece(other)[1]).std())

    def _ece(self, trial: Trial) -> tuple[Float64, Float64]:
        """The ECE in domain and the mean ECE over the perturbed levels, in each replicate."""
        if id(trial) not in self._replicates:
            values = [self._bootstrap.ece(scores) for scores in trial.by_level]
            self._replicates[id(trial)] = values[0], np.mean(values[1:] or values, axis=0)
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
    if n_levels == 1:  # without perturbed samples a windowed calibrator has nothing to follow
        names = [name for name in names if not CALIBRATORS[name].needs_window]
    if selection.keep_accuracy or rarest < SAMPLES_PER_CLASS:
        names = [name for name in names if CALIBRATORS[name].keeps_accuracy]
        if not selection.keep_accuracy:
            reasons.append(
                f"The rarest class has {rarest} validation samples, fewer than {SAMPLES_PER_CLASS}: methods with a map per class (IR, VS "
                "and others) were left out, because they would cost accuracy."
            )
    n_samples, n_numbers = n_levels * len(labels), n_classes**2
    if "dirichlet" in names and n_samples >= n_numbers > MATRIX_WORK / n_samples:  # with fewer it has a diagonal only
        names.remove("dirichlet")
        reasons.append(f"DIRICHLET was left out: {n_classes}² numbers on {n_samples} samples take too long.")
    asked = (
        features.methods if selection.candidates is None else [n for n in features.methods if n in selection.candidates]
    )
    names += [name for name in asked if selection.keep_accuracy <= CALIBRATORS[name].keeps_accuracy]
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
    """Out-of-fold predictions of every variant that is not dropped on the way; one that cannot be tuned has none."""
    fold = np.random.default_rng(0).permutation(len(labels)) % N_FOLDS
    columns: dict[Variant, list[list[Float64]]] = {}
    trials: dict[Variant, Trial] = {}
    running = list(variants)
    for k in range(min(N_FOLDS, len(labels))):
        for variant in running:
            try:
                scores = _held_out_scores(variant, perturbed, labels, fold == k, features)
            except DidNotConverge:
                trials.pop(variant, None)
                continue
            parts = columns.setdefault(variant, [[] for _ in perturbed.by_level])
            for part, level in zip(parts, scores, strict=True):
                part.append(level.columns)
            by_level = [SampleScores.of_columns(np.concatenate(part)) for part in parts]
            trials[variant] = Trial(variant, by_level, k + 1)
        running = _still_running(trials, k + 1, int(np.count_nonzero(fold <= k)), tolerance)
    return trials


def _still_running(trials: dict[Variant, Trial], n_folds: int, n_samples: int, tolerance: float) -> list[Variant]:
    """TS, and what is not clearly worse by two standard errors of a share of the samples judged so far."""
    current = [trial for trial in trials.values() if trial.n_folds == n_folds]
    ts = trials.get(TS)
    if ts is None:
        return []
    margin = 1 / math.sqrt(n_samples)
    in_domain: Callable[[Trial], bool] = lambda t: t.in_domain_ece <= ts.in_domain_ece + tolerance + margin  # noqa: E731
    lowest = {
        windowed: min(
            (t.shift_ece for t in current if t.variant.needs_window == windowed and in_domain(t)), default=math.inf
        )
        for windowed in (False, True)
    }
    return [
        trial.variant
        for trial in current
        if trial is ts or (in_domain(trial) and trial.shift_ece <= lowest[trial.variant.needs_window] + margin)
    ]


def _held_out_scores(
    variant: Variant, perturbed: PerturbedLogits, labels: Labels, held_out: Array, features: CollectedFeatures
) -> list[SampleScores]:
    """The scores of the held-out samples at each level, by the variant fitted on the others."""
    kept = ~held_out
    method = make_calibrator(variant.method)
    if "tol" in method.get_params():
        method.set_params(tol=TRIAL_TOL)
    clean_only = variant.clean_weight == CLEAN_ONLY
    by_level = [perturbed.clean] if clean_only else perturbed.by_level
    used_features = features.clean if clean_only else features
    weights = None if clean_only else level_weights(len(by_level), variant.clean_weight)
    logits, kept_labels = stack(by_level, labels, kept, weights=weights)
    levels = np.repeat(np.arange(len(by_level)), np.count_nonzero(kept))
    sample_weight = None if weights is None or kept_labels is None else np.repeat(weights, np.count_nonzero(kept))
    method.fit(
        logits, kept_labels, levels=levels, sample_weight=sample_weight, **used_features.for_method(method, kept)
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


def _per_sample_sentence(best: Trial, judge: _Judge) -> str:
    ts = judge.ts
    figures = f"ECE {best.in_domain_ece:.3f} in domain and {best.shift_ece:.3f} under the simulated shift"
    if best is ts:
        return (
            f"TS was chosen for single samples (cross-validated {figures}): no other candidate is better under shift while its in-domain "
            f"ECE stays within {judge.tolerance:g} of TS."
        )
    return (
        f"{best.variant.label} was chosen for single samples (cross-validated {figures}; TS has {ts.in_domain_ece:.3f} and "
        f"{ts.shift_ece:.3f}): the lowest error under shift of those whose in-domain ECE stays within {judge.tolerance:g} of TS."
    )


def _windowed_sentence(trial: Trial) -> str:
    return (
        f"With windows of {WINDOW_SIZE} samples {trial.variant.label} has {trial.in_domain_ece:.3f} in domain and "
        f"{trial.shift_ece:.3f} under the simulated shift: use calibrated.windowed({WINDOW_SIZE}) where recent inputs are at hand."
    )


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
