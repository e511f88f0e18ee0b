"""One pass over the rows gives sums; sums of shards add; every binned metric and proper score reads from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from driftcal.errors import InputError
from driftcal.metrics.scores import WIDTH, WORST_NLL, Scores, is_positive, rows_of, score_row
from driftcal.numerics import kernel
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights

# Sums over all rows and sums per bin, in the order of the fields of Statistics.
_TOTALS, _PER_BIN = 7, 7


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over labelled rows that add: ``Statistics.of(a) + Statistics.of(b)`` equals seeing both.

    Bins are ((m−1)/M, m/M]; 0.0 is in the first, an edge belongs to the bin below. All sums are weighted but `rows`,
    `clipped` and `bin_rows`, which count rows with positive weight.

    >>> import numpy as np
    >>> seen = Statistics.of(np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), [0, 1, 1])
    >>> print(f"{seen.accuracy:.3f} {seen.ece:.3f}")
    0.667 0.447
    >>> (seen + seen).ece == seen.ece
    True
    """

    rows: int
    weight: float
    correct_sum: float
    nll_sum: float
    brier_sum: float
    entropy_sum: float
    clipped: int
    bin_rows: Array
    bin_weight: Float64
    bin_confidence: Float64
    bin_outcome: Float64
    bin_square: Float64  # confidence²
    bin_product: Float64  # confidence · outcome
    bin_variance: Float64  # weight² · confidence · (1 − confidence)
    positive: bool = False

    @classmethod
    def of(
        cls, logits: AnyArray, y: AnyArray = None, *, sample_weight: AnyArray = None, n_bins: int = 15
    ) -> Statistics:
        """One pass over logits: an array, a memory map, a source of chunks larger than memory, or :class:`Rows`."""
        rows = rows_of(logits, y, sample_weight)
        positive = is_positive(logits)
        edges = bin_edges(n_bins)
        sums = rows.sums(_add_rows, (1 + _PER_BIN, max(_TOTALS, n_bins)), edges, positive)
        return cls._of(sums[0], sums[1:, :n_bins], positive)

    @classmethod
    def of_probabilities(
        cls,
        y_true: AnyArray,
        probabilities: AnyArray,
        *,
        sample_weight: AnyArray = None,
        n_bins: int = 15,
        classes: Sequence[Any] | None = None,
    ) -> Statistics:
        """The same from probabilities, in scikit-learn's order of arguments."""
        return cls.of_scores(Scores.of_probabilities(y_true, probabilities, sample_weight, classes), n_bins=n_bins)

    @classmethod
    def of_scores(cls, scores: Scores, *, n_bins: int = 15) -> Statistics:
        """The same from the six numbers per row of :class:`Scores`."""
        edges = bin_edges(n_bins)
        totals, bins = np.zeros(_TOTALS), np.zeros((_PER_BIN, n_bins))
        add_columns(scores.columns, scores.weights, totals, bins, edges)
        return cls._of(totals, bins, scores.positive)

    @classmethod
    def _of(cls, totals: Float64, bins: Float64, positive: bool) -> Statistics:
        per_bin = bins.copy()
        values = [int(totals[0]), *map(float, totals[1:6]), int(totals[6]), per_bin[0].astype(np.int64), *per_bin[1:]]
        return cls._from([*values, positive])

    @classmethod
    def _from(cls, values: list[Any]) -> Statistics:
        return cls(**dict(zip((f.name for f in fields(cls)), values, strict=True)))

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.n_bins != other.n_bins or self.positive != other.positive:
            raise InputError(
                "statistics must have the same bins and the same kind of confidence to be added; these have "
                f"{self.n_bins} and {other.n_bins} bins, positive={self.positive} and {other.positive}. Compute both alike."
            )
        sums = [getattr(self, f.name) + getattr(other, f.name) for f in fields(self)[:-1]]
        return self._from([*sums, self.positive])

    def __radd__(self, other: Any) -> Statistics:
        """So that ``sum(parts)`` works, which begins with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    @property
    def n_bins(self) -> int:
        """M, the number of equal-width bins."""
        return len(self.bin_weight)

    @property
    def edges(self) -> Float64:
        """The M + 1 edges of the bins."""
        return bin_edges(self.n_bins)

    @property
    def accuracy(self) -> float:
        """The share of rows whose most probable class is the label."""
        return self.correct_sum / self.weight

    @property
    def nll(self) -> float:
        """Mean −log p(label), probabilities clipped at 1e-15; `clipped` rows were."""
        return self.nll_sum / self.weight

    @property
    def brier(self) -> float:
        """Mean squared error: summed over classes, or of class 1 alone where ``positive``."""
        return self.brier_sum / self.weight

    @property
    def entropy(self) -> float:
        """Mean entropy of the predicted distribution, in nats."""
        return self.entropy_sum / self.weight

    @property
    def confidence(self) -> float:
        """Mean confidence."""
        return float(self.bin_confidence.sum()) / self.weight

    @property
    def gap(self) -> float:
        """Mean confidence − mean outcome: above 0 is over-confident, below 0 under-confident."""
        return float((self.bin_confidence - self.bin_outcome).sum()) / self.weight

    @property
    def ece(self) -> float:
        """Σ_b |confidence_b − outcome_b| / W over M equal-width bins.  Naeini et al. 2015; Guo et al. 2017, section 2."""
        return float(np.abs(self.bin_confidence - self.bin_outcome).sum()) / self.weight

    @property
    def mce(self) -> float:
        """The largest gap of a bin that holds a row.  Guo et al. 2017, section 2."""
        seen = self.bin_weight > 0
        return float((np.abs(self.bin_confidence - self.bin_outcome)[seen] / self.bin_weight[seen]).max())

    @property
    def ece_floor(self) -> float:
        """The ECE that a perfectly calibrated model with these confidences would show on average.

        Σ_b sqrt(2/π · Σ w² c (1−c)) / W: residuals of a bin taken as normal, a few percent off where bins hold few rows;
        :func:`driftcal.metrics.ece_floor` simulates instead.
        """
        return float(np.sqrt(2 / math.pi * self.bin_variance).sum()) / self.weight

    @property
    def histogram(self) -> Float64:
        """The share of weight in each bin of confidence."""
        return self.bin_weight / self.weight

    @property
    def curve(self) -> tuple[Float64, Float64]:
        """The reliability curve: mean confidence and mean outcome of each bin, NaN where it is empty."""
        weight = np.where(self.bin_weight > 0, self.bin_weight, np.nan)
        return self.bin_confidence / weight, self.bin_outcome / weight

    @property
    def decomposition(self) -> BrierDecomposition:
        """The squared error of the confidence, taken apart; see :class:`BrierDecomposition`."""
        seen = self.bin_weight > 0
        w, c, o = self.bin_weight[seen], self.bin_confidence[seen], self.bin_outcome[seen]
        base = o.sum() / self.weight
        return BrierDecomposition(
            score=float((self.bin_square - 2 * self.bin_product + self.bin_outcome).sum()) / self.weight,
            reliability=float((w * (c / w - o / w) ** 2).sum()) / self.weight,
            resolution=float((w * (o / w - base) ** 2).sum()) / self.weight,
            uncertainty=float(base * (1 - base)),
            within_bin_variance=float((self.bin_square[seen] - c * c / w).sum()) / self.weight,
            within_bin_covariance=float((self.bin_product[seen] - c * o / w).sum()) / self.weight,
        )


@dataclass(frozen=True)
class BrierDecomposition:
    """score = reliability − resolution + uncertainty + within_bin_variance − 2 · within_bin_covariance.

    The score is the mean squared difference of confidence and outcome. Murphy 1973 for the first three terms, Stephenson
    et al. 2008 for the last two, without which the sum is off whenever confidences differ inside a bin.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float


