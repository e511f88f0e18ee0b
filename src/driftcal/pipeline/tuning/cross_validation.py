"""Out-of-fold predictions of the candidates of `method="auto"`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.engines.remote_passes import map_logits
from driftcal.errors import DidNotConverge
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.metrics.sample_scores import SampleScores
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, family_of
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.tuning.candidates import CLEAN_ONLY, TS, Variant, judged_on_simulated_shifts
from driftcal.pipeline.tuning.fit import stack_for_windows, stack_levels, stack_simulated
from driftcal.types import Array, Indices, Labels, Logits

#: Folds over images: each candidate is fitted that often, on four fifths of the samples.
N_FOLDS = 5
#: Groups of families of simulated shifts. A fold of images is predicted once per group, by fits without this group.
N_FAMILY_GROUPS = 3
#: Shifted samples of a fit that is compared; the chosen candidate is fitted on all of them.
MAX_SHIFTED_SAMPLES = 6000
#: The tolerance of the networks that are trained for a comparison. A ten times smaller one gives PTS the same score on
#: the digits.
TRIAL_TOL = 1e-3
#: Bins of the ECE, as in `evaluate`.
N_BINS = 15


@dataclass(frozen=True, eq=False)
class ShiftedScores:
    """Out-of-fold scores under one family of simulated shifts; `images` are their places in the validation set."""

    images: Indices
    scores: SampleScores

    @property
    def ece(self) -> float:
        """The ECE of the family's samples together."""
        return ece_of(self.scores)


@dataclass(frozen=True, eq=False)
class Trial:
    """Out-of-fold predictions of one candidate and their errors.

    `by_level` holds the clean samples and, for TS and for candidates that are judged on them, the samples of each level
    of Algorithm 1. `shifted` holds a family of simulated shifts each. `images` are the places of the samples of a
    level in the validation set. `shift_ece` is the mean of the ECE of each family, or without families of each level,
    so that opposite errors do not cancel. `n_folds` is the number of folds that the candidate was fitted for.
    """

    variant: Variant
    by_level: Sequence[SampleScores]
    n_folds: int
    images: Indices
    shifted: Sequence[ShiftedScores] = ()
    in_domain_ece: float = field(init=False)
    nll: float = field(init=False)
    shift_ece: float = field(init=False)
    accuracy: float = field(init=False)

    def __post_init__(self) -> None:
        clean = Statistics.of_samples(self.by_level[0], n_bins=N_BINS)
        object.__setattr__(self, "in_domain_ece", clean.ece)
        object.__setattr__(self, "nll", clean.nll)
        shifted = [family.ece for family in self.shifted]
        object.__setattr__(self, "shift_ece", float(np.mean(shifted)) if shifted else self.level_ece)
        object.__setattr__(self, "accuracy", clean.accuracy)

    @property
    def level_ece(self) -> float:
        """The mean ECE of the levels of Algorithm 1; the ECE in domain if there are none."""
        return float(np.mean([ece_of(scores) for scores in self.by_level[1:] or self.by_level]))

    @property
    def has_shifted_samples(self) -> bool:
        """Whether `shift_ece` is an error under shift."""
        return bool(self.shifted) or len(self.by_level) > 1

    def confidence_distance(self, ts: Trial) -> float:
        """How far the mean confidence of clean samples is from that of TS, on average over the bins of the ECE.

        The in-domain ECE rises by no more than this: |E[p − y]| ≤ |E[p_TS − y]| + |E[p − p_TS]| in each bin. It is
        infinite if the two differ in which samples are correct.
        """
        scores, reference = self.by_level[0], ts.by_level[0]
        if len(scores) != len(reference) or not np.array_equal(scores.outcome, reference.outcome):
            return math.inf
        bins = bin_indices(scores.confidence, bin_edges(N_BINS))
        difference = np.bincount(bins, scores.confidence - reference.confidence, N_BINS)
        return float(np.abs(difference).sum() / len(scores))


def ece_of(scores: SampleScores) -> float:
    """The ECE of these samples."""
    return Statistics.of_samples(scores, n_bins=N_BINS).ece


def fold_of_samples(n_samples: int) -> Array:
    """The fold of each sample."""
    fold: Array = np.random.default_rng(0).permutation(n_samples) % N_FOLDS
    return fold


def cross_validate(
    variants: Sequence[Variant],
    perturbed: PerturbedLogits,
    labels: Labels,
    features: CollectedFeatures,
    tolerance: float = math.inf,
) -> dict[Variant, Trial]:
    """Out-of-fold predictions of every variant, as far as it was fitted; a variant that cannot be tuned has none.

    After each fold variants are dropped that are clearly worse, or whose in-domain ECE clearly exceeds that of TS plus
    `tolerance`. Without a tolerance none is dropped.
    """
    fold = fold_of_samples(len(labels))
    simulated = judged_on_simulated_shifts(perturbed, features)
    parts: dict[Variant, list[_FoldScores]] = {}
    trials: dict[Variant, Trial] = {}
    running = list(variants)
    for k in range(min(N_FOLDS, len(labels))):
        held_out = fold == k
        for variant in running:
            try:
                if simulated and not variant.needs_window:
                    scores = _simulated_scores(variant, perturbed, labels, held_out, k)
                else:
                    scores = _FoldScores(
                        np.flatnonzero(held_out), held_out_scores(variant, perturbed, labels, held_out, features), {}
                    )
            except DidNotConverge:
                trials.pop(variant, None)
                parts.pop(variant, None)
                continue
            parts.setdefault(variant, []).append(scores)
            trials[variant] = _trial(variant, parts[variant])
        running = [variant for variant in running if variant in trials]
        if math.isfinite(tolerance):
            running = _still_running(trials, k + 1, int(np.count_nonzero(fold <= k)), tolerance)
    return trials


