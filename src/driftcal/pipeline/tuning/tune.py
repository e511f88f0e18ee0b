"""The main entry: a model and labelled validation data in, a calibrated model out."""

from __future__ import annotations

from typing import Any, Literal

from driftcal.calibrators import Calibrator
from driftcal.calibrators.levels import level_weights
from driftcal.data import Source
from driftcal.drift.reference import MIN_SAMPLES, DriftReference
from driftcal.errors import InputError
from driftcal.models import Model, open_model
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import CLEAN, Collector
from driftcal.pipeline.collecting.input_warnings import find_warnings, preprocessing_warning, warn
from driftcal.pipeline.collecting.layer_features import CollectedFeatures, LayerFeatures, check_features
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, perturb, recorded_conditions, tuning_shift
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.collecting.source_inputs import check_classes, labelled_source
from driftcal.pipeline.evaluating.versions import versions
from driftcal.pipeline.tuning.select import Selection, method_calibrator
from driftcal.pipeline.tuning.tune_calibrators import TS_BASELINE, TunedCalibrators, tune_calibrators
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray

#: The methods that an editor offers; any registered name is accepted.
MethodName = Literal[
    "auto", "base", "ts", "ets", "ts-ir", "ir", "irm", "ps", "hb", "pbmc", "vs", "svs", "dirichlet", "beta", "spline", "hts", "pts",
    "dac", "dac-pts", "md-ts", "level-ts", "level-ec", "level-irm",
]  # fmt: skip


def tune(
    model: Any,
    X: Any,
    y: AnyArray = None,
    *,
    method: MethodName | str | Calibrator | Selection = "auto",
    shift: str | Shift | None = "gaussian",
    n_levels: int = 10,
    clean_weight: float | None = None,
    random_state: int = 0,
    features: LayerFeatures | None = None,
    run: Run | None = None,
) -> CalibratedModel:
    """Calibrate `model` in domain and under shift (Tomani et al. 2021, Algorithm 1).

    The validation set is perturbed at levels that step the accuracy evenly down to chance, and calibrators are tuned on the clean
    and the perturbed samples. Plain temperature scaling is always tuned beside.

    Parameters
    ----------
    model
        Anything that :func:`driftcal.open_model` takes. Its options (preprocessing, outputs, class names) are said there:
        ``tune(open_model(net, preprocessing=...), X, y)``.
    X
        Inputs: an array, a data frame, a path, or a source (:func:`driftcal.open_source`), which holds the labels as well.
    y
        One label per input.
    method
        "auto" chooses (see :class:`Selection`); or the short name of a calibrator; or an unfitted calibrator, such as
        ``TemperatureScaling(t_max=5)``; or a ``Selection(...)``.
    shift
        What perturbs the validation set. "gaussian" is noise, as in the paper. None: tune on clean samples only.
    n_levels
        Perturbation levels, the clean one included.
    clean_weight
        The share of the clean samples in all weight, between 0 and 1. None: the paper's 1/`n_levels`; "auto" tries several.
    random_state
        The seed of the perturbation.
    features
        Layers for calibrators that read layer features ("dac", "dac-pts", "md-ts").
    run
        Cache, engine and progress.

    Returns
    -------
    CalibratedModel
        With `predict_proba` for single samples and, where there is a windowed calibrator, `windowed`. `explanation` says in
        plain sentences what was chosen and why; suspicious data are questioned there and as Python warnings.
    """
    calibrator = method_calibrator(method)
    check_features(calibrator, features)
    level_weights(n_levels, clean_weight)
    if shift is None and clean_weight is not None:
        raise InputError(
            f"clean_weight weighs clean samples against perturbed ones; without a shift all are clean, and it is {clean_weight!r}. "
            "Leave it out, or name a shift."
        )
    opened = open_model(model)
    opened.check_columns(X)
    source = labelled_source(X, y, class_names=opened.class_names or ())
    collector = Collector(opened, source, run=run, random_state=random_state)
    check_classes(opened, source)
    accuracy = collector.accuracy(*CLEAN)
    warnings = _warnings(opened, source, accuracy)
    warn(warnings)
    perturbed = perturb(collector, tuning_shift(shift, source), n_levels=n_levels)
    collected = CollectedFeatures()
    if features is not None:
        collected = CollectedFeatures.of(collector, recorded_conditions(perturbed.record, source), features)
    tuned = tune_calibrators(
        calibrator,
        method if isinstance(method, Selection) else Selection(),
        perturbed,
        source.labels,
        clean_weight=clean_weight,
        features=collected,
    )
    opening = f"Validation accuracy {accuracy:.3f} on {len(source)} samples."
    return CalibratedModel(
        model=opened,
        calibrator=tuned.calibrator,
        method=tuned.method,
        tuned_on=tuned.tuned_on,
        windowed_calibrator=tuned.windowed,
        baselines=tuned.baselines,
        perturbation=perturbed.record,
        explanation=" ".join([opening, *warnings, tuned.explanation]).strip(),
        class_names=source.class_names,
        layers=tuple(features.layers) if features and tuned.calibrator.needs_features else (),
        drift_reference=_drift_reference(perturbed, source, tuned),
        metadata={
            "random_state": random_state,
            "clean_weight": tuned.clean_weight,
            "accuracy": accuracy,
            "categorical": list(source.categorical),
            "validation": source.metadata(),
            "versions": versions(),
        },
        model_metadata=opened.metadata(),
    )


def _warnings(model: Model, source: Source, accuracy: float) -> list[str]:
    """What is suspicious about the validation data, as sentences."""
    hint = preprocessing_warning(model, source, accuracy)
    return [*find_warnings(accuracy, source.labels, source.class_names, model.n_classes), *([hint] if hint else [])]


def _drift_reference(perturbed: PerturbedLogits, source: Source, tuned: TunedCalibrators) -> dict[str, Any] | None:
    """What a monitor compares traffic with; None where the calibrator needs more than logits, or samples are too few."""
    if tuned.calibrator.needs_features or len(source.labels) < MIN_SAMPLES:
        return None
    temperature = float(getattr(tuned.baselines.get(TS_BASELINE), "temperature_", 1.0))
    return DriftReference.of(
        list(perturbed.by_level), source.labels, tuned.calibrator, temperature=temperature
    ).to_dict()
