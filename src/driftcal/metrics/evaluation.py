"""Every metric of one set of predictions at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from driftcal.core.random import as_seed
from driftcal.errors import InputError, UnknownName, need
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.all_metrics import CALIBRATION_ERRORS, DEBIASED_BINS, NAMES, RANGES, AllMetrics
from driftcal.metrics.bins import bin_edges
from driftcal.metrics.bootstrap import image_numbers
from driftcal.metrics.classwise import ClassProbabilities
from driftcal.metrics.intervals import INTERVAL_METHODS, Interval, bootstrap_interval, check_confidence_level
from driftcal.metrics.null_simulation import null_ece_replicates
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.scores_and_labels import LabelledProbabilities, check_scores
from driftcal.types import AnyArray, Float64

#: Simulations of the null ECE: the error of its mean is then about one percent.
_NULL_RESAMPLES = 200


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """All metrics of a set of predictions; print it, or read the fields.

    `null_ece` is the expected ECE of a perfectly calibrated model with the same confidences on as many samples.
    `classwise_ece` and `marginal_debiased_ece` are None unless ``per_class=True``. `intervals` and the bootstrap
    `replicates` of each metric are empty unless ``intervals=True``.
    """

    statistics: Statistics
    n_classes: int
    accuracy: float
    nll: float
    brier: float
    entropy: float
    calibration_gap: float
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
    null_ece: float
    classwise_ece: float | None = None
    marginal_debiased_ece: float | None = None
    intervals: Mapping[str, Interval] = field(default_factory=lambda: MappingProxyType({}))
    replicates: Mapping[str, Float64] = field(default_factory=lambda: MappingProxyType({}))

    def __getstate__(self) -> dict[str, Any]:
        """The fields with dictionaries in place of read-only views, which cannot be pickled."""
        return {**self.__dict__, "intervals": dict(self.intervals), "replicates": dict(self.replicates)}

    @property
    def n_samples(self) -> int:
        """The number of samples with positive weight."""
        return self.statistics.n_samples

    @property
    def n_bins(self) -> int:
        """M, the number of bins of the ECE."""
        return self.statistics.n_bins

    @property
    def n_clipped(self) -> int:
        """The number of samples whose true class had a probability below 1e-15."""
        return self.statistics.n_clipped

    def metrics(self) -> dict[str, float]:
        """The metrics that were computed, by name."""
        names = (*NAMES, "classwise_ece", "marginal_debiased_ece")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def to_dict(self) -> dict[str, Any]:
        """The metrics as JSON values, with the numbers of samples, classes and bins, and intervals as [low, high]."""
        result: dict[str, Any] = {"n_samples": self.n_samples, "n_classes": self.n_classes, "n_bins": self.n_bins}
        result |= self.metrics() | {"null_ece": self.null_ece, "n_clipped": self.n_clipped}
        if self.intervals:
            result["intervals"] = {name: [i.low, i.high] for name, i in self.intervals.items()}
            result["confidence_level"] = next(iter(self.intervals.values())).confidence_level
        return result

    def to_frame(self) -> Any:
        """A pandas data frame with one line per metric: value, and low and high if there are intervals."""
        pandas = need("pandas", "pandas")
        table = {name: {"value": value} for name, value in self.metrics().items()}
        for name, i in self.intervals.items():
            table[name] |= {"low": i.low, "high": i.high}
        return pandas.DataFrame.from_dict(table, orient="index").rename_axis("metric")

    def __repr__(self) -> str:
        confidence = "probability of class 1" if self.statistics.positive_class else "confidence in the top label"
        lines = [f"{self.n_samples:,} samples, {self.n_classes} classes, {confidence}"]
        if self.intervals:
            lines[0] += f", {100 * next(iter(self.intervals.values())).confidence_level:g} % intervals"
        for name, value in self.metrics().items():
            label, remark = self._label(name)
            interval = f"  {self.intervals[name]!s:<20}" if name in self.intervals else ""
            lines.append(f"  {label:<30} {value:>9.4f}{interval}  {remark}".rstrip())
        return "\n".join(lines)

    def _label(self, name: str) -> tuple[str, str]:
        """The label of a metric, and a remark on its value."""
        label, remark = _LABELS[name]
        gap = self.calibration_gap
        all_alike = f"all predictions are {'correct' if self.accuracy else 'incorrect'}"
        remark = {
            "ece": f"null ECE {self.null_ece:.4f}, of a calibrated model",
            "nll": f"{self.n_clipped:,} samples clipped at 1e-15",
            "calibration_gap": "over-confident" if gap > 0 else "under-confident" if gap < 0 else "",
            "error_auroc": all_alike if self.accuracy in (0, 1) else remark,
        }.get(name, remark)
        return label.format(M=self.n_bins), remark


# name -> (label, remark)
_LABELS: dict[str, tuple[str, str]] = {
    "accuracy": ("accuracy", ""),
    "nll": ("NLL", ""),
    "brier": ("Brier score", ""),
    "entropy": ("entropy", "nats"),
    "calibration_gap": ("confidence − outcome", ""),
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
    y_true: AnyArray,
    scores: AnyArray = None,
    *,
    score_type: str | None = None,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Sequence[Any] | None = None,
    per_class: bool = False,
    intervals: bool = False,
    confidence_level: float = 0.95,
    method: str = "basic",
    n_resamples: int = 1000,
    groups: AnyArray = None,
    random_state: int = 0,
) -> Evaluation:
    """Every metric of these scores, in one pass over them; seven numbers per sample stay in memory.

    Parameters
    ----------
    y_true
        Labels. Alone, without `scores`: :class:`driftcal.core.dataset.LabelledLogits`, or a source of ``(logits, y)``
        chunks larger than memory.
    scores
        Logits, log-probabilities or probabilities, shape (n, C); an array or a memory map. Shape (n,) or (n, 1):
        those of class 1; metrics then evaluate the probability of class 1.
    score_type
        "logits" or "probabilities". Scores of one column need it; the default for others is "logits".
    n_bins
        Number of equal-width bins of the ECE.
    sample_weight
        Weight of each sample; whole numbers act as repeated samples.
    classes
        The class of each column, for labels that are names.
    per_class
        Add the class-wise metrics, which need more passes.
    intervals
        Bootstrap all metrics over images.
    confidence_level
        Probability that an interval holds the true value.
    method
        "basic" or "bias-corrected".
    n_resamples
        Bootstrap replicates.
    groups
        The image of each sample, if an image has several; images are resampled with all their samples.
    random_state
        Seed of the replicates.

    >>> import numpy as np
    >>> result = evaluate([0, 1, 2], np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]), n_bins=10)
    >>> round(result.ece, 3), round(result.nll, 3)
    (0.515, 1.295)
    >>> round(evaluate([1, 0, 1, 1], [0.9, 0.2, 0.6, 0.7], score_type="probabilities").brier, 6)
    0.075
    """
    data, positive_class = check_scores(
        y_true, scores, score_type=score_type, sample_weight=sample_weight, classes=classes
    )
    samples = SampleScores.of(data, positive_class=positive_class)
    n_samples = len(data) if isinstance(data, LabelledProbabilities) else data.n_samples
    options = _Options(n_bins, intervals, confidence_level, method, n_resamples, groups, random_state)
    options.check(samples, n_samples)
    by_class = ClassProbabilities.of(data) if per_class else None
    return _evaluate(samples, by_class, data.n_classes, n_samples, options)


@dataclass(frozen=True)
class _Options:
    """The options of :func:`evaluate`."""

    n_bins: int
    intervals: bool
    confidence_level: float
    method: str
    n_resamples: int
    groups: AnyArray
    random_state: int

    def check(self, samples: SampleScores, n_samples: int) -> None:
        bin_edges(self.n_bins)
        check_confidence_level(self.confidence_level)
        as_seed(self.random_state, "random_state")
        image_numbers(self.groups, samples.kept, n_samples)
        if self.method not in INTERVAL_METHODS:
            raise UnknownName.of("interval method", self.method, INTERVAL_METHODS)
        if not isinstance(self.n_resamples, int | np.integer) or self.n_resamples < 2:
            raise InputError(
                f"n_resamples must be a whole number of at least 2; it is {self.n_resamples!r}. The usual choice is 1000."
            )


def _evaluate(
    samples: SampleScores, by_class: ClassProbabilities | None, n_classes: int, n_samples: int, options: _Options
) -> Evaluation:
    metrics = AllMetrics.of(samples, options.n_bins)
    statistics = Statistics.of_samples(samples, n_bins=options.n_bins)
    values = dict(zip(NAMES, map(float, metrics.values(samples.weights)), strict=True))
    # these equal the properties of `statistics` to the last digit, which a sum in another order would not
    from_sums = ("accuracy", "nll", "brier", "entropy", "calibration_gap", "ece", "mce")
    values |= {name: getattr(statistics, name) for name in from_sums}
    if by_class is not None:
        values["classwise_ece"] = by_class.classwise_ece(options.n_bins)
        values["marginal_debiased_ece"] = by_class.marginal_debiased(DEBIASED_BINS)
    replicates = _replicates(metrics, by_class, n_samples, options) if options.intervals else {}
    null_eces = null_ece_replicates(samples, options.n_bins, _NULL_RESAMPLES, options.random_state)
    return Evaluation(
        statistics=statistics,
        n_classes=n_classes,
        null_ece=float(null_eces.mean()),
        intervals=MappingProxyType(_intervals(metrics, values, replicates, options) if replicates else {}),
        replicates=MappingProxyType(replicates),
        **values,
    )


def _replicates(
    metrics: AllMetrics, by_class: ClassProbabilities | None, n_samples: int, options: _Options
) -> dict[str, Float64]:
    """The bootstrap replicates of each metric."""
    kept, n_resamples, seed = metrics.samples.kept, options.n_resamples, options.random_state
    images = image_numbers(options.groups, kept, n_samples)
    replicates = dict(zip(NAMES, metrics.replicates(images, n_resamples, seed).T, strict=True))
    if by_class is not None:
        resampling = (images, kept, n_resamples, seed)
        replicates["classwise_ece"] = by_class.classwise_replicates(options.n_bins, *resampling)
        replicates["marginal_debiased_ece"] = by_class.marginal_replicates(DEBIASED_BINS, *resampling)
    return replicates


def _intervals(
    metrics: AllMetrics, values: dict[str, float], replicates: dict[str, Float64], options: _Options
) -> dict[str, Interval]:
    """The bootstrap interval of each metric."""
    null_replicates = metrics.null_replicates(options.n_resamples, options.random_state)
    null = dict(zip(NAMES, null_replicates.T, strict=True))
    return {
        name: bootstrap_interval(
            values[name],
            metric_replicates,
            confidence_level=options.confidence_level,
            method=options.method,
            bounds=RANGES.get(name, (0, 1)),
            null_replicates=null[name] if name in CALIBRATION_ERRORS else None,
        )
        for name, metric_replicates in replicates.items()
    }


def difference(first: Evaluation, second: Evaluation, metric: str = "ece") -> tuple[float, Interval]:
    """A metric of the first evaluation minus that of the second, with a paired interval.

    Both need ``intervals=True`` on the same images in the same order with the same `random_state` and `groups`. Both
    then have the same images in each replicate, and their common variation cancels.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits, y = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    >>> sharp, soft = (evaluate(y, scale * logits, intervals=True, n_resamples=200) for scale in (5, 1))
    >>> change, interval = difference(sharp, soft, "nll")
    >>> interval.low > 0  # the first is worse
    True
    """
    if metric not in first.metrics() or metric not in second.metrics():
        raise UnknownName.of("metric in both evaluations", metric, first.metrics().keys() & second.metrics().keys())
    none = np.zeros(0)
    a, b = first.replicates.get(metric, none), second.replicates.get(metric, none)
    if not len(a) or len(a) != len(b) or first.n_samples != second.n_samples:
        raise InputError(
            "both evaluations must hold as many replicates of the same samples; they hold "
            f"{len(a)} of {first.n_samples} samples and {len(b)} of {second.n_samples}. "
            "Evaluate both with intervals=True, the same n_resamples, random_state and groups."
        )
    value = getattr(first, metric) - getattr(second, metric)
    confidence_level = first.intervals[metric].confidence_level
    return value, bootstrap_interval(value, a - b, confidence_level=confidence_level)
