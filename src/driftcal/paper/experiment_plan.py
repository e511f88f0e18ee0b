"""What experiments still have to compute: exactly, but for the search of noise levels, which stops when it can."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from driftcal.data import Source
from driftcal.paper.cases import Case
from driftcal.paper.experiments.experiment import Experiment
from driftcal.paper.workbench import Workbench
from driftcal.pipeline.collect import Collector
from driftcal.pipeline.plan import Part, Plan, TuningRun
from driftcal.shifts import get_shift, get_suite
from driftcal.shifts.shift import Shift


def plan(bench: Workbench, experiments: Sequence[Experiment], *, clock: bool = True) -> Plan:
    """Passes through each network on each of its data; what is stored already costs nothing."""
    parts: list[Part] = []
    seconds, at_most = 0.0, 0.0
    seen: set[tuple[int, int]] = set()
    for case in bench.cases:
        if (id(case.model), id(case.validation)) not in seen:
            seen.add((id(case.model), id(case.validation)))
            for ladder in _ladders(bench, case, any(e.other for e in experiments), any(e.varied for e in experiments)):
                parts += ladder.parts
                at_most += max(0.0, (ladder.at_most or 0.0) - ladder.passes)
            if any(e.corruptions for e in experiments):
                conditions = [(shift, float(level)) for shift, level in get_suite("h-tuning") if level]
                parts.append(_part(bench, case, case.validation, conditions))
        shifts = [
            *case.shifts,
            *(shift for e in experiments if e.suites for one in e.suites(case).values() for shift in one),
        ]
        suite = [(shift, float(level)) for shift in shifts for level in shift.levels or (0,)]
        parts.append(_part(bench, case, case.test, suite))
        if case.layers and any(e.inside for e in experiments):
            parts += [_inside_ladders(bench, case), _inside(bench, case, suite)]
        others = list(case.ood.values()) if any(e.ood for e in experiments) else []
        if case.objectnet is not None and any(e.objectnet for e in experiments):
            others.append(bench.known(case))
        parts += [_part(bench, case, source, [(get_shift("gaussian"), 0.0)]) for source in others]
        seconds += _per_input(bench.collector(case, case.test), case.shifts) * _inputs(parts) if clock else 0.0
    passes = sum(part.passes for part in parts)
    return Plan(parts, seconds, passes + at_most if at_most else None)


def _ladders(bench: Workbench, case: Case, both: bool, varied: bool) -> Iterable[Plan]:
    place = None if bench.store is None else bench.store.path
    wanted: list[Shift] = [settings.noise(case.data) for settings in [bench.settings, *([bench.other] if both else [])]]
    for shift in [*wanted, *([get_shift("varied")] if varied else [])]:
        options = {"shift": shift, "levels": bench.settings.levels, "seed": bench.seed}
        yield TuningRun(case.model, case.validation, options, place).plan(clock=False)


def _part(bench: Workbench, case: Case, source: Source, conditions: Sequence[tuple[Shift, float]]) -> Part:
    collector = bench.collector(case, source)
    distinct = len({collector.key(shift, level).digest for shift, level in conditions})
    return Part(f"{case.label}, {source.name}", len(source), distinct, collector.missing(conditions))


def _inside(bench: Workbench, case: Case, conditions: Sequence[tuple[Shift, float]]) -> Part:
    """Features of the test images: another pass for each condition, because the store keeps them by themselves."""
    collector, store = bench.collector(case, case.test), bench.store
    keys = {key.digest: key for key in (collector.features_key(*condition, case.layers) for condition in conditions)}
    left = len(keys) if store is None else sum(key not in store for key in keys.values())
    return Part(f"{case.label}, {case.test.name}, features", len(case.test), len(keys), float(left))


def _inside_ladders(bench: Workbench, case: Case) -> Part:
    """Features of two ladders' rungs, whose levels are not known yet; the clean rung is the same."""
    collector, store = bench.collector(case, case.validation), bench.store
    by_level = 2 * bench.settings.levels - 1
    done = store is not None and collector.features_key(get_shift("gaussian"), 0, case.layers) in store
    what = f"{case.label}, {case.validation.name}, features"
    return Part(what, len(case.validation), by_level, 0.0 if done else float(by_level))


def _inputs(parts: Sequence[Part]) -> int:
    return sum(round(part.passes * part.rows) for part in parts)


def _per_input(collector: Collector, shifts: Sequence[Shift]) -> float:
    """Seconds for one input, from one batch under one shift."""
    inputs, labels, indices = next(collector.source.batches(collector.model.batch_size))
    shift = shifts[0]
    shift(inputs[:1], 1, indices=indices[:1])  # the first call may compile it
    begun = time.perf_counter()
    collector.model.logits(shift(inputs, 1, seed=collector.seed, indices=indices))
    return (time.perf_counter() - begun) / len(labels)
