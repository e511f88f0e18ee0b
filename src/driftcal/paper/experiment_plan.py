"""The model passes that experiments still need. The number is exact except for the search for levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from driftcal.data import Source
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.experiments import Experiment, Need
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.collecting.conditions import CLEAN, Condition, table_levels
from driftcal.pipeline.collecting.run import Run
from driftcal.pipeline.plan import Part, Plan, plan_tuning, seconds_per_input
from driftcal.shifts import get_shift, get_suite
from driftcal.shifts.shift import Shift


def plan_experiments(
    context: ExperimentContext, experiments: Sequence[Experiment], *, measure_time: bool = True
) -> Plan:
    """The passes of each network over each of its data sets; cached logits need none.

    Without `measure_time` the model is not run, and the plan has 0 seconds.
    """
    needs = {need for experiment in experiments for need in experiment.needs}
    parts: list[Part] = []
    seconds, extra_passes = 0.0, 0.0
    planned: set[tuple[int, int]] = set()  # setups with several suites share their validation data
    for setup in context.setups:
        first_part = len(parts)
        if (id(setup.model), id(setup.validation)) not in planned:
            planned.add((id(setup.model), id(setup.validation)))
            for levels in _plans_for_levels(context, setup, needs):
                parts += levels.parts
                extra_passes += max(0.0, (levels.at_most or 0.0) - levels.passes)
            if "h-tuning" in needs:
                conditions = [(shift, float(level)) for shift, level in get_suite("h-tuning") if level]
                parts.append(_logits_part(context, setup, context.h_validation(setup), conditions))
        suites = setup.all_suites.values() if "all suites" in needs else [setup.shifts]
        suite = [(shift, float(level)) for shifts in suites for shift in shifts for level in table_levels(shift)]
        parts.append(_logits_part(context, setup, setup.test, suite))
        if setup.layers and "features" in needs:
            parts += [_features_at_levels_part(context, setup), _features_part(context, setup, suite)]
        others = list(setup.ood.values()) if "out of distribution" in needs else []
        if setup.objectnet is not None and "objectnet" in needs:
            others.append(context.objectnet_known_classes(setup))
        parts += [_logits_part(context, setup, source, [CLEAN]) for source in others]
        if measure_time:
            n_inputs = sum(round(part.passes * part.n_samples) for part in parts[first_part:])
            seconds += seconds_per_input(context.collector(setup, setup.test), [(setup.shifts[0], 1.0)]) * n_inputs
    passes = sum(part.passes for part in parts)
    return Plan(parts, seconds, passes + extra_passes if extra_passes else None)


def _plans_for_levels(context: ExperimentContext, setup: Setup, needs: set[Need]) -> Iterable[Plan]:
    all_settings = context.both_settings if "both settings" in needs else [context.settings]
    # on ImageNet both settings clip the noise
    shifts: list[Shift] = list(dict.fromkeys(settings.noise(setup.data) for settings in all_settings))
    for shift in [*shifts, *([get_shift("varied")] if "varied shifts" in needs else [])]:
        yield plan_tuning(
            setup.model, setup.validation, shift=shift, n_levels=context.settings.n_levels,
            random_state=context.settings.seed, run=Run(cache=context.cache), timed=False,
            block_size=setup.block_size,
        )  # fmt: skip


def _logits_part(context: ExperimentContext, setup: Setup, source: Source, conditions: Sequence[Condition]) -> Part:
    collector = context.collector(setup, source)
    distinct = len({collector.key(shift, level).digest for shift, level in conditions})
    return Part(f"{setup.label}, {source.name}", len(source), distinct, collector.missing(conditions))


def _features_part(context: ExperimentContext, setup: Setup, conditions: Sequence[Condition]) -> Part:
    """Features of the test images: a further pass per condition, because they are cached separately from the logits."""
    collector, cache = context.collector(setup, setup.test), context.cache
    keys = {key.digest: key for key in (collector.features_key(*condition, setup.layers) for condition in conditions)}
    missing = len(keys) if cache is None else sum(key not in cache for key in keys.values())
    return Part(f"{setup.label}, {setup.test.name}, features", len(setup.test), len(keys), float(missing))


def _features_at_levels_part(context: ExperimentContext, setup: Setup) -> Part:
    """Features at the levels of noise and of varied shifts, which a search still has to find; both share level 0."""
    collector, cache = context.collector(setup, setup.validation), context.cache
    n_levels = 2 * context.settings.n_levels - 1
    is_cached = cache is not None and collector.features_key(*CLEAN, setup.layers) in cache
    name = f"{setup.label}, {setup.validation.name}, features"
    return Part(name, len(setup.validation), n_levels, 0.0 if is_cached else float(n_levels))
