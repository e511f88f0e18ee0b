"""Calibrators over a whole suite: the rows of an evaluation, and means over its shifts with intervals that belong to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from driftcal.metrics.intervals import bootstrap_interval
from driftcal.pipeline.collect import Collector
from driftcal.pipeline.evaluate import Candidate, evaluate_candidates
from driftcal.pipeline.results import POOLED, ResultRow, Results
from driftcal.shifts.shift import Shift
from driftcal.types import Float64


@dataclass(frozen=True, eq=False)
class Sweep:
    """Results of a suite. `replicates` holds, per calibrator, shift and metric, the metric in each bootstrap world.

    A world is a draw of images, the same for every calibrator, shift and level: what they share cancels in differences.
    `left_out` are shifts that no mean counts.
    """

    results: Results
    replicates: Mapping[str, Mapping[str, Mapping[str, Float64]]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The calibrators."""
        return [info.name for info in self.results.calibrators]

    def shifts(self, without: Sequence[str] = ()) -> list[str]:
        """The shifts that means are taken over."""
        return [s.name for s in self.results.shifts if s.name not in self.left_out and s.name not in without]

    def row(self, calibrator: str, shift: str, level: float | str = POOLED) -> ResultRow:
        """The row of these words."""
        return self._rows[calibrator, shift, level]

    def clean(self, calibrator: str) -> ResultRow:
        """The row of untouched images."""
        return self.row(calibrator, self.results.shifts[0].name, 0)

    def mean(self, calibrator: str, metric: str = "ece", *, without: Sequence[str] = ()) -> float:
        """The metric of each shift pooled over its levels, averaged over the shifts."""
        values = [getattr(self.row(calibrator, shift), metric) for shift in self.shifts(without)]
        return float(np.mean(values))

    def interval(self, calibrator: str, metric: str = "ece") -> tuple[float, float]:
        """Where the mean over the shifts lies with 95 % probability, by drawing images anew."""
        found = bootstrap_interval(self.mean(calibrator, metric), self._worlds(calibrator, metric), bounds=(0, np.inf))
        return found.low, found.high

    def difference(self, first: str, second: str, metric: str = "ece") -> tuple[float, float, float]:
        """How much larger the mean of the first is than that of the second, and the interval of that."""
        value = self.mean(first, metric) - self.mean(second, metric)
        found = bootstrap_interval(value, self._worlds(first, metric) - self._worlds(second, metric))
        return value, found.low, found.high

    def _worlds(self, calibrator: str, metric: str) -> Float64:
        per_shift = self.replicates[calibrator]
        worlds: Float64 = np.mean([per_shift[shift][metric] for shift in self.shifts()], axis=0)
        return worlds

    @property
    def _rows(self) -> dict[tuple[str, str, float | str], ResultRow]:
        found: dict[tuple[str, str, float | str], ResultRow] | None = self.__dict__.get("_by_name")
        if found is None:
            found = {(row.calibrator, row.shift, row.level): row for row in self.results.rows}
            self.__dict__["_by_name"] = found
        return found


def run_sweep(
    collector: Collector,
    candidates: Sequence[Candidate],
    shifts: Sequence[Shift],
    *,
    suite: str,
    n_bins: int,
    left_out: tuple[str, ...] = (),
    draws: int = 200,
    about: Mapping[str, object] | None = None,
    layers: Sequence[str] = (),
) -> Sweep:
    """Evaluate candidates on every shift and level; ``draws=0`` leaves out all intervals.

    `layers` are those that candidates look at which need features.
    """
    found: dict[str, dict[str, Mapping[str, Float64]]] = {}

    def keep(calibrator: str, shift: str, worlds: Mapping[str, Float64]) -> None:
        found.setdefault(calibrator, {})[shift] = worlds

    results = evaluate_candidates(
        collector, candidates, shifts, suite=suite, n_bins=n_bins, intervals=draws > 0, draws=max(2, draws),
        about=about, on_worlds=keep, layers=layers,
    )  # fmt: skip
    return Sweep(results, found, left_out)
