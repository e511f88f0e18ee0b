"""Tuning a calibrated model from a model and labelled validation data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.levels import check_clean_weight
from driftcal.errors import InputError
from driftcal.models import open_model
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.conditions import CLEAN
from driftcal.pipeline.collecting.input_warnings import (
    find_warnings,
    impossible_label_warnings,
    preprocessing_warnings,
    warn,
    whole_numbers_warnings,
)
from driftcal.pipeline.collecting.layer_features import CollectedFeatures, LayerFeatures, check_features
from driftcal.pipeline.collecting.perturbation import (
    perturb,
    recorded_conditions,
    tuning_shift,
    with_simulated_shifts,
)
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.collecting.source_inputs import check_classes, labelled_source
from driftcal.pipeline.tuning.candidates import Selection, method_calibrator, uses_simulated_shifts
from driftcal.pipeline.tuning.tune_calibrators import tune_calibrators
from driftcal.pipeline.tuning.tuned_model import tuned_model
from driftcal.shifts.levels.find_levels import check_n_levels
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray

#: The methods that an editor offers; any registered name is accepted.
MethodName = Literal[
    "auto", "base", "ts", "ets", "ts-ir", "ir", "irm", "ps", "hb", "pbmc", "vs", "svs", "dirichlet", "beta", "spline", "hts", "pts",
    "dac", "dac-pts", "md-ts", "window-ts", "level-ts",
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

    The validation set is perturbed at several levels, so that the accuracy falls in equal steps down to chance.
    Calibrators are tuned on the clean and the perturbed samples. Plain temperature scaling is always tuned as a
    baseline.

    Parameters
    ----------
    model
        Anything that :func:`driftcal.open_model` takes. To set preprocessing, outputs or class names, open the model
        first: ``tune(open_model(net, preprocessing=...), X, y)``.
    X
        Inputs: an array, a data frame, a path, or a source (:func:`driftcal.open_source`). A source also holds the
        labels.
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
        The share of the clean samples in all weight, between 0 and 1. None is the paper's 1/`n_levels`; with None,
        method "auto" tries several.
    random_state
        The seed of the perturbation.
    features
        Layers for calibrators that read layer features ("dac", "dac-pts", "md-ts").
    run
        Cache, engine and progress.

    Returns
    -------
    CalibratedModel
        `predict_proba` calibrates single samples; `windowed` follows recent inputs if there is a windowed calibrator.
        `explanation` says in plain sentences what was chosen and why. Suspicious data cause Python warnings, which
        `explanation` repeats.

    >>> import driftcal
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1500, n_informative=4, n_redundant=10, n_classes=3, random_state=0)
    >>> model = GaussianNB().fit(X[:500], y[:500])
    >>> calibrated = driftcal.tune(model, X[500:1000], y[500:1000], method="ts", shift=None)
    >>> round(calibrated.calibrator.temperature_, 1)  # the model is over-confident
    3.8
    >>> calibrated.predict_proba(X[1000:1002]).round(2)
    array([[0.92, 0.02, 0.06],
           [0.38, 0.51, 0.1 ]])
    """
    calibrator = method_calibrator(method)
    check_features(calibrator, features)
    check_n_levels(n_levels)
    if clean_weight is not None:
        check_clean_weight(clean_weight)
    if shift is None and clean_weight is not None:
        raise InputError(
            f"clean_weight weighs clean samples against perturbed ones; without a shift all are clean, and it is {clean_weight!r}. "
            "Leave it out, or name a shift."
        )
    opened_model = open_model(model)
    opened_model.check_columns(X)
    source = labelled_source(X, y, class_names=opened_model.class_names or ())
    collector = Collector(opened_model, source, run=run, random_state=random_state)
    check_classes(opened_model, source)
    accuracy = collector.accuracy(*CLEAN)
    warnings = [
        *find_warnings(accuracy, source.labels, source.class_names, opened_model.n_classes),
        *preprocessing_warnings(opened_model, source, accuracy),
        *whole_numbers_warnings(shift, source),
    ]
    warn(warnings)
    levels_shift = tuning_shift(shift, source)
    with collector.progress("tune", 2 * n_levels * len(source)):
        perturbed = perturb(collector, levels_shift, n_levels=n_levels)
        if uses_simulated_shifts(method):
            perturbed = with_simulated_shifts(perturbed, levels_shift, collector, source)
    clean = perturbed.clean
    if isinstance(clean, np.ndarray):  # logits that workers have stored are not fetched for a warning
        impossible = impossible_label_warnings(clean, source.labels)
        warn(impossible)
        warnings += impossible
    level_features = CollectedFeatures()
    if features is not None:
        level_features = CollectedFeatures.of(collector, recorded_conditions(perturbed.record, source), features)
    with collector.progress("compare calibrators", 0):
        tuned = tune_calibrators(
            calibrator,
            (method if isinstance(method, Selection) else Selection()).for_inputs(source.kind),
            perturbed,
            source.labels,
            clean_weight=clean_weight,
            features=level_features,
        )
    return tuned_model(
        opened_model,
        source,
        perturbed,
        source.labels,
        tuned,
        accuracy=accuracy,
        warnings=warnings,
        layers=features.layers if features else (),
        random_state=random_state,
    )
