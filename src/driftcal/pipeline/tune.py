"""The front door: a model and labelled validation data in, a model with honest confidence out."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from driftcal.cache import LogitCache
from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.calibrators.levels import level_weights
from driftcal.calibrators.scaling.temperature import clean_temperature
from driftcal.data import Source
from driftcal.drift.reference import MIN_SAMPLES, DriftReference
from driftcal.engines import Engine
from driftcal.engines.remote_passes import stack
from driftcal.errors import InputError, NoFiniteOptimum, UnknownName
from driftcal.models import Model, open_model
from driftcal.pipeline.calibrated_model import CalibratedModel, as_inputs, as_source, as_store
from driftcal.pipeline.collect import Collector, OnProgress
from driftcal.pipeline.evaluate import versions
from driftcal.pipeline.layer_features import CollectedFeatures
from driftcal.pipeline.select import Choice, choose
from driftcal.shifts import TabularNoise, get_shift
from driftcal.shifts.levels.find_levels import find_levels
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray, Array, Labels, Logits


def tune(
    model: Any,
    x_val: AnyArray,
    y_val: AnyArray = None,
    *,
    method: str = "auto",
    shift: str | Shift | None = "gaussian",
    levels: int = 10,
    seed: int = 0,
    t_max: float | None = None,
    clean_weight: float | None = None,
    solver: str = "curve",
    keep_accuracy: bool = False,
    focus: str = "both",
    adaptive: bool = True,
    categorical: Sequence[int] = (),
    class_names: Sequence[str] | None = None,
    layers: Sequence[str] = (),
    reference: AnyArray = None,
    store: LogitCache | str | os.PathLike[str] | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
    **model_options: Any,
) -> CalibratedModel:
    """Calibrate `model` so that its confidence stays honest while the data drifts (Tomani et al. 2021, Algorithm 1).

    `model` is anything :func:`driftcal.open_model` takes, `x_val` inputs with labels `y_val`, or a source alone. The
    validation set is perturbed by `shift` at `levels` levels that step the accuracy evenly down to chance, and `method`
    ("ts", "ets", "ir", "irm", …) is tuned on all of them; ``shift=None`` tunes on the clean rows only. The clean
    level has the share `clean_weight` of all weight: 0.5 to 0.9 buy calibration in domain with some under drift, None is
    the paper's 1/`levels`. ``method="auto"``
    compares candidates by cross-validation on these rows: only such that keep the accuracy if `keep_accuracy`, and with
    `focus` on "in-domain", "drift" or "both", without those that follow windows of unlabelled rows unless `adaptive`.
    The methods "dac", "dac-pts" and "md-ts" look inside the model, at its `layers` (names out of ``open_model(model).layers``), and the first two
    compare what they see there with the training inputs in `reference`; "auto" tries them too where both are given, without
    a reference only the last.
    For feature matrices noise scales are learnt per column; `categorical` columns are resampled. With an `engine` (``driftcal.open_engine``) the work is done on its workers, and with a `store`
    as well, logits stay there: the same bits as here.
    """
    if method != "auto" and method not in CALIBRATORS:
        raise UnknownName.of("method", method, [*CALIBRATORS, "auto"])
    _check_layers(method, layers, reference)
    level_weights(levels, clean_weight)
    if shift is None and clean_weight is not None:
        raise InputError(
            f"clean_weight sets clean rows against perturbed ones; without a shift all rows are clean, and it is {clean_weight!r}. "
            "Leave it out, or name a shift."
        )
    opened = open_model(model, **model_options)
    opened.check_columns(x_val)
    source = as_source(x_val, y_val, model=opened, class_names=class_names).labelled()
    collector = Collector(opened, source, store=as_store(store), seed=seed, on_progress=on_progress, engine=engine)
    _check_classes(opened, source)
    noise = None if shift is None else shift_for(shift, source, categorical)
    ladder, tuning = climb(collector, noise, levels=levels, solver=solver)
    clean = collector.part(get_shift("gaussian"), 0)
    seen = CollectedFeatures.of(collector, noise, ladder, layers) if layers else CollectedFeatures()
    if reference is not None:
        seen = seen.compared_with(
            collector, reference.inputs() if isinstance(reference, Source) else as_inputs(reference)
        )
    choice = (
        choose(
            tuning,
            source.labels,
            keep_accuracy=keep_accuracy,
            focus=focus,
            t_max=t_max,
            clean_weight=clean_weight,
            adaptive=adaptive,
            seen=seen,
        )
        if method == "auto"
        else None
    )
    chosen = method if choice is None else choice.method
    calibrator, words = fit_on_levels(chosen, tuning, source.labels, t_max, clean_weight, **seen.beside(chosen))
    standard, _ = fit_or_identity(chosen, *stack([clean], source.labels), t_max, **seen.clean.beside(chosen))
    return CalibratedModel(
        model=opened,
        calibrator=calibrator,
        method=chosen if not words else "base",
        standard=standard,
        ladder=ladder,
        explanation=_explain(choice, words, ladder),
        class_names=source.class_names,
        about={
            "seed": seed,
            "clean_weight": clean_weight,
            "categorical": [int(column) for column in categorical],
            "validation": source.metadata(),
            "versions": versions(),
        },
        drift_reference=None
        if calibrator.needs_features or len(source.labels) < MIN_SAMPLES
        else DriftReference.of(
            tuning, source.labels, calibrator, temperature=clean_temperature(*stack([clean], source.labels))
        ).to_dict(),
        layers=tuple(layers) if calibrator.needs_features else (),
    )


def climb(
    collector: Collector, noise: Shift | None, *, levels: int = 10, solver: str = "curve"
) -> tuple[Mapping[str, Any] | None, list[Any]]:
    """Algorithm 1's ladder on a collector's source as plain values, and the logits of its levels, the clean one first."""
    if noise is None:
        return None, [collector.part(get_shift("gaussian"), 0)]

    def answers(level: float, rows: Array | None) -> Logits:
        # the clean logits are needed again; of the others the search itself keeps those it will use
        return collector.logits(noise, level, keep=level == 0) if rows is None else collector.some(noise, level, rows)

    if noise.levels is not None:
        return _table_ladder(collector, noise)
    if collector.spread:  # only accuracies come here; the logits stay where they are
        ladder = find_levels(
            lambda level, _: collector.accuracy(noise, level), n_classes=collector.model.n_classes,
            n_samples=len(collector.labels), n_levels=levels, solver=solver,
        )  # fmt: skip
    else:
        ladder = find_levels(answers, collector.labels, n_levels=levels, solver=solver)
    record = {
        "shift": noise.name,
        "solver": ladder.solver,
        "passes": ladder.passes,
        "levels": [asdict(level) for level in ladder.levels],
        "notes": list(ladder.notes),
    }
    kept = [collector.part(noise, level) for level in ladder.epsilons] if collector.spread else ladder.logits
    return record, list(kept)


def _table_ladder(collector: Collector, noise: Shift) -> tuple[Mapping[str, Any], list[Any]]:
    """A shift whose levels are given, such as the -H mixture: they are the ladder, there is nothing to search."""
    n = len(collector.labels)
    collector.gather((noise, level) for level in noise.levels or (0,))
    logits = [collector.part(noise, level) for level in noise.levels or (0,)]
    accuracy = [collector.accuracy(noise, level) for level in noise.levels or (0,)]
    levels = [
        {"epsilon": float(e), "target": a, "accuracy": a, "standard_error": math.sqrt(a * (1 - a) / n), "passes": 1.0}
        for e, a in zip(noise.levels or (0,), accuracy, strict=True)
    ]
    return {"shift": noise.name, "solver": "table", "passes": float(len(levels)), "levels": levels, "notes": []}, logits


def fit_on_levels(
    method: str,
    parts: Sequence[Any],
    labels: Labels,
    t_max: float | None,
    clean_weight: float | None = None,
    **beside: Any,
) -> tuple[Calibrator, str]:
    """The method fitted on all levels of a ladder (-P), the clean one first, or the model as it is, as `fit_or_identity`."""
    weights = level_weights(len(parts), clean_weight)
    logits, answers = stack(parts, labels, weights=weights)
    by_level = np.repeat(np.arange(len(parts)), len(labels))
    row_weights = None if weights is None or answers is None else np.repeat(weights, len(labels))
    return fit_or_identity(method, logits, answers, t_max, by_level, row_weights, **beside)


def fit_or_identity(
    method: str,
    logits: AnyArray,
    labels: Labels | None,
    t_max: float | None,
    levels: Array | None = None,
    sample_weight: Array | None = None,
    **beside: Any,
) -> tuple[Calibrator, str]:
    """The fitted method, or the model as it is where no finite optimum exists, and the words for that.

    `beside` are the features, for a method that looks at them.
    """
    takes_cap = "t_max" in make_calibrator(method).get_params()
    calibrator = make_calibrator(method, **({"t_max": t_max} if takes_cap and t_max is not None else {}))
    try:
        return calibrator.fit(logits, labels, levels=levels, sample_weight=sample_weight, **beside), ""
    except NoFiniteOptimum as reason:
        return make_calibrator("base").fit(
            logits, labels
        ), f"{method} could not be tuned: {reason} The model is kept as it is."


def shift_for(shift: str | Shift, source: Source, categorical: Sequence[int] = ()) -> Shift:
    """The tuning shift for this kind of inputs: noise on a feature matrix is scaled per column."""
    features = source.kind == "features"
    chosen = get_shift("tabular_noise" if shift == "gaussian" and features else shift)
    if isinstance(chosen, TabularNoise) and chosen.scale is None:
        return chosen.fit(source.inputs(), categorical=categorical)
    return chosen


def _check_layers(method: str, layers: Sequence[str], reference: AnyArray) -> None:
    kind = CALIBRATORS.get(method)
    auto = kind is None
    if kind is not None and not kind.needs_features:
        if layers or reference is not None:
            inside = ", ".join(name for name, known in CALIBRATORS.items() if known.needs_features)
            raise InputError(
                f"layers and reference are for methods that look inside the model, {inside}; the method is {method!r}. "
                "Leave them out, or name another method."
            )
    elif isinstance(layers, str) or (not layers and (not auto or reference is not None)):
        what = "compares the reference with what it sees" if auto else "looks"
        raise InputError(
            f"method {method!r} {what} inside the model and needs a list of layers; layers is {layers!r}. "
            "Pass layers=[...], some of driftcal.open_model(model).layers."
        )
    elif kind is not None and (reference is None) == kind.needs_reference:
        raise InputError(
            f"method {method!r} compares features with those of training inputs; there are none. Pass reference=inputs, a few "
            "thousand of them."
            if kind.needs_reference
            else f"method {method!r} compares nothing with training inputs; reference was given. Leave it out."
        )


def _check_classes(model: Model, source: Source) -> None:
    if source.has_class_names and source.n_classes != model.n_classes:
        raise InputError(
            f"the data must name all {model.n_classes} classes of the model, so that each is known by its place; {source.name} names "
            f"{source.n_classes}: {', '.join(source.class_names[:5])} …. Give class_names=[...] (--classes) in the order of the outputs."
        )
    if source.labels.max() >= model.n_classes:
        raise InputError(
            f"labels must be 0..{model.n_classes - 1} for a model with {model.n_classes} outputs; {source.name} holds "
            f"{source.labels.max()}. Do the model and the data belong together?"
        )


def _explain(choice: Choice | None, words: str, ladder: Mapping[str, Any] | None) -> str:
    notes = [] if ladder is None else [f"{note[0].upper()}{note[1:]}." for note in ladder["notes"]]
    return " ".join(part for part in (choice.explanation if choice else "", words, *notes) if part)
