"""Every metric of one set of predictions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from driftcal.errors import InputError, UnknownName, need
from driftcal.image_checks import as_seed
from driftcal.metrics.bootstrap import METHODS, Interval, check_level, interval_of, units_of
from driftcal.metrics.classwise import ClassScores
from driftcal.metrics.scores import Scores, check_pair, is_positive, rows_of
from driftcal.metrics.statistics import Statistics, bin_edges
from driftcal.metrics.summary import DEBIASED_BINS, ERRORS, NAMES, RANGES, Summary, simulate_floor
from driftcal.types import AnyArray, Float64

#: Worlds simulated for the floor: its own error is then about one percent.
FLOOR_DRAWS = 200


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """All metrics of a set of predictions; `print` it, or read the fields.

    `ece_floor` is the ECE that a perfectly calibrated model with the same confidences would show on this many rows.
    `classwise_ece` and `marginal_debiased_ece` are None unless ``per_class=True``. `intervals`, and the `replicates` of each
    metric they come from, are empty unless asked for.
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
    intervals: Mapping[str, Interval] = field(default_factory=lambda: MappingProxyType({}))
    replicates: Mapping[str, Float64] = field(default_factory=lambda: MappingProxyType({}))

    def __getstate__(self) -> dict[str, Any]:
        """Plain dictionaries, which other processes and copies can take."""
        return {**self.__dict__, "intervals": dict(self.intervals), "replicates": dict(self.replicates)}

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
    rows = rows_of(logits, y, sample_weight, classes)
    per_row = Scores.of_logits(rows, positive=is_positive(logits))
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
    bin_edges(options.n_bins)
    check_level(options.level)
    as_seed(options.seed)
    units_of(options.groups, per_row.kept, n)
    if options.method not in METHODS:
        raise UnknownName.of("interval method", options.method, METHODS)
    if not isinstance(options.draws, int | np.integer) or options.draws < 2:
        raise InputError(
            f"draws must be at least 2, a whole number; it is {options.draws!r}. The usual choice is 1000."
        )
    summary = Summary.of_scores(per_row, options.n_bins)
    statistics = Statistics.of_scores(per_row, n_bins=options.n_bins)
    values = dict(zip(NAMES, map(float, summary.of(per_row.weights)), strict=True))
    values |= {name: getattr(statistics, name) for name in ("accuracy", "nll", "brier", "entropy", "gap", "ece", "mce")}
    if per_column is not None:
        values["classwise_ece"] = per_column.classwise_ece(options.n_bins)
        values["marginal_debiased_ece"] = per_column.marginal_debiased(DEBIASED_BINS)
    drawn = _replicates(summary, per_column, n, options) if options.intervals else {}
    return Evaluation(
        statistics=statistics,
        n_classes=n_classes,
        ece_floor=float(simulate_floor(per_row, options.n_bins, FLOOR_DRAWS, options.seed).mean()),
        intervals=MappingProxyType(_intervals(summary, values, drawn, options) if drawn else {}),
        replicates=MappingProxyType(drawn),
        **values,
    )


def _replicates(summary: Summary, per_column: ClassScores | None, n: int, options: _Options) -> dict[str, Float64]:
    scores, draws, seed = summary.scores, options.draws, options.seed
    units = units_of(options.groups, scores.kept, n)
    drawn = dict(zip(NAMES, summary.replicates(units, draws, seed).T, strict=True))
    if per_column is not None:
        where = (units, scores.kept, draws, seed)
        drawn["classwise_ece"] = per_column.classwise_replicates(options.n_bins, *where)
        drawn["marginal_debiased_ece"] = per_column.marginal_replicates(DEBIASED_BINS, *where)
    return drawn


def _intervals(
    summary: Summary, values: dict[str, float], drawn: dict[str, Float64], options: _Options
) -> dict[str, Interval]:
    calibrated = dict(zip(NAMES, summary.calibrated(options.draws, options.seed).T, strict=True))
    return {
        name: interval_of(
            values[name],
            replicates,
            level=options.level,
            method=options.method,
            bounds=RANGES.get(name, (0, 1)),
            calibrated=calibrated[name] if name in ERRORS else None,
        )
        for name, replicates in drawn.items()
    }


def difference(first: Evaluation, second: Evaluation, metric: str = "ece") -> tuple[float, Interval]:
    """How much larger a metric of the first evaluation is than that of the second, with a paired interval.

    Both must hold ``intervals=True`` on the same images in the same order with the same seed and groups: an image drawn for
    one is then drawn for the other, and what they share cancels.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits, y = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    >>> sure, soft = (evaluate(scale * logits, y, intervals=True, draws=200) for scale in (5, 1))
    >>> change, interval = difference(sure, soft, "nll")
    >>> interval.low > 0  # certainly worse
    True
    """
    a, b = first.replicates, second.replicates
    if metric not in first.metrics() or metric not in second.metrics():
        raise UnknownName.of("metric in both evaluations", metric, first.metrics().keys() & second.metrics().keys())
    if metric not in a or metric not in b or len(a[metric]) != len(b[metric]) or first.rows != second.rows:
        raise InputError(
            "both evaluations must hold as many replicates of the same rows; they hold "
            f"{len(a.get(metric, ()))} of {first.rows} rows and {len(b.get(metric, ()))} of {second.rows}. "
            "Evaluate both with intervals=True, the same draws, seed and groups."
        )
    value = getattr(first, metric) - getattr(second, metric)
    return value, interval_of(value, a[metric] - b[metric], level=first.intervals[metric].level)
