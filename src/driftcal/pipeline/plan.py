"""Estimates of what tuning or an evaluation will compute, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from driftcal.data import Source
from driftcal.io.paths import as_path
from driftcal.models import Model
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.conditions import CLEAN, Condition, table_levels
from driftcal.pipeline.collecting.layer_features import LayerFeatures
from driftcal.pipeline.collecting.perturbation import recorded_conditions, tuning_shift
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.evaluating.evaluate import suite_for
from driftcal.shifts import Suite
from driftcal.shifts.shift import Shift

#: Solver -> the most passes per level of a search. The last level takes about as long as two others.
MAX_PASSES_PER_LEVEL = {"curve": 8.0, "nelder-mead": 32.0}


@dataclass(frozen=True)
class Part:
    """One data set of a plan: how many passes over its samples the model still has to make."""

    data: str
    n_samples: int
    n_conditions: int
    passes: float


@dataclass(frozen=True)
class Plan:
    """What a run would compute now. `seconds` is estimated from one batch; cached logits take no time.

    `passes` is exact if `at_most` is None. A search for levels needs between `passes` and `at_most` passes, depending
    on how good its guesses are.
    """

    parts: Sequence[Part]
    seconds: float
    at_most: float | None = None

    @property
    def passes(self) -> float:
        """Model passes, each over all samples of its data set."""
        return sum(part.passes for part in self.parts)

    @property
    def n_inputs(self) -> int:
        """How many inputs the model will run on."""
        return sum(round(part.passes * part.n_samples) for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "passes": self.passes,
            "at_most": self.at_most,
            "inputs": self.n_inputs,
            "seconds": round(self.seconds, 1),
            "parts": [vars(part) for part in self.parts],
        }


def plan_tuning(
    model: Model,
    validation: Source,
    *,
    shift: str | Shift | None = "gaussian",
    n_levels: int = 10,
    random_state: int = 0,
    features: LayerFeatures | None = None,
    solver: str = "curve",
    run: Run | None = None,
    timed: bool = True,
    block_size: int | None = None,
) -> Plan:
    """The fewest and the most passes of `tune`; with ``timed=False`` the model is not run and `seconds` is 0."""
    source = validation.labelled()
    collector = Collector(model, source, run=_existing_cache(run), random_state=random_state, block_size=block_size)
    fitted_shift = tuning_shift(shift, source)
    searched = fitted_shift if fitted_shift is not None and fitted_shift.levels is None else None
    conditions: list[Condition] = [CLEAN]
    if fitted_shift is not None:
        conditions = [(fitted_shift, float(level)) for level in table_levels(fitted_shift)]
    n_searched = 0 if searched is None else max(0, n_levels - 1 - _n_cached_levels(collector, searched))
    passes = collector.missing(conditions) + n_searched
    parts = [Part(source.name, len(source), len(conditions) + n_searched, passes)]
    if features is not None:
        parts += _feature_parts(collector, features, conditions, n_levels, searched)
    each = seconds_per_input(collector, [conditions[-1]]) if timed else 0.0
    seconds = sum(part.passes * part.n_samples * each for part in parts)
    at_most = None
    if searched is not None:
        at_most = 1.0 + MAX_PASSES_PER_LEVEL[solver] * n_levels + sum(part.passes for part in parts[1:])
    return Plan(parts, seconds, at_most)


def plan_evaluation(
    calibrated: CalibratedModel,
    test: Source,
    *,
    suite: str | Suite | None = None,
    validation: Source | None = None,
    random_state: int = 0,
    run: Run | None = None,
    timed: bool = True,
) -> Plan:
    """The exact passes of `evaluate`; with validation data also those of `compare_methods`."""
    cached = _existing_cache(run)
    fingerprint = calibrated.model_metadata.get("fingerprint")
    parts: list[Part] = []
    seconds = 0.0

    def add(source: Source, conditions: Sequence[Condition], seed: int) -> None:
        nonlocal seconds
        collector = Collector(calibrated.model, source, run=cached, random_state=seed, model_fingerprint=fingerprint)
        passes = collector.missing(conditions)
        n_distinct = len({collector.key(shift, level).digest for shift, level in conditions})
        parts.append(Part(source.name, len(source), n_distinct, passes))
        seconds += passes * len(source) * seconds_per_input(collector, conditions) if passes and timed else 0.0

    if validation is not None:
        conditions = recorded_conditions(calibrated.perturbation, validation)
        add(validation, conditions, int(calibrated.metadata["random_state"]))
    add(test, [(shift, float(level)) for shift, level in suite_for(suite, test)], random_state)
    return Plan(parts, seconds)


def _feature_parts(
    collector: Collector,
    features: LayerFeatures,
    conditions: Sequence[Condition],
    n_levels: int,
    searched: Shift | None,
) -> list[Part]:
    """The passes that collect layer features: over every level, and once over the training inputs.

    `searched` is the shift whose `n_levels` levels are not known yet; None if `conditions` are all.
    """
    cache, layers = collector.cache, features.layers
    n_conditions = len(conditions) if searched is None else n_levels
    n_cached = sum(
        cache is not None and collector.features_key(*condition, layers) in cache for condition in conditions
    )
    n_cached += 0 if searched is None else _n_cached_levels(collector, searched, layers)
    name, n_samples = collector.source.name, len(collector.source)
    parts = [Part(f"{name}, features", n_samples, n_conditions, float(max(0, n_conditions - n_cached)))]
    reference: Any = features.reference
    if reference is not None:
        parts.append(Part(f"{getattr(reference, 'name', 'reference')}, features", len(reference), 1, 1.0))
    return parts


def _n_cached_levels(collector: Collector, shift: Shift, layers: Sequence[str] = ()) -> int:
    """How many levels of a shift the cache holds for this model and source: a search tries them first."""
    if collector.cache is None:
        return 0
    if collector.blocks:  # the last block is the last one that is computed
        return _n_cached_levels(collector.blocks[-1], shift, layers)
    at_level_1 = (collector.features_key(shift, 1.0, layers) if layers else collector.key(shift, 1.0)).to_dict()
    compared = ("model", "source", "shift", "seed", "batch_size", "extra")  # all but the level
    cached_keys = [key.to_dict() for key in list(collector.cache.keys())]
    return sum(all(key[name] == at_level_1[name] for name in compared) for key in cached_keys)


def _existing_cache(run: Run | None) -> Run:
    """The run with its cache if that exists: a plan writes nothing, so it does not create one."""
    cache = None if run is None else run.cache
    if cache is None or (isinstance(cache, str) and not (as_path(cache) / "store.json").exists()):
        return Run()
    return Run(cache=cache)


def seconds_per_input(collector: Collector, conditions: Sequence[Condition]) -> float:
    """The time of one input, estimated from one batch under about four of the conditions."""
    model = collector.model
    inputs, labels, indices = next(collector.source.batches(model.batch_size))
    model.logits(inputs)
    timed = conditions[:: max(1, len(conditions) // 4)]
    for shift, level in timed:  # the first call of a shift may compile it
        if shift is not None:
            shift(inputs[:1], level, indices=indices[:1])
    begun = time.perf_counter()
    for shift, level in timed:
        model.logits(inputs if shift is None else shift(inputs, level, seed=collector.random_state, indices=indices))
    return (time.perf_counter() - begun) / max(1, len(timed)) / len(labels)
