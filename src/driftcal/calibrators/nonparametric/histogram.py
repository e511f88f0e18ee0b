"""Histogram binning, and histogram binning after Platt scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import warn_if_worse
from driftcal.calibrators.export_maps.export_map import ExportMap, Sigmoids
from driftcal.calibrators.export_maps.lookup import bin_table
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.nonparametric.kernels.breakpoints import first_not_below
from driftcal.calibrators.nonparametric.kernels.quantiles import order_statistics, sums_up_to
from driftcal.calibrators.nonparametric.kernels.tied_scores import raised_edges
from driftcal.calibrators.normalise import mask, normalise
from driftcal.calibrators.parameters import check_true_or_false, check_whole
from driftcal.calibrators.per_class import LOG_ODDS, SOFTMAX, ClassScores, for_each_class
from driftcal.calibrators.scaling.platt import Line, fit_line, platt_kernel, platt_report, to_sigmoid
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, kernel, softmax_kernel
from driftcal.errors import InputError
from driftcal.types import Array, Float64, Logits

#: With more bins, sorting is faster than comparing each score with each edge.
_MAX_UNSORTED_BINS = 32


_BINS = {
    "bin_edges_": FittedArray("classes", "edges", may_be_empty=True),
    "bin_values_": FittedArray("classes", "bins", low=0, high=1),
}


class HistogramBinning(LogitCalibrator):
    """The score of each class is replaced by the frequency of the class in the score's bin, then normalised.

    Each class has `n_bins` bins that hold the same weight (`strategy="mass"`) or have the same width (`"width"`). A bin
    is (lower edge, upper edge]. An edge is a score, so equal scores share a bin, and some bins may be empty. The value
    of an empty bin is its middle. Zadrozny and Elkan 2001, section 3.

    >>> import numpy as np
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    >>> HistogramBinning(n_bins=2).fit(np.log(p), [0, 0, 1, 1]).predict_proba(np.log(p))
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    keeps_accuracy = False
    fitted = _BINS

    def __init__(self, *, n_bins: int = 10, strategy: str = "mass", classes: Sequence[Any] | None = None) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        even_edges = np.arange(1, self.n_bins) / self.n_bins if self.strategy == "width" else None

        def bin_class(column: ClassScores) -> _BinnedClass:
            unmasked = column.scores >= 0
            np.maximum(column.scores, 0, out=column.scores)
            bins = _Bins.of(_select(column, unmasked), self.n_bins, even_edges)
            is_class = column.labels == column.column
            scores, weights = column.scores[is_class], column.weights[is_class]
            in_bins = is_class & unmasked if unmasked.any() else is_class
            bin_numbers = np.searchsorted(raised_edges(bins.edges), column.scores[in_bins])
            hits = np.bincount(bin_numbers, column.weights[in_bins], self.n_bins).astype(np.float64)
            values = bins.mean(hits)
            # Σ w (value − hit)² within the bins; a masked true class has the error 1
            after = (hits * (1 - values)).sum() + column.weights[is_class & ~in_bins].sum()
            # sums, not dot products: BLAS would start threads inside each of these threads
            before = (column.scores**2 * column.weights).sum() + (weights * (1 - 2 * scores)).sum()
            return _BinnedClass(bins.edges, values, float(before), float(after))

        binned_classes, passes = for_each_class(data, SOFTMAX, bin_class)
        self.bin_edges_ = np.array([binned.edges for binned in binned_classes])
        self.bin_values_ = np.array([binned.values for binned in binned_classes])
        before = math.fsum(binned.before for binned in binned_classes) / data.total_weight
        after = math.fsum(binned.after for binned in binned_classes) / data.total_weight
        warnings = warn_if_worse("squared error", before, after)
        return FitReport("squared error before normalising", before, after, passes, warnings=warnings)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)
        _replace_by_bins(out, raised_edges(self.bin_edges_), self.bin_values_)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """softmax(z), then bins per class, normalised."""
        return ExportMap(table=bin_table(self.bin_edges_, self.bin_values_), last_step="normalise")

    def _check_params(self) -> None:
        check_whole("n_bins", self.n_bins, 1, 10)
        if self.strategy not in ("mass", "width"):
            raise InputError(f"strategy must be 'mass' or 'width'; it is {self.strategy!r}. 'mass' is the usual one.")

    def _check_fitted(self) -> None:
        _check_edges(self.bin_edges_, self.bin_values_)


@dataclass(frozen=True, eq=False)
class _BinnedClass:
    """Inner edges and values of the bins of one class, and its squared error before and after."""

    edges: Float64
    values: Float64
    before: float
    after: float


