"""The perturbed validation set that calibrators are tuned on: a shift, its levels, and the logits at each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftcal.data import Source
from driftcal.engines.remote_passes import ConditionLogits
from driftcal.errors import InputError
from driftcal.pipeline.collecting.collect import Collector, LogitProvider
from driftcal.pipeline.collecting.conditions import CLEAN, Condition
from driftcal.pipeline.collecting.simulated import SimulatedLogits, simulate
from driftcal.shifts import TabularNoise, get_shift
from driftcal.shifts.custom import Custom
from driftcal.shifts.levels.find_levels import find_levels
from driftcal.shifts.series.series_shift import FittedOnChannels
from driftcal.shifts.shift import Shift
from driftcal.shifts.tabular.drifts import FeatureDrift
from driftcal.types import Indices, Logits

#: Kind of inputs -> the noise that tuning uses if it is not Gaussian.
NOISE = {"features": "tabular_noise", "text": "text_noise", "series": "series_noise"}


@dataclass(frozen=True, eq=False)
class PerturbedLogits:
    """The logits of each perturbation level, the clean one first, and the record of how the levels were found.

    `record` is None without a shift: then the clean samples are the only level. Otherwise it holds plain values: the
    name of the shift, the solver, the passes, the levels (epsilon, target, accuracy, standard_error, passes) and notes.
    `simulated` holds further simulated shifts, if calibrators that are fitted on them may be chosen.
    """

    record: Mapping[str, Any] | None
    by_level: Sequence[ConditionLogits]
    simulated: SimulatedLogits | None = None

    @property
    def clean(self) -> ConditionLogits:
        """The logits of the clean samples."""
        return self.by_level[0]


def perturb(
    provider: LogitProvider, shift: Shift | None, *, n_levels: int = 10, solver: str = "curve"
) -> PerturbedLogits:
    """The logits at the levels that Algorithm 1 finds; those of its table for a shift such as the -H mixture."""
    if shift is None:
        return PerturbedLogits(None, [provider.condition(*CLEAN)])
    if shift.levels is not None:
        return _at_table_levels(provider, shift, shift.levels)

    def evaluate(level: float, indices: Indices | None) -> Logits:
        # the clean logits are needed again; the search keeps the others that it will use
        if indices is not None:
            return provider.logits_of(shift, level, indices)
        return provider.logits(shift, level, keep=level == 0)

    if provider.is_remote:  # this process gets accuracies only; the logits stay with the workers
        search = find_levels(
            lambda level, _: provider.accuracy(shift, level), n_classes=provider.n_classes,
            n_samples=len(provider.labels), n_levels=n_levels, solver=solver,
        )  # fmt: skip
    else:
        search = find_levels(evaluate, provider.labels, n_levels=n_levels, solver=solver)
    record = {
        "shift": shift.name,
        "solver": search.solver,
        "passes": search.passes,
        "levels": [asdict(level) for level in search.levels],
        "notes": list(search.notes),
    }
    if provider.is_remote:
        return PerturbedLogits(record, [provider.condition(shift, level) for level in search.epsilons])
    return PerturbedLogits(record, list(search.logits or ()))


def with_simulated_shifts(
    perturbed: PerturbedLogits, shift: Shift | None, collector: Collector, source: Source
) -> PerturbedLogits:
    """`perturbed` with logits under separate simulated shifts, for at most as many passes as its levels took.

    Images have simulated shifts, and so have tables whose tuning shift is a tabular one.
    """
    record = perturbed.record
    if record is None or (source.kind == "features" and not isinstance(shift, TabularNoise | FeatureDrift)):
        return perturbed
    simulated = simulate(collector, source, float(record["passes"]))
    if simulated is None:
        return perturbed
    return PerturbedLogits({**record, "simulated": simulated.record}, perturbed.by_level, simulated)


def family_of(shift_name: str) -> str:
    """The family of simulated shifts that a tuning shift belongs to."""
    return "noise" if shift_name in ("gaussian", "tabular_noise", "series_noise") else shift_name


def _at_table_levels(provider: LogitProvider, shift: Shift, levels: Sequence[float]) -> PerturbedLogits:
    n_samples = len(provider.labels)
    logits = [provider.condition(shift, level) for level in levels]
    accuracies = [provider.accuracy(shift, level) for level in levels]
    return PerturbedLogits(table_record(shift.name, levels, accuracies, n_samples), logits)


def table_record(shift: str, levels: Sequence[float], accuracies: Sequence[float], n_samples: int) -> dict[str, Any]:
    """The record of levels that were given, and not searched."""
    level_records = [
        {
            "epsilon": float(level),
            "target": accuracy,
            "accuracy": accuracy,
            "standard_error": math.sqrt(accuracy * (1 - accuracy) / n_samples),
            "passes": 1.0,
        }
        for level, accuracy in zip(levels, accuracies, strict=True)
    ]
    return {"shift": shift, "solver": "table", "passes": float(len(levels)), "levels": level_records, "notes": []}


def tuning_shift(shift: str | Shift | None, source: Source) -> Shift | None:
    """The tuning shift for this kind of inputs: on a feature matrix, noise is scaled per column; on tokens there is none."""
    if shift is None:
        return None
    chosen = get_shift(NOISE.get(source.kind, shift) if shift == "gaussian" else shift)
    if source.kind == "dictionaries" and not isinstance(chosen, Custom):
        raise _no_noise(source, chosen)
    if isinstance(chosen, TabularNoise) and chosen.scale is None:
        return chosen.fit(source.inputs(), categorical=source.categorical)
    if isinstance(chosen, FittedOnChannels) and chosen.scale is None:
        return chosen.fit(source.inputs())
    return chosen


def _no_noise(source: Source, shift: Shift) -> InputError:
    """The error for a built-in shift on dictionaries of arrays, whose parts may be tokens."""
    inputs = source.inputs(source.indices[:1])
    why = "noise means nothing on whole numbers" if inputs.holds_integers else "their arrays may mean anything"
    return InputError(
        f"shift must be one of your own, or None, for dictionaries of arrays ({inputs}): {why}, and it is {shift.name!r}. Pass "
        'shift=driftcal.register_shift("mine", function), whose function gets the dictionary; or shift=None to tune on clean samples. '
        "For texts, pass the texts with open_model(model, tokenizer=...): they have shifts of their own, the suite 'text'."
    )


def recorded_conditions(record: Mapping[str, Any] | None, source: Source) -> list[Condition]:
    """The conditions of a record, the clean one first: those to collect for tuning on the same levels again."""
    if record is None:
        return [CLEAN]
    shift = tuning_shift(str(record["shift"]), source)
    return [(shift, float(level["epsilon"])) for level in record["levels"]]
