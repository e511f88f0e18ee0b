"""Logits under many separate simulated shifts, each on a part of the validation images, for fitting calibrators."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.data import Source
from driftcal.pipeline.collecting.collect import Collector
from driftcal.shifts.simulated.conditions import SimulatedCondition, simulated_conditions
from driftcal.types import Array, Indices, Labels, Logits

#: With fewer samples per condition only every second level is simulated, so that each condition gets more of them.
MIN_SAMPLES_PER_CONDITION = 100
#: More samples than this per condition do not improve the regression.
MAX_SAMPLES_PER_CONDITION = 500
#: Kinds of inputs that have simulated shifts.
KINDS = ("images", "features", "text", "series")
#: What a calibrator was tuned on, in files and tables, if it was fitted on simulated shifts and clean samples.
SIMULATED_SHIFTS = "simulated shifts"


@dataclass(frozen=True, eq=False)
class SimulatedLogits:
    """Logits of parts of a validation set, one part per condition.

    Parameters
    ----------
    families
        The family of the shift of each condition.
    indices
        Which samples of the validation set each condition has.
    logits
        Their logits.
    """

    families: Sequence[str]
    indices: Sequence[Indices]
    logits: Sequence[Logits]

    @property
    def record(self) -> Mapping[str, Any]:
        """What was simulated, as plain values."""
        return {
            "conditions": len(self.families),
            "families": sorted(set(self.families)),
            "inputs": int(sum(len(indices) for indices in self.indices)),
        }

    def selected(self, kept: Array, *, leave_out: Container[str] = ()) -> SimulatedLogits:
        """The kept samples (a mask over the validation set), without the families `leave_out`."""
        numbers = [k for k, family in enumerate(self.families) if family not in leave_out]
        return SimulatedLogits(
            [self.families[k] for k in numbers],
            [self.indices[k][kept[self.indices[k]]] for k in numbers],
            [self.logits[k][kept[self.indices[k]]] for k in numbers],
        )

    def thinned(self, n_samples: int) -> SimulatedLogits:
        """About `n_samples` of these samples: every k-th one of each condition."""
        step = -(-sum(map(len, self.indices)) // n_samples)
        starts = [k % step for k in range(len(self.families))]
        return SimulatedLogits(
            self.families,
            [part[start::step] for part, start in zip(self.indices, starts, strict=True)],
            [part[start::step] for part, start in zip(self.logits, starts, strict=True)],
        )

    def stacked(self, labels: Labels) -> tuple[Logits, Labels, Array, list[str]]:
        """Logits, labels and condition number (from 0) of all samples, and the family of each condition."""
        numbers = np.repeat(np.arange(len(self.indices)), [len(indices) for indices in self.indices])
        return np.concatenate(self.logits), labels[np.concatenate(self.indices)], numbers, list(self.families)


def simulate(collector: Collector, source: Source, n_passes: float) -> SimulatedLogits | None:
    """Logits under the simulated shifts for this kind of inputs; in total at most `n_passes` passes over the source.

    The samples are cut into parts, and condition after condition takes the next part. None if there are no simulated shifts
    for these inputs.
    """
    if source.kind not in KINDS:
        return None
    features = source.inputs() if source.kind in ("features", "series") else None
    conditions = simulated_conditions(source.kind, features, categorical=source.categorical)
    parts = assign_samples(conditions, len(source), n_passes, collector.random_state)
    if not parts:
        return None
    return SimulatedLogits(
        [condition.family for condition, _ in parts],
        [part for _, part in parts],
        [collector.part_logits(condition.shift, condition.level, part) for condition, part in parts],
    )


def assign_samples(
    conditions: Sequence[SimulatedCondition], n_samples: int, n_passes: float, random_state: int
) -> list[tuple[SimulatedCondition, Indices]]:
    """The conditions that are simulated, each with its part of the samples; in total at most `n_passes` passes.

    >>> from driftcal.shifts.simulated.conditions import simulated_conditions
    >>> parts = assign_samples(simulated_conditions(), 600, 14, 0)
    >>> len(parts), len(parts[0][1])
    (38, 221)
    """
    size = int(n_passes * n_samples / len(conditions))
    if size < MIN_SAMPLES_PER_CONDITION:
        conditions = _every_second_level(conditions)
        size = int(n_passes * n_samples / len(conditions))
    size = min(size, n_samples, MAX_SAMPLES_PER_CONDITION)
    if size < 1:
        return []
    order = np.random.default_rng(random_state).permutation(n_samples)
    n_parts = max(1, math.floor(n_samples / size))
    parts = [np.sort(order[k * size : (k + 1) * size]) for k in range(n_parts)]
    return [(condition, parts[k % n_parts]) for k, condition in enumerate(conditions)]


def _every_second_level(conditions: Sequence[SimulatedCondition]) -> list[SimulatedCondition]:
    """The second, fourth … level of each shift."""
    by_shift: dict[str, list[SimulatedCondition]] = {}
    for condition in conditions:
        by_shift.setdefault(condition.shift.name, []).append(condition)
    return [condition for of_shift in by_shift.values() for condition in of_shift[1::2]]
