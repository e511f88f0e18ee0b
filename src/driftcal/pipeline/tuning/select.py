"""Choosing a calibrator: the lowest error under shift among those that are about as well calibrated in domain as TS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import CALIBRATORS
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.tuning.candidates import TS, Selection, Variant, variants_of
from driftcal.pipeline.tuning.cross_validation import Trial, cross_validate
from driftcal.pipeline.tuning.selection_rule import SelectionRule
from driftcal.types import Labels


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
    """Compare candidates by five-fold cross-validation over images: an image with all its shifts is in one fold.

    Where separate simulated shifts were collected, a fold also holds out families of shifts: candidates that are tuned
    on shifts predict images they have not seen under shifts they have not seen. Otherwise the levels of Algorithm 1
    count. A per-sample candidate is admitted if its in-domain ECE exceeds that of TS by at most the tolerance
    (:class:`driftcal.pipeline.tuning.selection_rule.SelectionRule`). Among the admitted candidates, those within one
    standard error of the lowest ECE under shift count as equal, and the simplest of them is chosen. TS is the simplest.
    Windowed candidates are compared with each other, in windows of 100 held-out samples. After each fold, candidates
    that are clearly worse are dropped (successive halving).
    """
    level_features = features or CollectedFeatures()
    variants, reasons = variants_of(selection, perturbed, labels, clean_weight, level_features)
    if len(labels) < 2:
        reason = "One sample cannot be cross-validated, so candidates were not compared; TS was taken."
        return Choice(TS, None, (), " ".join([reason, *reasons]))
    trials = cross_validate(variants, perturbed, labels, level_features, selection.limit)
    if TS not in trials:
        reason = "TS has no finite optimum on a part of these samples, so candidates were not compared; TS was taken."
        return Choice(TS, None, tuple(trials.values()), " ".join([reason, *reasons]))
    model_accuracy = float(np.mean(np.asarray(perturbed.clean).argmax(axis=1) == labels))
    rule = SelectionRule(trials[TS], selection.limit, model_accuracy)
    complete = [trial for trial in trials.values() if trial.n_folds == trials[TS].n_folds]
    best = rule.best([trial for trial in complete if not trial.variant.needs_window])
    windowed = rule.best_windowed([trial for trial in complete if trial.variant.needs_window])
    sentences = [_per_sample_sentences(best, rule)]
    if windowed is not None:
        sentences.append(_windowed_sentence(windowed, trials[TS], left_out=_leaves_out(windowed.variant, perturbed)))
    return Choice(
        best.variant,
        None if windowed is None else windowed.variant,
        tuple(trials.values()),
        " ".join([*sentences, *reasons]),
    )


def _per_sample_sentences(best: Trial, rule: SelectionRule) -> str:
    ts, limit = rule.ts, f"{rule.tolerance:g}"
    if not ts.has_shifted_samples:
        others = "no other candidate is better" if best is ts else f"the lowest ECE; TS has {ts.in_domain_ece:.3f}"
        return f"{best.variant.label} was chosen (cross-validated ECE {best.in_domain_ece:.3f}): {others}."
    shift = "simulated shifts that the fit had not seen" if ts.shifted else "the simulated shift"
    if best is ts:
        return (
            f"TS was chosen for single samples (cross-validated ECE {ts.in_domain_ece:.3f} in domain and {ts.shift_ece:.3f} under "
            f"{shift}): no other candidate is better under shift at a cost of at most {limit} in domain."
        )
    if best.in_domain_ece <= ts.in_domain_ece:
        cost = f"In domain it costs nothing: the ECE is {best.in_domain_ece:.3f}, that of TS {ts.in_domain_ece:.3f}."
    else:
        cost = (
            f"Its cost in domain: an ECE of {best.in_domain_ece:.3f}, where TS has {ts.in_domain_ece:.3f}; at most {limit} more was "
            "allowed."
        )
    return (
        f"{best.variant.label} was chosen for single samples: its cross-validated ECE under {shift} is {best.shift_ece:.3f}; that "
        f"of temperature scaling on clean samples (TS) is {ts.shift_ece:.3f}. {cost}"
    )


def _leaves_out(variant: Variant, perturbed: PerturbedLogits) -> bool:
    return CALIBRATORS[variant.method].uses_families and perturbed.simulated is not None


def _windowed_sentence(trial: Trial, ts: Trial, *, left_out: bool) -> str:
    unknown = ", which was left out of its fit" if left_out else ""
    advice = f"use calibrated.windowed({WINDOW_SIZE}) if you have recent inputs"
    if trial.level_ece >= ts.level_ece:
        advice = "windows gain nothing on these data"
    return (
        f"With windows of {WINDOW_SIZE} samples {trial.variant.label} has {trial.in_domain_ece:.3f} in domain and "
        f"{trial.level_ece:.3f} under the tuning shift{unknown} (TS {ts.level_ece:.3f}): {advice}."
    )