@dataclass(frozen=True, eq=False)
class _FoldScores:
    """The scores of the held-out images of a fold: clean ones and levels, and families of simulated shifts."""

    images: Indices
    by_level: Sequence[SampleScores]
    shifted: dict[str, ShiftedScores]


def _trial(variant: Variant, folds: Sequence[_FoldScores]) -> Trial:
    """The folds together."""
    families = list(dict.fromkeys(family for fold in folds for family in fold.shifted))
    by_family = {family: [fold.shifted[family] for fold in folds if family in fold.shifted] for family in families}
    return Trial(
        variant,
        [_joined(level) for level in zip(*(fold.by_level for fold in folds), strict=True)],
        len(folds),
        np.concatenate([fold.images for fold in folds]),
        [
            ShiftedScores(np.concatenate([part.images for part in parts]), _joined([part.scores for part in parts]))
            for parts in by_family.values()
        ],
    )


def _joined(parts: Sequence[SampleScores]) -> SampleScores:
    return SampleScores.of_columns(np.concatenate([part.columns for part in parts]))


def _simulated_scores(
    variant: Variant, perturbed: PerturbedLogits, labels: Labels, held_out: Array, fold: int
) -> _FoldScores:
    """The scores of the held-out images, clean and under simulated shifts of families that the fit has not seen.

    A variant that is tuned on clean samples is fitted once; another one is fitted without each group of families. The
    clean images are then predicted by one of these fits, a different one in each fold.
    """
    simulated = perturbed.simulated
    assert simulated is not None
    families = list(dict.fromkeys(simulated.families))
    if variant.simulated:
        n_groups = min(N_FAMILY_GROUPS, len(families))
        groups = [families[group::n_groups] for group in range(n_groups)]
    else:
        groups = [families]
    by_level: list[SampleScores] = []
    shifted: dict[str, ShiftedScores] = {}
    for number, group in enumerate(groups):
        method = make_calibrator(variant.method)
        _fit_trial(method, variant, perturbed, labels, ~held_out, group)
        candidate = Candidate(variant.method, variant.method, method)
        if number == fold % len(groups):
            levels = perturbed.by_level if variant == TS else [perturbed.clean]
            by_level = map_logits(_score, levels, {"labels": labels, "held_out": held_out, "candidate": candidate})
        for family in group:
            part = simulated.selected(held_out, leave_out=set(families) - {family})
            logits, family_labels, _, _ = part.stacked(labels)
            if len(logits):
                scores = SampleScores.of_probabilities(family_labels, candidate.predict_proba(logits))
                shifted[family] = ShiftedScores(np.concatenate(part.indices), scores)
    return _FoldScores(np.flatnonzero(held_out), by_level, shifted)


def _fit_trial(
    method: Calibrator,
    variant: Variant,
    perturbed: PerturbedLogits,
    labels: Labels,
    kept: Array,
    leave_out: Sequence[str],
) -> None:
    """Fit on the kept clean samples, or on these and simulated shifts without the families `leave_out`."""
    if "tol" in method.get_params():
        method.set_params(tol=TRIAL_TOL)
    if not variant.simulated:
        method.fit(np.asarray(perturbed.clean)[kept], labels[kept])
        return
    stacked = stack_simulated(
        perturbed, labels, clean_weight=variant.clean_weight, selected=kept, leave_out=leave_out,
        max_samples=MAX_SHIFTED_SAMPLES,
    )  # fmt: skip
    method.fit(stacked.logits, stacked.labels, levels=stacked.levels, sample_weight=stacked.sample_weight)


def _still_running(trials: dict[Variant, Trial], n_folds: int, n_samples: int, tolerance: float) -> list[Variant]:
    """TS, and every variant that is not clearly worse on the `n_samples` images of the first folds.

    Two standard errors of a share are 1/√n at most. The difference of two in-domain ECEs has about half of it, since
    both depend on the same images, and the distance of two confidences, which depends on no labels, about a quarter.
    """
    ts = trials.get(TS)
    if ts is None:
        return []
    margin = 1 / math.sqrt(n_samples)

    def is_near(trial: Trial) -> bool:
        distance = trial.confidence_distance(ts)
        if trial.variant.tuned_on_shift and math.isfinite(distance):
            return distance <= tolerance + margin / 4
        return trial.in_domain_ece <= ts.in_domain_ece + tolerance + margin / 2 or distance <= tolerance

    current = [trial for trial in trials.values() if trial.n_folds == n_folds]
    near_ts = [trial for trial in current if is_near(trial)]
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
