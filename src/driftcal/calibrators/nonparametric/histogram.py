"""Histogram binning, and binning after Platt scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport, finish, mask
from driftcal.calibrators.kernels.class_columns import LOG_ODDS, SOFTMAX, Column, for_each_column
from driftcal.calibrators.nonparametric.kernels.quantiles import order_statistics, sums_up_to
from driftcal.calibrators.scaling.platt import Line, fit_line, platt_kernel, platt_report, to_sigmoid
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, kernel, softmax_kernel
from driftcal.errors import InputError
from driftcal.types import Array, Float64, Logits

_FEW = 32  # bins: for more than these, sorting is cheaper than one comparison of each score with each edge


class HistogramBinning(Calibrator):
    """Each class' score is replaced by how often the class was right in the score's bin; rows are normalised.

    Ten bins per class that hold the same weight (`strategy="mass"`) or have the same width (`"width"`). A bin is
    (lower edge, upper edge]; an edge is a score, so equal scores share a bin and there may be fewer bins. An empty bin
    answers with its middle. Zadrozny and Elkan 2001, section 3.

    >>> import numpy as np
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]])
    >>> HistogramBinning(n_bins=2).fit(np.log(p), [0, 0, 1, 1]).predict_proba(np.log(p))
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """

    keeps_accuracy = False
    fitted = ("bin_edges_", "bin_values_")

    def __init__(self, *, n_bins: int = 10, strategy: str = "mass", classes: Sequence[Any] | None = None) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        _check_bins(self.n_bins)
        if self.strategy not in ("mass", "width"):
            raise InputError(f"strategy must be 'mass' or 'width'; it is {self.strategy!r}. 'mass' is the usual one.")
        even = np.linspace(0, 1, self.n_bins + 1)[1:-1] if self.strategy == "width" else None

        def bin_class(column: Column) -> tuple[Float64, Float64, float, float]:
            seen = column.scores >= 0
            np.maximum(column.scores, 0, out=column.scores)
            bins = _Bins.of(_unmasked(column, seen), self.n_bins, even)
            own = column.labels == column.number
            scores, weights = column.scores[own], column.weights[own]
            found = own & seen if seen.any() else own
            places = np.searchsorted(bins.edges, column.scores[found])
            right = np.bincount(places, column.weights[found], self.n_bins).astype(np.float64)
            values = bins.mean(right)
            # Σ w (value − hit)² within the bins; a masked class that is right is off by 1
            left = (right * (1 - values)).sum() + column.weights[own & ~found].sum()
            # sums, not dot products: those would wake a second set of threads inside every one of ours
            squares = (column.scores**2 * column.weights).sum() + (weights * (1 - 2 * scores)).sum()
            return bins.edges, values, float(squares), float(left)

        binned, passes = for_each_column(rows, SOFTMAX, bin_class)
        self.bin_edges_ = np.array([edges for edges, *_ in binned])
        self.bin_values_ = np.array([values for _, values, *_ in binned])
        before, after = (math.fsum(part) / rows.weight for part in zip(*(b[2:] for b in binned), strict=True))
        return FitReport("squared error before normalising", before, after, passes)

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)
        _look_up(out, self.bin_edges_, self.bin_values_)
        finish(logits, out)


class PlattBinning(Calibrator):
    """Platt scaling, then binning of its outputs: a bin answers with the mean Platt output in it (scaling-binning).

    Ten bins per class of the same weight, edges and values from the same rows. Rows are normalised, unless
    `normalise=False` asks for the raw marginals, which need not sum to 1. Kumar, Liang and Ma 2019, section 4.

    >>> import numpy as np
    >>> logits = np.random.default_rng(0).normal(size=(200, 3))
    >>> labels = logits.argmax(axis=1)
    >>> labels[::3] = 0
    >>> PlattBinning().fit(logits, labels).predict_proba(logits).sum(axis=1).round(9)[:2]
    array([1., 1.])
    """

    keeps_accuracy = False
    fitted = ("slopes_", "intercepts_", "bin_edges_", "bin_values_")

    def __init__(self, *, n_bins: int = 10, normalise: bool = True, classes: Sequence[Any] | None = None) -> None:
        self.n_bins = n_bins
        self.normalise = normalise
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        _check_bins(self.n_bins)

        def fit_class(column: Column) -> tuple[Line, Float64, Float64]:
            line, seen = fit_line(column), column.scores > MASKED
            to_sigmoid(column.scores, line.slope, line.intercept)
            bins = _Bins.of(_unmasked(column, seen), self.n_bins)
            return line, bins.edges, bins.mean(bins.scores)

        fitted, passes = for_each_column(rows, LOG_ODDS, fit_class)
        lines = [line for line, _, _ in fitted]
        self.slopes_ = np.array([line.slope for line in lines])
        self.intercepts_ = np.array([line.intercept for line in lines])
        self.bin_edges_ = np.array([edges for _, edges, _ in fitted])
        self.bin_values_ = np.array([values for _, _, values in fitted])
        report = platt_report(rows, lines, passes)
        return replace(report, loss=f"{report.loss}, before binning")

    def _map(self, logits: Logits, out: Float64) -> None:
        platt_kernel(logits, out, self.slopes_, self.intercepts_)
        _look_up(out, self.bin_edges_, self.bin_values_)
        (finish if self.normalise else mask)(logits, out)


def _check_bins(n_bins: int) -> None:
    if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        raise InputError(f"n_bins must be a whole number of at least 1; it is {n_bins!r}. The usual number is 10.")


def _unmasked(column: Column, seen: Array) -> Column:
    """The column without the rows in which its class is masked, which are answered with 0 and need no bin."""
    if seen.all() or not seen.any():
        return column
    return replace(column, scores=column.scores[seen], labels=column.labels[seen], weights=column.weights[seen])


@dataclass(frozen=True)
class _Bins:
    """Bins (edge, next edge] of one class: their inner edges, the weight in each and the weighted sum of its scores."""

    edges: Float64
    weight: Float64
    scores: Float64

    @classmethod
    def of(cls, column: Column, n_bins: int, edges: Float64 | None = None) -> _Bins:
        """Bins with the given edges, or with equal weight: edge k is the least score with k/n_bins at or below it."""
        n = len(column.scores)
        if column.even and n_bins <= _FEW:
            if edges is None:
                ranks = -(-np.arange(1, n_bins) * n // n_bins) - 1  # the least r with r + 1 >= k·n/n_bins
                edges = order_statistics(column.scores, ranks)
            counts, sums = sums_up_to(column.scores, np.append(edges, np.inf))
            each = float(column.weights[0])
            return cls(edges, each * np.diff(counts, prepend=0), each * np.diff(sums, prepend=0.0))
        order = np.argsort(column.scores, kind="stable")
        scores, weights = column.scores[order], column.weights[order]
        below = np.concatenate([[0.0], np.cumsum(weights)])
        if edges is None:
            # rounding of the sum must not push an edge beyond the score that reaches it exactly
            ranks = np.searchsorted(below[1:], np.arange(1, n_bins) / n_bins * below[-1] * (1 - 1e-12))
            edges = scores[ranks]
        bounds = np.concatenate([[0], np.searchsorted(scores, edges, side="right"), [n]])
        filled = np.flatnonzero(np.diff(bounds))
        sums = np.zeros(n_bins)
        sums[filled] = np.add.reduceat(scores * weights, bounds[filled])
        return cls(edges, np.diff(below[bounds]), sums)

    def mean(self, part: Float64) -> Float64:
        """part / weight of each bin; an empty bin answers with its middle."""
        outer = np.concatenate([[0.0], self.edges, [1.0]])
        middle = (outer[1:] + outer[:-1]) / 2
        means: Float64 = np.divide(part, self.weight, out=middle, where=self.weight > 0)
        return means


@kernel
def _bin_of(score: float, edges: Float64) -> int:
    """How many edges lie below `score`: an edge belongs to the bin below it."""
    low = 0
    high = edges.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if edges[middle] < score:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _look_up(probs: Float64, edges: Float64, values: Float64) -> None:
    for i in range(probs.shape[0]):
        for c in range(probs.shape[1]):
            probs[i, c] = values[c, _bin_of(probs[i, c], edges[c])]
