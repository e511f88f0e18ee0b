"""Choosing a calibrator: the lowest error under shift among those that are about as well calibrated in domain as TS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators import CALIBRATORS
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, family_of
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
    Without shifted samples a candidate replaces TS only if its ECE is clearly lower and its NLL is not higher.
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
        sentences.append(_windowed_sentence(windowed, rule, perturbed))
    return Choice(
        best.variant,
        None if windowed is None else windowed.variant,
        tuple(trials.values()),
        " ".join([*sentences, *reasons]),
    )


def _per_sample_sentences(best: Trial, rule: SelectionRule) -> str:
    ts, label = rule.ts, best.variant.label
    in_domain, under_shift = f"{best.in_domain_ece:.3f}", f"{best.shift_ece:.3f}"
    if not ts.has_shifted_samples:
        if best is ts:
            reason = "no other candidate has a clearly lower ECE without a higher NLL"
            return f"TS was chosen: {reason} (cross-validated ECE of TS {in_domain})."
        reason = "its ECE is clearly lower than that of TS, and its NLL is not higher"
        return f"{label} was chosen: {reason} (cross-validated ECE {in_domain}; TS {ts.in_domain_ece:.3f})."
    shift = "simulated shifts left out of the fit" if ts.shifted else "the simulated shift"
    if best is ts:
        return (
            "TS was chosen for single samples: no other candidate is clearly better. "
            f"Its cross-validated ECE is {in_domain} in domain and {under_shift} under {shift}."
        )
    cost = "Its cost in domain: an ECE of" if best.in_domain_ece > ts.in_domain_ece else "In domain it has"
    return (
        f"{label} was chosen for single samples: its cross-validated ECE is {under_shift} under {shift} (TS {ts.shift_ece:.3f}). "
        f"{cost} {in_domain} (TS {ts.in_domain_ece:.3f})."
    )


def _windowed_sentence(trial: Trial, rule: SelectionRule, perturbed: PerturbedLogits) -> str:
    label, ts = trial.variant.label, f"TS {rule.ts.level_ece:.3f}"
    is_noise = perturbed.record is not None and family_of(str(perturbed.record.get("shift"))) == "noise"
    shift = "noise" if is_noise else "the tuning shift"
    if CALIBRATORS[trial.variant.method].uses_families and perturbed.simulated is not None:
        shift += " left out of the fit"
    if not rule.windows_gain(trial):
        return (
            f"Windows of {WINDOW_SIZE} samples gained nothing in the cross-validation: {label} has {trial.level_ece:.3f} under "
            f"{shift} ({ts})."
        )
    return (
        f"With windows of {WINDOW_SIZE} samples {label} has {trial.level_ece:.3f} under {shift} ({ts}) and {trial.in_domain_ece:.3f} "
        f"in domain: use calibrated.windowed({WINDOW_SIZE}) if you have recent inputs."
    )
