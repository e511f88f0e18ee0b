"""Fitting all calibrators of a calibrated model on the logits of clean and perturbed samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftcal.calibrators import Calibrator, make_calibrator, name_of
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.decisions import CoverageCurve
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.collecting.simulated import SIMULATED_SHIFTS
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES
from driftcal.pipeline.tuning.candidates import CLEAN_ONLY, Selection, Variant
from driftcal.pipeline.tuning.cross_validation import Trial
from driftcal.pipeline.tuning.fit import Fit, fit_on_clean, fit_on_levels, fit_on_simulated
from driftcal.pipeline.tuning.select import Choice, choose
from driftcal.pipeline.tuning.validation_curve import curve_of_fit, curve_of_scores
from driftcal.types import Labels

#: The baselines of a calibrated model: temperature scaling, and the chosen method, each tuned on clean samples only.
TS_BASELINE, CLEAN_BASELINE = "ts", "clean-tuned"
#: The explanation says it if the last level keeps more than this share of the accuracy above chance.
MUCH_ACCURACY = 0.25


@dataclass(frozen=True, eq=False)
class TunedCalibrators:
    """The per-sample calibrator, the windowed one if there is one, the clean-tuned baselines, and why they were chosen.

    `tuned_on` is "clean samples", "simulated shifts" or the name of the shift. `clean_weight` is the share of the clean samples in all
    weight that the per-sample calibrator was tuned with. `cross_validated_ece` is that of the per-sample calibrator, in
    domain and under shift, `windowed_cross_validated_ece` that of the windowed one, each with the name of that shift; None if no method was
    chosen. `validation_curve` is that of clean validation samples that the calibrator was not fitted on.
    """

    method: str
    calibrator: Calibrator
    tuned_on: str
    clean_weight: float | None = None
    windowed: WindowedCalibrator | None = None
    baselines: Mapping[str, Calibrator] = field(default_factory=dict)
    explanation: str = ""
    cross_validated_ece: Mapping[str, Any] | None = None
    windowed_cross_validated_ece: Mapping[str, Any] | None = None
    validation_curve: CoverageCurve | None = None


def tune_calibrators(
    method: Calibrator | None,
    selection: Selection,
    perturbed: PerturbedLogits,
    labels: Labels,
    *,
    clean_weight: float | None = None,
    features: CollectedFeatures | None = None,
) -> TunedCalibrators:
    """Fit `method` and its baselines; if `method` is None, `selection` chooses one."""
    level_features = features or CollectedFeatures()
    clean_weight = None if clean_weight is None else float(clean_weight)  # files hold plain numbers
    choice: Choice | None = None
    if method is None:
        choice = choose(selection, perturbed, labels, clean_weight=clean_weight, features=level_features)
        variant, windowed_variant = choice.per_sample, choice.windowed
        method = make_calibrator(variant.method)
    else:
        variant = Variant(name_of(method), CLEAN_ONLY if perturbed.record is None else clean_weight)
        windowed_variant = None
    windowed: WindowedCalibrator | None = None
    if windowed_variant is not None:
        windowed_fit = fit_on_levels(make_calibrator(windowed_variant.method), perturbed, labels)
        windowed = windowed_fit.calibrator if isinstance(windowed_fit.calibrator, WindowedCalibrator) else None
    clean = fit_on_clean(method, perturbed, labels, features=level_features.clean.for_method(method))
    tuned = clean
    if variant.simulated:
        tuned = fit_on_simulated(method, perturbed, labels, clean_weight=variant.clean_weight)
    elif variant.clean_weight != CLEAN_ONLY:
        tuned = fit_on_levels(
            method, perturbed, labels, clean_weight=variant.clean_weight, features=level_features.for_method(method)
        )
    calibrator = tuned.calibrator
    if isinstance(calibrator, WindowedCalibrator):  # the caller named a windowed method
        windowed, calibrator = calibrator, calibrator.per_sample()
    ts = clean if variant.method == "ts" else fit_on_clean(make_calibrator("ts"), perturbed, labels)
    # a warning says that the model stays uncalibrated: nothing else was chosen for single samples
    is_told = choice is not None and not (tuned.warning and choice.windowed is None)
    sentences = [choice.explanation if choice and is_told else "", tuned.warning, *_level_sentences(perturbed)]
    tuned_on = CLEAN_SAMPLES
    if perturbed.record is not None and variant.clean_weight != CLEAN_ONLY:
        tuned_on = SIMULATED_SHIFTS if variant.simulated else str(perturbed.record["shift"])
    on_clean = tuned_on == CLEAN_SAMPLES
    trial = None if choice is None or tuned.warning else _trial_of(choice, choice.per_sample)
    windowed_trial = None if choice is None or windowed is None else _trial_of(choice, choice.windowed)
    windowed_by_name = windowed is not None and choice is None
    return TunedCalibrators(
        method="base" if tuned.warning else variant.method,
        calibrator=calibrator,
        tuned_on=tuned_on,
        clean_weight=None if on_clean else variant.clean_weight,
        windowed=windowed,
        baselines=_baselines(ts, None if on_clean or tuned.warning or windowed_by_name else clean),
        explanation=" ".join(sentence for sentence in sentences if sentence),
        cross_validated_ece=_ece_of(trial),
        windowed_cross_validated_ece=_ece_of(windowed_trial),
        validation_curve=curve_of_scores(trial.by_level[0])
        if trial is not None
        else curve_of_fit(calibrator, method, variant, perturbed, labels, level_features),
    )


def _level_sentences(perturbed: PerturbedLogits) -> list[str]:
    """What the levels lack, if it matters: there is only the clean one, or the last one leaves much of the accuracy."""
    record = perturbed.record or {}
    accuracies = [level["accuracy"] for level in record.get("levels", ())]
    if record.get("solver") == "table" or not accuracies:
        return []
    if len(accuracies) == 1:
        return [f"{note[0].upper()}{note[1:]}." for note in record["notes"]]
    chance = 1 / perturbed.clean.shape[1]
    if accuracies[-1] - chance <= MUCH_ACCURACY * (accuracies[0] - chance):
        return []
    return [
        f"The strongest perturbation lowers the accuracy to {accuracies[-1]:.2f} only, not to chance ({chance:.2f})."
    ]


def _trial_of(choice: Choice, variant: Variant | None) -> Trial | None:
    """The trial of a variant; None where candidates could not be compared."""
    return next((trial for trial in choice.trials if trial.variant == variant), None)


def _ece_of(trial: Trial | None) -> dict[str, Any] | None:
    """The cross-validated ECE of a trial, in domain and under shift, and the words for that shift."""
    if trial is None:
        return None
    if not trial.has_shifted_samples:
        return {"in_domain": trial.in_domain_ece}
    shift = "simulated shifts that the fit had not seen" if trial.shifted else "the tuning shift"
    return {"in_domain": trial.in_domain_ece, "under_shift": trial.shift_ece, "shift": shift}


def _baselines(ts: Fit, clean: Fit | None) -> dict[str, Calibrator]:
    """Temperature scaling, and the clean-tuned method if it is another one; only those that have an optimum."""
    baselines = {} if ts.warning else {TS_BASELINE: ts.calibrator}
    if clean is not None and not clean.warning and clean is not ts:
        baselines[CLEAN_BASELINE] = clean.calibrator
    return baselines
