"""The calibrated model that `tune` and `fit` return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.data import Source
from driftcal.drift.reference import MIN_SAMPLES, DriftReference
from driftcal.models import Model
from driftcal.models.recorded_scores import ScoresModel
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.perturbation import PerturbedLogits
from driftcal.pipeline.evaluating.versions import versions
from driftcal.pipeline.tuning.tune_calibrators import TS_BASELINE, TunedCalibrators
from driftcal.types import Labels


def tuned_model(
    model: Model,
    source: Source,
    perturbed: PerturbedLogits,
    labels: Labels,
    tuned: TunedCalibrators,
    *,
    accuracy: float,
    warnings: Sequence[str],
    layers: Sequence[str] = (),
    random_state: int = 0,
) -> CalibratedModel:
    """The model with its tuned calibrators, and the record of how they were tuned.

    `labels` are those of the clean samples, and `accuracy` is that of the model on them.
    """
    of_scores = isinstance(model, ScoresModel)
    accuracy_sentence = f"{'Accuracy' if of_scores else 'Validation accuracy'} {accuracy:.3f} on {len(labels)} samples."
    return CalibratedModel(
        model=model,
        calibrator=tuned.calibrator,
        method=tuned.method,
        tuned_on=tuned.tuned_on,
        windowed_calibrator=tuned.windowed,
        baselines=tuned.baselines,
        perturbation=perturbed.record,
        explanation=" ".join(filter(None, [accuracy_sentence, *warnings, model.note, tuned.explanation])),
        class_names=source.class_names,
        layers=tuple(layers) if tuned.calibrator.needs_features else (),
        drift_reference=_drift_reference(perturbed, labels, tuned),
        metadata={
            "random_state": random_state,
            "clean_weight": tuned.clean_weight,
            "accuracy": accuracy,
            "cross_validated_ece": tuned.cross_validated_ece,
            "windowed_cross_validated_ece": tuned.windowed_cross_validated_ece,
            **({} if of_scores else {"categorical": list(source.categorical)}),
            "validation": source.metadata(),
            "versions": versions(model.framework, tables=source.is_table),
        },
        validation_curve=tuned.validation_curve,
        model_metadata=model.metadata(),
    )


def _drift_reference(perturbed: PerturbedLogits, labels: Labels, tuned: TunedCalibrators) -> dict[str, Any] | None:
    """What a monitor compares traffic with; None if the calibrator needs layer features or samples are too few."""
    if tuned.calibrator.needs_features or len(labels) < MIN_SAMPLES:
        return None
    ts = tuned.baselines.get(TS_BASELINE)
    # without a finite optimum there is no TS baseline; the reference then describes the uncalibrated logits
    temperature = float(ts.temperature_) if isinstance(ts, TemperatureScaling) else 1.0
    by_level = list(perturbed.by_level)
    return DriftReference.of(by_level, labels, tuned.calibrator, temperature=temperature).to_dict()
