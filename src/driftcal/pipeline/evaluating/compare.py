"""Several methods side by side: each tuned on the clean validation samples and on the levels of a calibrated model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS, make_calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.data import Source
from driftcal.errors import InputError, UnknownName
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.perturbation import PerturbedLogits, recorded_conditions
from driftcal.pipeline.collecting.run import Run
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
    """The candidates of `calibrated`, and every method twice: tuned on clean samples, and (``-p``) on the same levels.

    Parameters
    ----------
    calibrated
        What :func:`driftcal.tune` returned. Its levels and its clean weight are used; levels are not searched again.
    X, y
        The validation data that it was tuned on.
    methods
        Short names. Methods that read layer features are left to `tune`.
    window_size
        Samples in a window of windowed methods.
    run
        Cache, engine and progress.

    Returns
    -------
    list of Candidate
        What ``driftcal.evaluate(..., candidates=...)`` compares.
    """
    for method in methods:
        if method not in CALIBRATORS:
            raise UnknownName.of("method", method, CALIBRATORS)
        if CALIBRATORS[method].needs_features and method != calibrated.method:
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
    own = {candidate.name: candidate for candidate in calibrated.candidates}
    found = {"base": own["base"], **({"ts": own["ts"]} if "ts" in own else {})}
    for method in dict.fromkeys(methods):
        if method == "base" or CALIBRATORS[method].needs_features:
            continue
        for candidate in _both(method, perturbed, source, calibrated, window_size):
            found.setdefault(candidate.name, own.get(candidate.name, candidate))
    return list((found | {name: candidate for name, candidate in own.items() if name not in found}).values())


def _both(
    method: str, perturbed: PerturbedLogits, source: Source, calibrated: CalibratedModel, window_size: int
) -> list[Candidate]:
    """A method tuned on clean samples and on perturbed ones; a windowed one on perturbed ones only."""
    unfitted, windowed = make_calibrator(method), CALIBRATORS[method].needs_window
    listed = []
    if not windowed:
        clean = fit_on_clean(unfitted, perturbed, source.labels)
        listed.append(Candidate(method, method, clean.calibrator, CLEAN_SAMPLES, _listed(clean.warning)))
    if perturbed.record is not None:
        weight = None if windowed else calibrated.metadata.get("clean_weight")
        tuned = fit_on_levels(unfitted, perturbed, source.labels, clean_weight=weight)
        name, size = (method, window_size) if windowed else (f"{method}-p", None)
        shift = str(perturbed.record["shift"])
        listed.append(Candidate(name, method, tuned.calibrator, shift, _listed(tuned.warning), size))
    return listed


def _listed(warning: str) -> list[str]:
    return [warning] if warning else []


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
