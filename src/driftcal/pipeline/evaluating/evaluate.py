"""Metrics of calibrators on shifted test data, in domain and under shift."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.data import Source
from driftcal.engines.remote_passes import map_logits
from driftcal.errors import InputError
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.all_metrics import DEBIASED_BINS
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.sorted_samples import SortedSamples
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.pipeline.evaluating.results import POOLED, ResultRow, Results, ShiftInfo
from driftcal.pipeline.evaluating.versions import versions
from driftcal.shifts import SUITES, Suite, get_suite
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray, Array, Float64, Labels

#: Called with the names of a candidate and a shift, and each metric, pooled over the levels, in each bootstrap replicate.
OnReplicates: TypeAlias = Callable[[str, str, Mapping[str, Float64]], None]


def evaluate(
    calibrated: CalibratedModel,
    X: Any,
    y: AnyArray = None,
    *,
    suite: str | Suite | None = None,
    candidates: Sequence[Candidate] | None = None,
    window_size: int = WINDOW_SIZE,
    n_bins: int = 15,
    n_resamples: int = 200,
    group: str | None = None,
    random_state: int = 0,
    run: Run | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Results:
    """Metrics of a calibrated model on test data under every shift and level of a suite.

    Beside it stand the uncalibrated model, plain temperature scaling, and the windowed form where there is one.

    Parameters
    ----------
    calibrated
        What :func:`driftcal.tune` returned.
    X, y
        Labelled test data, as `tune` takes them.
    suite
        The shifts to test under. None: "affine" for images, "tabular" for feature matrices.
    candidates
        What to compare instead (:func:`driftcal.compare_methods`). None: the calibrated model and its baselines.
    window_size
        Samples in a window of the windowed form.
    n_bins
        Equal-width bins of the ECE.
    n_resamples
        Bootstrap resamples of the images behind the intervals; 0 for none.
    group
        "class", or "group" for the groups that the source names: metrics of each as well.
    random_state
        The seed of the shifts.
    run
        Cache, engine and progress.
    metadata
        Further plain values to keep with the results, such as a title.

    Returns
    -------
    Results
        They print themselves, save themselves, and become a data frame or a report.
    """
    if not isinstance(calibrated, CalibratedModel):
        raise InputError(
            f"calibrated must be a CalibratedModel; it is a {type(calibrated).__name__}. driftcal.tune(model, X, y) makes one."
        )
    source = calibrated.labelled_source(X, y)
    chosen = suite_for(suite, source)
    compared = list(calibrated.candidates if candidates is None else candidates)
    windowed = calibrated.windowed_candidate(window_size)
    if windowed is not None and windowed.name not in {candidate.name for candidate in compared}:
        compared.append(windowed)
    collector = Collector(
        calibrated.model,
        source,
        run=run,
        random_state=random_state,
        model_fingerprint=calibrated.model_metadata.get("fingerprint"),
    )
    return evaluate_candidates(
        collector,
        compared,
        chosen.shifts,
        suite=chosen.name,
        n_bins=n_bins,
        n_resamples=n_resamples,
        groups=_groups(source, group),
        perturbation=calibrated.perturbation,
        layers=calibrated.layers,
        metadata={
            "random_state": random_state,
            "method": calibrated.method,
            "calibrator": calibrated.name,
            "explanation": calibrated.explanation,
            "model": dict(calibrated.model_metadata) or calibrated.model.metadata(),
            "data": {"validation": dict(calibrated.metadata.get("validation", {})), "test": source.metadata()},
            "class_names": list(calibrated.class_names),
            **({"group": group} if group else {}),
            **(metadata or {}),
        },
    )


def suite_for(suite: str | Suite | None, source: Source) -> Suite:
    """The suite for this kind of inputs: affine shifts of images, drifts of features in the units of the data."""
    features = source.kind == "features"
    chosen = get_suite(("tabular" if features else "affine") if suite is None else suite)
    if chosen.name in SUITES and features != (chosen.name == "tabular"):
        holds, fits = ("features", "tabular") if features else ("images", "affine")
        raise InputError(
            f"a suite must fit the data; {source.name!r} holds {holds}, and the suite is {chosen.name!r}. Take {fits!r}."
        )
    if unbounded := [shift.name for shift in chosen.shifts if shift.levels is None]:
        raise InputError(
            f"every shift of a suite must have levels; {unbounded[0]!r} takes any number. Register one with levels=range(6)."
        )
    return chosen.fit(source.inputs(), categorical=source.categorical) if features else chosen


def evaluate_candidates(
    collector: Collector,
    candidates: Sequence[Candidate],
    shifts: Sequence[Shift],
    *,
    suite: str,
    n_bins: int = 15,
    n_resamples: int = 200,
    groups: Array | None = None,
    perturbation: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    on_replicates: OnReplicates | None = None,
    layers: Sequence[str] = (),
) -> Results:
    """Every candidate on every shift and level, on each shift pooled over its levels, and the same by group.

    Intervals resample images: one image with all its levels and all candidates is one unit. `on_replicates` sees the replicates
    behind the intervals of each shift; they are the same images everywhere, so means and differences have replicates too.
    `layers` are those whose features candidates read.
    """
    labels = collector.labels
    bootstrap = ImageBootstrap(len(labels), n_resamples, n_bins) if n_resamples else None
    parts: list[tuple[str | None, Array]] = [(None, np.arange(len(labels)))]
    if groups is not None:
        names = [str(g) for g in groups.tolist()]
        parts += [(name, np.flatnonzero([n == name for n in names])) for name in dict.fromkeys(sorted(names))]
    rows: list[ResultRow] = []
    collector.gather((shift, level) for shift in shifts for level in shift.levels or (0,))
    for shift in shifts:
        levels = shift.levels or (0,)
        by_level = _scores_by_level(collector, candidates, shift, levels, layers)
        for k, candidate in enumerate(candidates):
            for group, indices in parts:
                scores = [_take(level[k], indices) for level in by_level]
                resample = bootstrap if group is None else None
                rows += _rows(candidate.name, shift.name, levels, scores, n_bins, resample, group, on_replicates)
    return Results(
        suite=suite,
        n_bins=n_bins,
        calibrators=[candidate.info for candidate in candidates],
        shifts=[_shift_info(shift) for shift in shifts],
        rows=rows,
        perturbation=perturbation,
        metadata={**(metadata or {}), "versions": versions()},
    )


def _scores_by_level(
    collector: Collector,
    candidates: Sequence[Candidate],
    shift: Shift,
    levels: Sequence[float],
    layers: Sequence[str],
) -> list[list[SampleScores]]:
    """The scores of each level, of each candidate."""
    options: dict[str, Any] = {"labels": collector.labels, "candidates": list(candidates)}
    conditions = [collector.condition(shift, level) for level in levels]
    if any(candidate.calibrator.needs_features for candidate in candidates):  # features are computed in this process
        return [
            _scores(np.asarray(logits), **options, features=collector.features(shift, level, layers))
            for level, logits in zip(levels, conditions, strict=True)
        ]
    return map_logits(_scores, conditions, options)


def _scores(
    logits: Array, labels: Labels, candidates: Sequence[Candidate], features: Mapping[str, Array] | None = None
) -> list[SampleScores]:
    """The scores of every candidate under one condition."""
    return [SampleScores.of_probabilities(labels, one.predict_proba(logits, features)) for one in candidates]


def _take(scores: SampleScores, indices: Array) -> SampleScores:
    if len(indices) == len(scores):
        return scores
    return SampleScores.of_columns(scores.columns[indices])


def _rows(
    name: str,
    shift: str,
    levels: Iterable[float],
    scores: Sequence[SampleScores],
    n_bins: int,
    bootstrap: ImageBootstrap | None,
    group: str | None,
    on_replicates: OnReplicates | None,
) -> list[ResultRow]:
    pooled = SampleScores.of_columns(np.concatenate([s.columns for s in scores]))
    cases: list[tuple[float | str, SampleScores, Sequence[SampleScores]]] = [
        (level, one, [one]) for level, one in zip(levels, scores, strict=True)
    ]
    cases.append((POOLED, pooled, scores))
    statistics = [Statistics.of_samples(whole, n_bins=n_bins) for _, whole, _ in cases]
    intervals: Sequence[Mapping[str, Sequence[float]]] = [{}] * len(cases)
    if bootstrap is not None:
        replicates = bootstrap.replicates([parts for _, _, parts in cases])
        intervals = [bootstrap.intervals(values, some) for values, some in zip(statistics, replicates, strict=True)]
        if on_replicates is not None:
            on_replicates(name, shift, bootstrap.metrics(replicates[-1]))
    return [
        ResultRow(
            calibrator=name,
            shift=shift,
            level=level,
            n_samples=values.n_samples,
            ece=values.ece,
            null_ece=values.null_ece,
            accuracy=values.accuracy,
            confidence=values.confidence,
            calibration_gap=values.calibration_gap,
            entropy=values.entropy,
            nll=values.nll,
            brier=values.brier,
            mce=values.mce,
            debiased_ece=math.sqrt(SortedSamples.by_confidence(whole).debiased(whole.weights, DEBIASED_BINS)),
            clipped=values.n_clipped,
            bins={
                "weight": values.bin_weight.tolist(),
                "confidence": values.bin_confidence.tolist(),
                "outcome": values.bin_outcome.tolist(),
            },
            intervals=between,
            group=group,
        )
        for (level, whole, _), values, between in zip(cases, statistics, intervals, strict=True)
    ]


def _groups(source: Source, group: str | None) -> Array | None:
    if group is None:
        return None
    if group == "class":
        return np.array([source.class_names[label] for label in source.labels])
    if source.groups is None:
        raise InputError(
            f"group must be 'class' for {source.name}, which names no groups; it is {group!r}. Give the source groups."
        )
    return source.groups


def _shift_info(shift: Shift) -> ShiftInfo:
    levels = [float(level) for level in shift.levels or (0,)]
    label = getattr(shift, "label", None)
    return ShiftInfo(shift.name, levels, [str(label(level)) if label else f"{level:g}" for level in levels])
