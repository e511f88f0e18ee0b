"""Several methods for one comparison, tuned on clean samples and on the levels of a calibrated model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS, calibrator_class, make_calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.data import Source
from driftcal.errors import InputError
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, recorded_conditions
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.collecting.simulated import SIMULATED_SHIFTS
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES
from driftcal.pipeline.tuning.fit import fit_on_clean, fit_on_levels
from driftcal.types import AnyArray


def compare_methods(
    calibrated: CalibratedModel,
    X: Any,
    y: AnyArray = None,
    *,
    methods: Sequence[str] = PAPER_CALIBRATORS,
    window_size: int = WINDOW_SIZE,
    run: Run | None = None,
) -> list[Candidate]:
    """Candidates for `evaluate`: those of `calibrated`, and every method tuned on clean samples and on all levels (-p).

    Parameters
    ----------
    calibrated
        What :func:`driftcal.tune` returned. Its levels and its clean weight are used.
    X, y
        The validation data that it was tuned on.
    methods
        Short names. Methods that read layer features are refused: `tune` collects features.
    window_size
        Samples in a window of windowed methods.
    run
        Cache, engine and progress.

    Returns
    -------
    list of Candidate
        Pass them as ``driftcal.evaluate(..., candidates=...)``.
    """
    for method in methods:
        if calibrator_class(method).needs_features and method != calibrated.method:
            raise InputError(
                f"method {method!r} reads layer features, which compare_methods does not collect. Leave it out, or tune it by itself."
            )
    source = validation_source(calibrated, X, y)
    collector = Collector(
        calibrated.model,
        source,
        run=run,
        random_state=calibrated.metadata["random_state"],
        model_fingerprint=calibrated.model_metadata.get("fingerprint"),
    )
    conditions = recorded_conditions(calibrated.perturbation, source)
    collector.gather(conditions)
    by_level = [collector.condition(shift, level) for shift, level in conditions]
    perturbed = PerturbedLogits(calibrated.perturbation, by_level)
    tuned_before = {candidate.name: candidate for candidate in calibrated.candidates}
    candidates: dict[str, Candidate] = {name: tuned_before[name] for name in ("base", "ts") if name in tuned_before}
    for method in dict.fromkeys(methods):
        if method == "base" or CALIBRATORS[method].needs_features:
            continue
        for candidate in _fit_both(method, perturbed, source, calibrated, window_size):
            candidates.setdefault(candidate.name, tuned_before.get(candidate.name, candidate))
    for name, candidate in tuned_before.items():
        candidates.setdefault(name, candidate)
    return list(candidates.values())


def _fit_both(
    method: str, perturbed: PerturbedLogits, source: Source, calibrated: CalibratedModel, window_size: int
) -> list[Candidate]:
    """A method tuned on clean samples and on perturbed ones; a windowed method on perturbed ones only."""
    unfitted, windowed = make_calibrator(method), CALIBRATORS[method].needs_window
    candidates = []
    if not windowed:
        clean = fit_on_clean(unfitted, perturbed, source.labels)
        candidates.append(Candidate(method, method, clean.calibrator, CLEAN_SAMPLES, clean.warnings))
    if perturbed.record is not None:
        weight = calibrated.metadata.get("clean_weight")
        if windowed or calibrated.tuned_on == SIMULATED_SHIFTS:  # that weight is not for levels
            weight = None
        tuned = fit_on_levels(unfitted, perturbed, source.labels, clean_weight=weight)
        name, size = (method, window_size) if windowed else (f"{method}-p", None)
        shift = str(perturbed.record["shift"])
        candidates.append(Candidate(name, method, tuned.calibrator, shift, tuned.warnings, size))
    return candidates


def validation_source(calibrated: CalibratedModel, X: Any, y: AnyArray = None) -> Source:
    """The labelled samples that `calibrated` was tuned on; other data are refused."""
    source = calibrated.labelled_source(X, y)
    recorded: dict[str, Any] = calibrated.metadata.get("validation", {})
    if recorded.get("fingerprint") != source.fingerprint:
        n_samples = recorded.get("samples", recorded.get("rows"))
        raise InputError(
            f"the validation data must be those the calibrator was tuned on: {recorded.get('name')!r} with {n_samples} samples; "
            f"{source.name!r} has other samples or labels. Methods tuned on different data cannot be compared: give the same data, or "
            "tune again."
        )
    return source
