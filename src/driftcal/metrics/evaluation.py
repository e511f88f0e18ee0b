"""Every metric of one set of predictions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from driftcal.errors import InputError, need
from driftcal.metrics.bootstrap import Interval, check_level, interval_of, units_of
from driftcal.metrics.classwise import ClassScores
from driftcal.metrics.scores import Scores, check_pair, is_positive, refuse_swapped
from driftcal.metrics.statistics import Statistics
from driftcal.metrics.summary import DEBIASED_BINS, ERRORS, NAMES, RANGES, Summary, simulate_floor
from driftcal.rows import Rows
from driftcal.types import AnyArray, Float64

#: Worlds simulated for the floor: its own error is then about one percent.
FLOOR_DRAWS = 200
_NO_INTERVALS: Mapping[str, Interval] = MappingProxyType({})


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """All metrics of a set of predictions; `print` it, or read the fields.

    `ece_floor` is the ECE that a perfectly calibrated model with the same confidences would show on this many rows.
    `classwise_ece` and `marginal_debiased_ece` are None unless ``per_class=True``. `intervals` is empty unless asked for.
    """

    statistics: Statistics
    n_classes: int
    accuracy: float
    nll: float
    brier: float
    entropy: float
    gap: float
    ece: float
    mce: float
    equal_mass_ece: float
    sweep_ece: float
    debiased_ece: float
    smooth_ece: float
    ks: float
    reliability: float
    resolution: float
    uncertainty: float
    aurc: float
    error_auroc: float
    ece_floor: float
    classwise_ece: float | None = None
    marginal_debiased_ece: float | None = None
    intervals: Mapping[str, Interval] = field(default_factory=lambda: _NO_INTERVALS)

    @property
    def rows(self) -> int:
        """The number of rows with positive weight."""
        return self.statistics.rows

    @property
    def n_bins(self) -> int:
        """M, the number of bins of the ECE."""
        return self.statistics.n_bins

    @property
    def clipped(self) -> int:
        """The number of rows whose true class had a probability below 1e-15."""
        return self.statistics.clipped

    def metrics(self) -> dict[str, float]:
        """The metrics that were computed, by name."""
        names = (*NAMES, "classwise_ece", "marginal_debiased_ece")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON: metrics, what they were computed from, and intervals as (low, high)."""
        result: dict[str, Any] = {"rows": self.rows, "n_classes": self.n_classes, "n_bins": self.n_bins}
        result |= self.metrics() | {"ece_floor": self.ece_floor, "clipped": self.clipped}
        if self.intervals:
            result["intervals"] = {name: [i.low, i.high] for name, i in self.intervals.items()}
            result["level"] = next(iter(self.intervals.values())).level
        return result

    def to_frame(self) -> Any:
        """A pandas frame with a row per metric: value, and low and high where intervals were asked for."""
        pandas = need("pandas", "pandas")
        table = {name: {"value": value} for name, value in self.metrics().items()}
        for name, i in self.intervals.items():
            table[name] |= {"low": i.low, "high": i.high}
        return pandas.DataFrame.from_dict(table, orient="index").rename_axis("metric")

    def __repr__(self) -> str:
        claim = "probability of class 1" if self.statistics.positive else "confidence in the top label"
        level = f", {100 * next(iter(self.intervals.values())).level:g} % intervals" if self.intervals else ""
        lines = [f"{self.rows:,} rows, {self.n_classes} classes, {claim}{level}"]
        for name, value in self.metrics().items():
            label, note = self._label(name)
            interval = f"  {self.intervals[name]!s:<20}" if name in self.intervals else ""
            lines.append(f"  {label:<30} {value:>9.4f}{interval}  {note}".rstrip())
        return "\n".join(lines)

    def _label(self, name: str) -> tuple[str, str]:
        bins, notes = _LABELS[name]
        note = {
            "ece": f"a calibrated model would show {self.ece_floor:.4f}",
            "nll": f"{self.clipped:,} rows clipped at 1e-15",
            "gap": "over-confident" if self.gap > 0 else "under-confident" if self.gap < 0 else "",
            "error_auroc": "nothing to tell apart" if self.accuracy in (0, 1) else notes,
        }.get(name, notes)
        return bins.format(M=self.n_bins), note


# name -> (label, note)
_LABELS: dict[str, tuple[str, str]] = {
    "accuracy": ("accuracy", ""),
    "nll": ("NLL", ""),
    "brier": ("Brier score", ""),
    "entropy": ("entropy", "nats"),
    "gap": ("confidence − outcome", ""),
    "ece": ("ECE, {M} equal-width bins", ""),
    "mce": ("MCE, {M} equal-width bins", ""),
    "equal_mass_ece": ("ECE, {M} equal-mass bins", ""),
    "sweep_ece": ("sweep ECE", ""),
    "debiased_ece": (f"debiased ECE, {DEBIASED_BINS} equal-mass", "root of the squared error"),
    "smooth_ece": ("smooth ECE", ""),
    "ks": ("KS calibration error", ""),
    "reliability": ("Brier: reliability", "lower is better"),
    "resolution": ("Brier: resolution", "higher is better"),
    "uncertainty": ("Brier: uncertainty", ""),
    "aurc": ("risk–coverage area", ""),
    "error_auroc": ("AUROC of confidence for errors", ""),
    "classwise_ece": ("class-wise ECE, {M} bins", ""),
    "marginal_debiased_ece": ("marginal debiased ECE", ""),
}