def bin_edges(n_bins: int) -> Float64:
    """0, 1/M, …, 1."""
    if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        raise InputError(f"n_bins must be a whole number of at least 1; it is {n_bins!r}. The usual choice is 15.")
    return np.linspace(0, 1, int(n_bins) + 1)


@kernel
def bin_index(confidence: float, edges: Float64) -> int:
    """``searchsorted(edges, confidence, side="left") - 1`` within the bins, from a guess that is off by one at most."""
    last = edges.shape[0] - 2
    m: int = min(max(math.ceil(confidence * (last + 1)) - 1, 0), last)
    while m > 0 and confidence <= edges[m]:
        m -= 1
    while m < last and confidence > edges[m + 1]:
        m += 1
    return m


@kernel
def add_column(six: Float64, w: float, totals: Float64, bins: Float64, edges: Float64) -> None:
    """Add one row's six numbers to the sums."""
    m = bin_index(six[0], edges)
    totals[0] += 1.0
    totals[1] += w
    totals[2] += w * six[2]
    totals[3] += w * min(six[3], WORST_NLL)
    totals[4] += w * six[4]
    totals[5] += w * six[5]
    if six[3] > WORST_NLL:
        totals[6] += 1.0
    bins[0, m] += 1.0
    bins[1, m] += w
    bins[2, m] += w * six[0]
    bins[3, m] += w * six[1]
    bins[4, m] += w * six[0] * six[0]
    bins[5, m] += w * six[0] * six[1]
    bins[6, m] += w * w * six[0] * (1.0 - six[0])


@kernel
def add_columns(columns: Float64, weights: Weights, totals: Float64, bins: Float64, edges: Float64) -> None:
    """Add rows with positive weight to the sums."""
    for i in range(columns.shape[0]):
        if weights[i] > 0:
            add_column(columns[i], weights[i], totals, bins, edges)


@kernel
def _add_rows(logits: Logits, labels: Labels, weights: Weights, sums: Float64, edges: Float64, positive: bool) -> None:
    six = np.empty(WIDTH)
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            score_row(logits[i], labels[i], positive, six)
            add_column(six, weights[i], sums[0], sums[1:], edges)
