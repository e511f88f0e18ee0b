"""What a tuning or an evaluation will compute, and about how long that takes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from driftcal.data import Source
from driftcal.io.paths import as_path
from driftcal.models import Model
from driftcal.pipeline.calibrated_model import CalibratedModel
from driftcal.pipeline.collecting.collect import CLEAN, Collector, Condition
from driftcal.pipeline.collecting.layer_features import LayerFeatures
from driftcal.pipeline.collecting.perturbation import recorded_conditions, tuning_shift
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.evaluating.evaluate import suite_for
from driftcal.shifts import Suite
from driftcal.shifts.shift import Shift

#: Each inner level may be tried this often, with the paper's solver so often. The last level takes about as long as two others.
TRIES = {"curve": 8.0, "nelder-mead": 32.0}


@dataclass(frozen=True)
class Part:
    """One data set of a plan: how many passes over its samples the model still has to make."""

    data: str
    n_samples: int
    n_conditions: int
    passes: float


@dataclass(frozen=True)
class Plan:
    """What a run would compute now. `seconds` is estimated from one batch; cached logits cost nothing.

    `passes` is exact where `at_most` is None. A search for levels stops as soon as it can: then `passes` is what it takes if every
    guess is right, and `at_most` what it takes if none is.
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
) -> Plan:
    """The fewest and the most passes that `tune` takes; with ``timed=False`` the model is not run to time a pass."""
    source = validation.labelled()
    collector = Collector(model, source, run=_existing_cache(run), random_state=random_state)
    chosen = tuning_shift(shift, source)
    is_searched = chosen is not None and chosen.levels is None
    conditions: list[Condition] = [CLEAN]
    if chosen is not None:
        conditions = [(chosen, float(level)) for level in (chosen.levels or (0,))]
    more = float(max(0, n_levels - 1 - _n_cached_levels(collector, chosen))) if is_searched else 0.0
    passes = collector.missing(conditions) + more
    parts = [Part(source.name, len(source), len(conditions) + round(more), passes)]
    if features is not None:
        n = n_levels if is_searched else len(conditions)
        parts += _feature_parts(collector, features, conditions, n, chosen if is_searched else None)
    each = _seconds_per_pass(collector, [conditions[-1]]) if timed else 0.0
    seconds = sum(part.passes * each * part.n_samples / len(source) for part in parts)
    most = 1.0 + TRIES[solver] * n_levels + sum(part.passes for part in parts[1:]) if is_searched else None
    return Plan(parts, seconds, most)


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
    """Exactly the passes that `evaluate` makes now, and `compare_methods` before it where validation data are given."""
    run = _existing_cache(run)
    conditions: list[Condition] = [(shift, float(level)) for shift, level in suite_for(suite, test)]
    work = [(test, random_state, conditions)]
    if validation is not None:
        recorded = recorded_conditions(calibrated.perturbation, validation)
        work.insert(0, (validation, int(calibrated.metadata["random_state"]), recorded))
    parts, seconds = [], 0.0
    fingerprint = calibrated.model_metadata.get("fingerprint")
    for source, seed, listed in work:
        collector = Collector(calibrated.model, source, run=run, random_state=seed, model_fingerprint=fingerprint)
        passes = collector.missing(listed)
        distinct = len({collector.key(shift, level).digest for shift, level in listed})
        parts.append(Part(source.name, len(source), distinct, passes))
        seconds += passes * _seconds_per_pass(collector, listed) if passes and timed else 0.0
    return Plan(parts, seconds)


def _feature_parts(
    collector: Collector,
    features: LayerFeatures,
    conditions: Sequence[Condition],
    n_levels: int,
    searched: Shift | None,
) -> list[Part]:
    """The passes that collect layer features: over every level, and once over the training inputs."""
    cache, layers = collector.cache, features.layers
    cached = sum(cache is not None and collector.features_key(*one, layers) in cache for one in conditions)
    cached += 0 if searched is None else _n_cached_levels(collector, searched, layers)
    name, n = collector.source.name, len(collector.source)
    parts = [Part(f"{name}, features", n, n_levels, float(max(0, n_levels - cached)))]
    reference: Any = features.reference
    if reference is not None:
        parts.append(Part(f"{getattr(reference, 'name', 'reference')}, features", len(reference), 1, 1.0))
    return parts


def _n_cached_levels(collector: Collector, shift: Shift | None, layers: Sequence[str] = ()) -> int:
    """How many levels of a shift the cache holds for this model and source: a search tries them first."""
    if collector.cache is None or shift is None:
        return 0
    own = (collector.features_key(shift, 1.0, layers) if layers else collector.key(shift, 1.0)).to_dict()
    same = ("model", "source", "shift", "seed", "batch_size", "extra")
    cached = [key.to_dict() for key in list(collector.cache.keys())]
    return sum(all(key[name] == own[name] for name in same) for key in cached)


def _existing_cache(run: Run | None) -> Run:
    """A plan writes nothing: a cache that does not exist yet is an empty one."""
    cache = None if run is None else run.cache
    if cache is None or (isinstance(cache, str) and not (as_path(cache) / "store.json").exists()):
        return Run()
    return Run(cache=cache)


def _seconds_per_pass(collector: Collector, conditions: Iterable[Condition]) -> float:
    """From one batch, through the model and through a few of the shifts."""
    source, model = collector.source, collector.model
    inputs, labels, indices = next(source.batches(model.batch_size))
    model.logits(inputs)
    listed = list(conditions)
    some = listed[:: max(1, len(listed) // 4)]
    for shift, level in some:  # the first call of a shift may compile it
        if shift is not None:
            shift(inputs[:1], level, indices=indices[:1])
    begun = time.perf_counter()
    for shift, level in some:
        model.logits(inputs if shift is None else shift(inputs, level, seed=collector.random_state, indices=indices))
    return (time.perf_counter() - begun) / max(1, len(some)) * len(source) / len(labels)
