"""The perturbed validation set that calibrators are tuned on: a shift, its levels, and the logits at each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftcal.data import Source
from driftcal.engines.remote_passes import ConditionLogits
from driftcal.pipeline.collecting.collect import CLEAN, Condition, LogitProvider
from driftcal.shifts import TabularNoise, get_shift
from driftcal.shifts.levels.find_levels import find_levels
from driftcal.shifts.shift import Shift
from driftcal.types import Indices, Logits


@dataclass(frozen=True, eq=False)
class PerturbedLogits:
    """The logits of each perturbation level, the clean one first, and the record of how the levels were found.

    `record` is None without a shift: the clean samples are then the only level. Otherwise it holds plain values: the shift's
    name, the solver, the passes, the levels (epsilon, target, accuracy, standard_error, passes) and notes.
    """

    record: Mapping[str, Any] | None
    by_level: Sequence[ConditionLogits]

    @property
    def clean(self) -> ConditionLogits:
        """The logits of the clean samples."""
        return self.by_level[0]


def perturb(
    provider: LogitProvider, shift: Shift | None, *, n_levels: int = 10, solver: str = "curve"
) -> PerturbedLogits:
    """The logits at the levels that Algorithm 1 finds, or at the levels that a shift such as the -H mixture has itself."""
    if shift is None:
        return PerturbedLogits(None, [provider.condition(*CLEAN)])
    if shift.levels is not None:
        return _given_levels(provider, shift, shift.levels)

    def evaluate(level: float, indices: Indices | None) -> Logits:
        # the clean logits are needed again; of the others the search itself keeps those that it will use
        if indices is not None:
            return provider.logits_of(shift, level, indices)
        return provider.logits(shift, level, keep=level == 0)

    if provider.is_remote:  # only accuracies come here; the logits stay with the workers
        found = find_levels(
            lambda level, _: provider.accuracy(shift, level), n_classes=provider.n_classes,
            n_samples=len(provider.labels), n_levels=n_levels, solver=solver,
        )  # fmt: skip
    else:
        found = find_levels(evaluate, provider.labels, n_levels=n_levels, solver=solver)
    record = {
        "shift": shift.name,
        "solver": found.solver,
        "passes": found.passes,
        "levels": [asdict(level) for level in found.levels],
        "notes": list(found.notes),
    }
    if provider.is_remote:
        return PerturbedLogits(record, [provider.condition(shift, level) for level in found.epsilons])
    return PerturbedLogits(record, list(found.logits or ()))


def _given_levels(provider: LogitProvider, shift: Shift, levels: Sequence[float]) -> PerturbedLogits:
    n = len(provider.labels)
    logits = [provider.condition(shift, level) for level in levels]
    accuracies = [provider.accuracy(shift, level) for level in levels]
    records = [
        {"epsilon": float(e), "target": a, "accuracy": a, "standard_error": math.sqrt(a * (1 - a) / n), "passes": 1.0}
        for e, a in zip(levels, accuracies, strict=True)
    ]
    record = {"shift": shift.name, "solver": "table", "passes": float(len(levels)), "levels": records, "notes": []}
    return PerturbedLogits(record, logits)


def tuning_shift(shift: str | Shift | None, source: Source) -> Shift | None:
    """The tuning shift for this kind of inputs: noise on a feature matrix is scaled per column."""
    if shift is None:
        return None
    chosen = get_shift("tabular_noise" if shift == "gaussian" and source.kind == "features" else shift)
    if isinstance(chosen, TabularNoise) and chosen.scale is None:
        return chosen.fit(source.inputs(), categorical=source.categorical)
    return chosen


def recorded_conditions(record: Mapping[str, Any] | None, source: Source) -> list[Condition]:
    """The conditions of a record, the clean one first: what has to be collected to tune on the same levels again."""
    if record is None:
        return [CLEAN]
    shift = tuning_shift(str(record["shift"]), source)
    return [(shift, float(level["epsilon"])) for level in record["levels"]]
