"""The evaluation of calibrators on a suite: means over its shifts, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from driftcal.metrics.intervals import bootstrap_interval
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.evaluating.candidate import Candidate
from driftcal.pipeline.evaluating.evaluate import evaluate_candidates
from driftcal.pipeline.evaluating.results import POOLED, ResultRow, Results
from driftcal.shifts.shift import Shift
from driftcal.types import Float64

#: Metrics whose means over the shifts have intervals.
METRICS_WITH_INTERVALS = ("ece", "nll", "brier")
#: Shifts that means leave out, as in the paper: Gaussian noise resembles the tuning noise.
LEFT_OUT = ("gaussian_noise",)


@dataclass(frozen=True)
class Difference:
    """The difference of two means with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class SuiteResults:
    """Results of a suite. `replicates` maps calibrator, shift and metric to bootstrap replicates.

    A replicate is one resample of the images, the same for every calibrator, shift and level. So means and differences
    have replicates too. `left_out` are the shifts that means leave out.
    """

    results: Results
    replicates: Mapping[str, Mapping[str, Mapping[str, Float64]]] = field(default_factory=dict)
    left_out: tuple[str, ...] = LEFT_OUT

    @property
    def calibrators(self) -> list[str]:
        """The names of the calibrators."""
        return [info.name for info in self.results.calibrators]

    def shifts(self, without: Sequence[str] = ()) -> list[str]:
        """The names of the shifts that means are taken over."""
        return [s.name for s in self.results.shifts if s.name not in self.left_out and s.name not in without]

    def levels(self, shift: str) -> Sequence[float]:
        """The levels of a shift, 0 first."""
        return next(info.levels for info in self.results.shifts if info.name == shift)

    def row(self, calibrator: str, shift: str, level: float | str = POOLED) -> ResultRow:
        """The row of a calibrator on a shift at one level, or pooled over its levels."""
        return self._rows[calibrator, shift, level]

    def clean(self, calibrator: str) -> ResultRow:
        """The row of a calibrator on clean images."""
        return self.row(calibrator, self.results.shifts[0].name, 0)

    def mean(self, calibrator: str, metric: str = "ece", *, without: Sequence[str] = ()) -> float:
        """The mean over the shifts, each pooled over its levels."""
        return float(np.mean([getattr(self.row(calibrator, shift), metric) for shift in self.shifts(without)]))

    def mean_at_level(self, calibrator: str, level: float, metric: str = "ece") -> float:
        """The mean over the shifts at one level."""
        return float(np.mean([getattr(self.row(calibrator, shift, level), metric) for shift in self.shifts()]))

    def mean_at_strongest_level(self, calibrator: str, metric: str = "ece") -> float:
        """The mean over the shifts, each at its strongest level."""
        rows = [self.row(calibrator, shift, self.levels(shift)[-1]) for shift in self.shifts()]
        return float(np.mean([getattr(row, metric) for row in rows]))

    def mean_of_conditions(self, calibrator: str, metric: str = "ece") -> float:
        """The mean over single conditions, each shift at each level but 0, so that opposite errors do not cancel."""
        rows = [self.row(calibrator, shift, level) for shift in self.shifts() for level in self.levels(shift) if level]
        return float(np.mean([getattr(row, metric) for row in rows]))

    def interval(self, calibrator: str, metric: str = "ece") -> tuple[float, float]:
        """The 95 % interval of the mean over the shifts, by resampling images."""
        interval = bootstrap_interval(
            self.mean(calibrator, metric), self.mean_replicates(calibrator, metric), bounds=(0, np.inf)
        )
        return interval.low, interval.high

    def difference(self, first: str, second: str, metric: str = "ece") -> Difference:
        """The mean of the first calibrator minus that of the second, paired over images."""
        value = self.mean(first, metric) - self.mean(second, metric)
        replicates = self.mean_replicates(first, metric) - self.mean_replicates(second, metric)
        interval = bootstrap_interval(value, replicates)
        return Difference(value, interval.low, interval.high)

    def mean_replicates(self, calibrator: str, metric: str) -> Float64:
        """The mean over the shifts in each bootstrap replicate."""
        by_shift = self.replicates[calibrator]
        replicates: Float64 = np.mean([by_shift[shift][metric] for shift in self.shifts()], axis=0)
        return replicates

    @cached_property
    def _rows(self) -> dict[tuple[str, str, float | str], ResultRow]:
        return {(row.calibrator, row.shift, row.level): row for row in self.results.rows}


def evaluate_suite(
    collector: Collector,
    candidates: Sequence[Candidate],
    shifts: Sequence[Shift],
    *,
    suite: str,
    n_bins: int,
    n_resamples: int = 200,
    metadata: Mapping[str, object] | None = None,
    layers: Sequence[str] = (),
) -> SuiteResults:
    """Evaluate candidates on every shift and level.

    Parameters
    ----------
    collector : the model's logits on the test data.
    candidates : the calibrators.
    shifts : the shifts of the suite.
    suite : name of the suite.
    n_bins : bins of the ECE.
    n_resamples : bootstrap resamples of the images; 0 computes no intervals.
    metadata : plain values that are recorded with the results.
    layers : layers whose features candidates need.
    """
    replicates: dict[str, dict[str, Mapping[str, Float64]]] = {}

    def keep(calibrator: str, shift: str, by_metric: Mapping[str, Float64]) -> None:
        replicates.setdefault(calibrator, {})[shift] = by_metric

    results = evaluate_candidates(
        collector, candidates, shifts, suite=suite, n_bins=n_bins, n_resamples=n_resamples,
        metadata=metadata, on_replicates=keep, layers=layers,
    )  # fmt: skip
    return SuiteResults(results, replicates)
