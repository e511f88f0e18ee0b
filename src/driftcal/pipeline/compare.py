"""Several methods side by side: each tuned on the clean validation rows and on the levels that Algorithm 1 found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.cache import LogitCache
from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS
from driftcal.data import Source
from driftcal.engines import Engine
from driftcal.engines.remote_passes import stack
from driftcal.errors import InputError, UnknownName
from driftcal.pipeline.calibrated_model import CalibratedModel, as_source, as_store
from driftcal.pipeline.collect import Collector, OnProgress
from driftcal.pipeline.evaluate import Candidate
from driftcal.pipeline.results import CLEAN_SAMPLES
from driftcal.pipeline.tune import fit_on_levels, fit_or_identity, shift_for
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray


def compare_methods(
    tuned: CalibratedModel,
    x_val: AnyArray,
    y_val: AnyArray = None,
    *,
    methods: Sequence[str] = PAPER_CALIBRATORS,
    t_max: float | None = None,
    store: LogitCache | str | None = None,
    on_progress: OnProgress | None = None,
    engine: Engine | None = None,
) -> list[Candidate]:
    """The model as it is, then every method twice: tuned on clean rows, and (``-p``) on the levels `tuned` was tuned on.

    Takes the validation data of `tuned` and returns what ``driftcal.evaluate(..., candidates=...)`` compares. Levels are
    read from `tuned`, not searched again, and so is the weight of the clean one. The calibrator of `tuned` itself is always among them.
    """
    for method in methods:
        if method not in CALIBRATORS:
            raise UnknownName.of("method", method, CALIBRATORS)
        if CALIBRATORS[method].needs_features and method != tuned.method:
            raise InputError(
                f"method {method!r} looks inside the model, which compare_methods does not. Leave it out, or tune it by itself."
            )
    source = validation_of(tuned, as_source(x_val, y_val, class_names=tuned.class_names or None))
    collector = Collector(
        tuned.model, source, store=as_store(store), seed=tuned.about["seed"], on_progress=on_progress, engine=engine
    )
    conditions = ladder_conditions(tuned, source)
    collector.gather(conditions)
    parts = [collector.part(shift, level) for shift, level in conditions]
    clean = stack(parts[:1], source.labels)
    own = {candidate.name: candidate for candidate in tuned.candidates}
    found = {"base": own["base"]}
    for method in dict.fromkeys([*methods, tuned.method]):
        if method == "base":
            continue
        if CALIBRATORS[method].needs_features:  # tuned where its features were; here are logits
            found |= {name: candidate for name, candidate in own.items() if candidate.method == method}
            continue
        calibrator, words = fit_or_identity(method, *clean, t_max)
        found[method] = Candidate(method, method, calibrator, CLEAN_SAMPLES, [words] if words else [])
        if tuned.ladder is not None:
            name = f"{method}-p"
            calibrator, words = fit_on_levels(method, parts, source.labels, t_max, tuned.about.get("clean_weight"))
            on = str(tuned.ladder["shift"])
            found[name] = own.get(name) or Candidate(name, method, calibrator, on, [words] if words else [])
    return list(found.values())


def validation_of(tuned: CalibratedModel, source: Source) -> Source:
    """The labelled rows of `source`, if they are those that `tuned` was tuned on."""
    labelled = source.with_classes(tuned.class_names).labelled()
    recorded: dict[str, Any] = tuned.about.get("validation", {})
    if recorded.get("fingerprint") != labelled.fingerprint:
        raise InputError(
            f"the validation data must be those the calibrator was tuned on: {recorded.get('name')!r} with "
            f"{recorded.get('rows')} rows; {source.name!r} has other rows or labels. Methods tuned on different data "
            "cannot be compared: give the same data, or tune again."
        )
    return labelled


def ladder_conditions(tuned: CalibratedModel, source: Source) -> list[tuple[Shift, float]]:
    """The shift and level of each rung `tuned` was tuned on, the clean one first."""
    if tuned.ladder is None:
        return [(shift_for("gaussian", source), 0.0)]
    shift = shift_for(str(tuned.ladder["shift"]), source, tuned.about.get("categorical", ()))
    return [(shift, float(level["epsilon"])) for level in tuned.ladder["levels"]]
