"""Metrics of calibrators on test data, in domain and under shift."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.data import Source
from driftcal.decisions import Threshold
from driftcal.engines.remote_passes import map_logits
from driftcal.errors import InputError
from driftcal.metrics.sample_scores import SampleScores
from driftcal.models.recorded_scores import ScoresModel
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.conditions import table_levels
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.image_bootstrap import ImageBootstrap
from driftcal.pipeline.evaluating.measure_rows import cases_of, row_of
from driftcal.pipeline.evaluating.results import IN_DOMAIN, ResultRow, Results, ShiftInfo
from driftcal.pipeline.evaluating.versions import versions
from driftcal.shifts import SUITES, Suite, get_suite
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray, Array, Float64, Labels

#: Called with the names of a candidate and a shift, and each metric, pooled over the levels, in each replicate.
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
    """Metrics of a calibrated model on test data under every shift and level of a suite; scores only in domain.

    The uncalibrated model, plain temperature scaling and the windowed form, if there is one, are evaluated too.

    Parameters
    ----------
    calibrated
        What :func:`driftcal.tune` returned.
    X, y
        Labelled test data, as `tune` takes them.
    suite
        The shifts to test under. None: "affine" for images, "tabular" for features, "text" for texts, "series" for time
        series; dictionaries of arrays are evaluated in domain only. Recorded scores (:func:`driftcal.fit`) cannot be shifted: leave it out.
    candidates
        What to compare (:func:`driftcal.compare_methods` makes such a list). None: the model and its baselines.
    window_size
        Samples in a window of the windowed form.
    n_bins
        Equal-width bins of the ECE.
    n_resamples
        Bootstrap resamples of the images behind the intervals; 0 for none.
    group
        "class" adds metrics of each class, "group" those of each group that the source names.
    random_state
        The seed of the shifts.
    run
        Cache, engine and progress.
    metadata
        Further plain values to keep with the results, such as a title.

    Returns
    -------
    Results
        One row per candidate, shift and level.

    >>> import driftcal
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1500, n_informative=4, n_redundant=10, n_classes=3, random_state=0)
    >>> model = GaussianNB().fit(X[:500], y[:500])
    >>> calibrated = driftcal.tune(model, X[500:1000], y[500:1000], method="ts", shift=None)
    >>> results = driftcal.evaluate(calibrated, X[1000:], y[1000:], n_resamples=0)
    >>> for line in results.summary():
    ...     print(f"{line.calibrator:4} ECE {line.in_domain_ece:.2f} in domain, {line.mean_ece:.2f} under shift")
    base ECE 0.18 in domain, 0.24 under shift
    ts   ECE 0.06 in domain, 0.10 under shift
    """
    if not isinstance(calibrated, CalibratedModel):
        raise InputError(
            f"calibrated must be a CalibratedModel; it is a {type(calibrated).__name__}. driftcal.tune(model, X, y) makes one."
        )
    source = calibrated.labelled_source(X, y)
    fitted_suite = _in_domain_suite(suite) if isinstance(calibrated.model, ScoresModel) else suite_for(suite, source)
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
    with collector.progress("evaluate", len(fitted_suite) * len(source)):
        return evaluate_candidates(
            collector,
            compared,
            fitted_suite.shifts,
            suite=fitted_suite.name,
            n_bins=n_bins,
            n_resamples=n_resamples,
            groups=_groups(source, group),
            perturbation=calibrated.perturbation,
            layers=calibrated.layers,
            threshold=calibrated.decision_threshold,
            metadata={
                **(
                    {}
                    if calibrated.decision_threshold is None
                    else {"threshold": calibrated.decision_threshold.to_dict()}
                ),
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


@dataclass(frozen=True)
class _NoShift:
    """The data as they are, as a shift with level 0 only."""

    name: str = IN_DOMAIN
    levels: tuple[int, ...] | None = (0,)

    def __call__(self, inputs: Any, level: Any, *, seed: int = 0, indices: AnyArray | None = None) -> Any:
        return np.array(inputs)


#: Kind of inputs -> the suite that fits them.
_SUITE_FOR = {"images": "affine", "features": "tabular", "text": "text", "series": "series"}
_IN_DOMAIN = Suite(IN_DOMAIN, "the data as they are", (_NoShift(),))


def _in_domain_suite(suite: str | Suite | None) -> Suite:
    if suite is not None:
        raise InputError(
            f"suite must be left out for recorded scores, which cannot be shifted; it is {str(suite)!r}. Evaluate the model itself: "
            "CalibratedModel.load(path, model)."
        )
    return _IN_DOMAIN


def suite_for(suite: str | Suite | None, source: Source) -> Suite:
    """The suite for this kind of inputs: affine shifts for images, drifts in the units of the data for features and series.

    Dictionaries of arrays have no shifts but those that the user registers.
    """
    fits = _SUITE_FOR.get(source.kind)
    if suite is None and fits is None:
        return _IN_DOMAIN
    chosen = get_suite(fits or "" if suite is None else suite)
    kind = next((kind for kind, name in _SUITE_FOR.items() if name == chosen.name), "images")
    if chosen.name in SUITES and kind != source.kind:
        way_out = (
            "Make one of registered shifts: driftcal.shifts.Suite('mine', 'what it is', (shift, ...))"
            if fits is None
            else f"Take {fits!r}"
        )
        raise InputError(
            f"a suite must fit the data; {source.name!r} holds {source.kind}, and the suite is {chosen.name!r}. {way_out}."
        )
    if without_levels := [shift.name for shift in chosen.shifts if shift.levels is None]:
        raise InputError(
            f"every shift of a suite must have levels; {without_levels[0]!r} takes any number. Register one with levels=range(6)."
        )
    return (
        chosen.fit(source.inputs(), categorical=source.categorical) if source.kind in ("features", "series") else chosen
    )


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
    threshold: Threshold | None = None,
) -> Results:
    """Metrics of every candidate on every shift: at each level, and pooled over the levels; for each group as well.

    Intervals resample images: one image with all its levels and all candidates is one unit. `on_replicates` gets the
    replicates behind the intervals of each shift. All of them resample the same images, so means and differences have
    replicates too. `layers` are those whose features the candidates need. `threshold` is applied to every candidate.
    """
    labels = collector.labels
    bootstrap = ImageBootstrap(len(labels), n_resamples, n_bins) if n_resamples else None
    indices_by_group: dict[str | None, Array] = {None: np.arange(len(labels))}
    if groups is not None:
        names = [str(name) for name in groups.tolist()]
        indices_by_group |= {group: np.flatnonzero([name == group for name in names]) for group in sorted(set(names))}
    rows: list[ResultRow] = []
    collector.gather((shift, level) for shift in shifts for level in table_levels(shift))
    for shift in shifts:
        levels = table_levels(shift)
        by_level = _scores_by_level(collector, candidates, shift, levels, layers)
        for k, candidate in enumerate(candidates):
            for group, indices in indices_by_group.items():
                cases = cases_of(levels, [_take(level_scores[k], indices) for level_scores in by_level], n_bins)
                intervals: Sequence[Mapping[str, Sequence[float]]] = [{}] * len(cases)
                if bootstrap is not None and group is None:
                    replicates = bootstrap.replicates([case.parts for case in cases])
                    intervals = [
                        bootstrap.intervals(case.statistics, of_case)
                        for case, of_case in zip(cases, replicates, strict=True)
                    ]
                    if on_replicates is not None:  # the pooled case is the last one
                        on_replicates(candidate.name, shift.name, bootstrap.metrics(replicates[-1]))
                rows += [
                    row_of(
                        case,
                        calibrator=candidate.name,
                        shift=shift.name,
                        group=group,
                        intervals=case_intervals,
                        threshold=threshold,
                    )
                    for case, case_intervals in zip(cases, intervals, strict=True)
                ]
    return Results(
        suite=suite,
        n_bins=n_bins,
        calibrators=[candidate.info for candidate in candidates],
        shifts=[_shift_info(shift) for shift in shifts],
        rows=rows,
        perturbation=perturbation,
        metadata={
            **(metadata or {}),
            "versions": versions(collector.model.framework, tables=collector.source.is_table),
        },
    )


def _scores_by_level(
    collector: Collector,
    candidates: Sequence[Candidate],
    shift: Shift,
    levels: Sequence[float],
    layers: Sequence[str],
) -> list[list[SampleScores]]:
    """For each level, the scores of every candidate."""
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
    return [SampleScores.of_probabilities(labels, c.predict_proba(logits, features)) for c in candidates]


def _take(scores: SampleScores, indices: Array) -> SampleScores:
    if len(indices) == len(scores):
        return scores
    return SampleScores.of_columns(scores.columns[indices])


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
    levels = [float(level) for level in table_levels(shift)]
    label = getattr(shift, "label", None)
    return ShiftInfo(shift.name, levels, [str(label(level)) if label else f"{level:g}" for level in levels])