def evaluate(
    logits: AnyArray,
    y: AnyArray = None,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    per_class: bool = False,
    intervals: bool = False,
    level: float = 0.95,
    method: str = "basic",
    draws: int = 1000,
    groups: AnyArray = None,
    seed: int = 0,
) -> Evaluation:
    """Every metric of these logits (or log-probabilities) in one pass over them.

    `logits` may be an array, a memory map, a source of chunks larger than memory, or :class:`driftcal.rows.Rows`; kept are
    seven numbers per row. ``per_class=True`` adds the class-wise metrics, which need more passes. ``intervals=True``
    bootstraps all of them over images: rows, or `groups` of rows where an image has several. 1-D logits are the log-odds
    of class 1, and calibration is then that of class 1 as for 1-D probabilities.

    >>> import numpy as np
    >>> result = evaluate(np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]), [0, 1, 2], n_bins=10)
    >>> round(result.ece, 3), round(result.nll, 3)
    (0.515, 1.295)
    """
    refuse_swapped(y, logits, "(logits, y)")
    positive = is_positive(logits)
    rows = logits if isinstance(logits, Rows) else Rows(logits, y, sample_weight, classes=classes)
    per_row = Scores.of_logits(rows, positive=positive)
    per_column = ClassScores.of_logits(rows) if per_class else None
    options = _Options(n_bins, intervals, level, method, draws, groups, seed)
    return _evaluate(per_row, per_column, rows.n_classes, rows.n, options)


def evaluate_probabilities(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    per_class: bool = False,
    intervals: bool = False,
    level: float = 0.95,
    method: str = "basic",
    draws: int = 1000,
    groups: AnyArray = None,
    seed: int = 0,
) -> Evaluation:
    """The same as :func:`evaluate` from probabilities, in scikit-learn's order of arguments.

    >>> round(evaluate_probabilities([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.7]).brier, 6)
    0.075
    """
    labels, p, weights, positive = check_pair(y_true, probabilities, sample_weight, classes)
    per_row = Scores.of_checked(labels, p, weights, positive)
    per_column = ClassScores.of_probabilities(labels, p, weights) if per_class else None
    options = _Options(n_bins, intervals, level, method, draws, groups, seed)
    return _evaluate(per_row, per_column, p.shape[1], len(p), options)


@dataclass(frozen=True)
class _Options:
    n_bins: int
    intervals: bool
    level: float
    method: str
    draws: int
    groups: AnyArray
    seed: int


def _evaluate(per_row: Scores, per_column: ClassScores | None, n_classes: int, n: int, options: _Options) -> Evaluation:
    check_level(options.level)
    if options.draws < 2:
        raise InputError(f"draws must be at least 2; it is {options.draws}. The usual choice is 1000.")
    summary = Summary.of_scores(per_row, options.n_bins)
    statistics = Statistics.of_scores(per_row, n_bins=options.n_bins)
    values = dict(zip(NAMES, map(float, summary.of(per_row.weights)), strict=True))
    values |= {name: getattr(statistics, name) for name in ("accuracy", "nll", "brier", "entropy", "gap", "ece", "mce")}
    if per_column is not None:
        values["classwise_ece"] = per_column.classwise_ece(options.n_bins)
        values["marginal_debiased_ece"] = per_column.marginal_debiased(DEBIASED_BINS)
    return Evaluation(
        statistics=statistics,
        n_classes=n_classes,
        ece_floor=float(simulate_floor(per_row, options.n_bins, FLOOR_DRAWS, options.seed).mean()),
        intervals=_intervals(summary, per_column, n, values, options) if options.intervals else _NO_INTERVALS,
        **values,
    )


def _intervals(
    summary: Summary, per_column: ClassScores | None, n: int, values: dict[str, float], options: _Options
) -> Mapping[str, Interval]:
    scores, draws, seed = summary.scores, options.draws, options.seed
    units = units_of(options.groups, scores.kept, n)
    drawn: dict[str, Float64] = dict(zip(NAMES, summary.replicates(units, draws, seed).T, strict=True))
    calibrated = dict(zip(NAMES, summary.calibrated(draws, seed).T, strict=True))
    if per_column is not None:
        where = (units, scores.kept, draws, seed)
        drawn["classwise_ece"] = per_column.classwise_replicates(options.n_bins, *where)
        drawn["marginal_debiased_ece"] = per_column.marginal_replicates(DEBIASED_BINS, *where)
    return MappingProxyType(
        {
            name: interval_of(
                values[name],
                np.asarray(replicates),
                level=options.level,
                method=options.method,
                bounds=RANGES.get(name, (0, 1)),
                calibrated=calibrated[name] if name in ERRORS else None,
            )
            for name, replicates in drawn.items()
        }
    )