class PlattBinning(LogitCalibrator):
    """Platt scaling, then binning of its outputs: the value of a bin is the mean Platt output in it (scaling-binning).

    Each class has `n_bins` bins of the same weight; edges and values come from the same samples. Probabilities are
    normalised. With `normalise=False` they are the raw marginals, which need not sum to 1. Kumar, Liang and Ma 2019,
    section 4.

    >>> import numpy as np
    >>> logits = np.random.default_rng(0).normal(size=(200, 3))
    >>> labels = logits.argmax(axis=1)
    >>> labels[::3] = 0
    >>> PlattBinning().fit(logits, labels).predict_proba(logits).sum(axis=1).round(9)[:2]
    array([1., 1.])
    """

    keeps_accuracy = False
    uses_sample_count = True  # in smoothed targets
    fitted = {"slopes_": FittedArray("classes"), "intercepts_": FittedArray("classes"), **_BINS}

    def __init__(self, *, n_bins: int = 10, normalise: bool = True, classes: Sequence[Any] | None = None) -> None:
        self.n_bins = n_bins
        self.normalise = normalise
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        def fit_class(column: ClassScores) -> tuple[Line, _Bins]:
            line, unmasked = fit_line(column), column.scores > MASKED
            to_sigmoid(column.scores, line.slope, line.intercept)
            return line, _Bins.of(_select(column, unmasked), self.n_bins, steepness=line.slope)

        fitted, passes = for_each_class(data, LOG_ODDS, fit_class)
        lines = [line for line, _ in fitted]
        self.slopes_ = np.array([line.slope for line in lines])
        self.intercepts_ = np.array([line.intercept for line in lines])
        self.bin_edges_ = np.array([bins.edges for _, bins in fitted])
        self.bin_values_ = np.array([bins.mean(bins.scores) for _, bins in fitted])
        report = platt_report(data, lines, passes)
        return replace(report, loss=f"{report.loss}, before binning")

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        platt_kernel(logits, out, self.slopes_, self.intercepts_)
        _replace_by_bins(out, raised_edges(self.bin_edges_, self.slopes_[:, None]), self.bin_values_)
        (normalise if self.normalise else mask)(logits, out)

    def export_map(self) -> ExportMap:
        """σ(a·x + b) per class, then bins, normalised unless `normalise=False`."""
        table = bin_table(self.bin_edges_, self.bin_values_, self.slopes_)
        return ExportMap(Sigmoids(self.slopes_, self.intercepts_), table, "normalise" if self.normalise else "mask")

    def _check_params(self) -> None:
        check_whole("n_bins", self.n_bins, 1, 10)
        check_true_or_false("normalise", self.normalise)

    def _check_fitted(self) -> None:
        _check_edges(self.bin_edges_, self.bin_values_)


def _check_edges(edges: Float64, values: Float64) -> None:
    if edges.shape[1] + 1 != values.shape[1]:
        raise ValueError(
            f"bin_edges_ must be one fewer than bin_values_; there are {edges.shape[1]} and {values.shape[1]}"
        )


def _select(column: ClassScores, unmasked: Array) -> ClassScores:
    """The column without the samples in which its class is masked: their probability is 0, so they need no bin."""
    if unmasked.all() or not unmasked.any():
        return column
    scores, labels, weights = column.scores[unmasked], column.labels[unmasked], column.weights[unmasked]
    return replace(column, scores=scores, labels=labels, weights=weights)


@dataclass(frozen=True)
class _Bins:
    """Bins (edge, next edge] of one class: inner edges, the weight of each bin, and the weighted sum of its scores.

    A score that is equal to an edge up to rounding is in the bin below it.
    """

    edges: Float64
    weight: Float64
    scores: Float64

    @classmethod
    def of(cls, column: ClassScores, n_bins: int, edges: Float64 | None = None, steepness: float = 1.0) -> _Bins:
        """Bins with these edges; or of equal weight, where a share k/n_bins of it is at or below edge k."""
        n = len(column.scores)
        if column.equal_weights and n_bins <= _MAX_UNSORTED_BINS:
            if edges is None:
                ranks = -(-np.arange(1, n_bins) * n // n_bins) - 1  # the least r with r + 1 >= k·n/n_bins
                edges = order_statistics(column.scores, ranks)
            counts, sums = sums_up_to(column.scores, np.append(raised_edges(edges, steepness), np.inf))
            weight = float(column.weights[0])
            return cls(edges, weight * np.diff(counts, prepend=0), weight * np.diff(sums, prepend=0.0))
        order = np.argsort(column.scores, kind="stable")
        scores, weights = column.scores[order], column.weights[order]
        cumulative = np.concatenate([[0.0], np.cumsum(weights)])
        if edges is None:
            # without the factor, rounding could move an edge beyond the score that reaches it exactly
            ranks = np.searchsorted(cumulative[1:], np.arange(1, n_bins) / n_bins * cumulative[-1] * (1 - 1e-12))
            edges = scores[ranks]
        bounds = np.concatenate([[0], np.searchsorted(scores, raised_edges(edges, steepness), side="right"), [n]])
        filled = np.flatnonzero(np.diff(bounds))
        sums = np.zeros(n_bins)
        sums[filled] = np.add.reduceat(scores * weights, bounds[filled])
        return cls(edges, np.diff(cumulative[bounds]), sums)

    def mean(self, sums: Float64) -> Float64:
        """Weighted sums per bin divided by its weight; the mean of an empty bin is its middle."""
        all_edges = np.concatenate([[0.0], self.edges, [1.0]])
        middle = (all_edges[1:] + all_edges[:-1]) / 2
        means: Float64 = np.divide(sums, self.weight, out=middle, where=self.weight > 0)
        return np.minimum(means, 1)  # the two sums of weights may differ by rounding


@kernel
def _replace_by_bins(probs: Float64, edges: Float64, values: Float64) -> None:
    """Replace each probability by the value of its bin; an edge belongs to the bin below it."""
    for i in range(probs.shape[0]):
        for c in range(probs.shape[1]):
            probs[i, c] = values[c, first_not_below(edges[c], probs[i, c], 0, edges.shape[1])]
