"""Sums over labelled samples: every metric with equal-width bins and every proper score is computed from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, with_small
from driftcal.errors import InputError
from driftcal.metrics.bins import bin_edges, bin_index, bin_indices
from driftcal.metrics.sample_scores import (
    BRIER,
    CONFIDENCE,
    CORRECT,
    ENTROPY,
    N_SCORES,
    NLL,
    OUTCOME,
    WORST_NLL,
    SampleScores,
    score_sample,
    small_score_samples,
)
from driftcal.metrics.scores_and_labels import check_scores
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights

# Positions of the sums over all samples.
_SAMPLES, _WEIGHT, _CORRECT_SUM, _NLL_SUM, _BRIER_SUM, _ENTROPY_SUM, _CLIPPED = range(7)
_N_TOTALS = 7
# Positions of the sums per bin.
_BIN_COUNT, _BIN_WEIGHT, _BIN_CONFIDENCE, _BIN_OUTCOME, _BIN_SQUARE, _BIN_PRODUCT, _BIN_VARIANCE = range(7)
_N_BIN_SUMS = 7


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """Sums over labelled samples: ``Statistics.of(y1, s1) + Statistics.of(y2, s2)`` equals one pass over both.

    Bins are ((m−1)/M, m/M]. 0.0 is in the first bin, and an edge belongs to the bin below. `n_samples`, `n_clipped` and
    `bin_count` count samples with positive weight; all other sums are weighted. If `positive_class`, the confidence is
    the probability of class 1 and the outcome is whether the label is 1; otherwise they are those of the most probable
    class.

    >>> import numpy as np
    >>> statistics = Statistics.of([0, 1, 1], np.array([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]))
    >>> print(f"{statistics.accuracy:.3f} {statistics.ece:.3f}")
    0.667 0.447
    >>> (statistics + statistics).ece == statistics.ece
    True
    """

    n_samples: int
    total_weight: float
    correct_sum: float
    nll_sum: float
    brier_sum: float
    entropy_sum: float
    n_clipped: int
    bin_count: Array
    bin_weight: Float64
    bin_confidence: Float64
    bin_outcome: Float64
    bin_square: Float64  # confidence²
    bin_product: Float64  # confidence · outcome
    bin_variance: Float64  # weight² · confidence · (1 − confidence)
    positive_class: bool = False

    def __repr__(self) -> str:
        return f"Statistics({self.n_samples} samples, {self.n_bins} bins, accuracy {self.accuracy:.4f}, ECE {self.ece:.4f})"

    @classmethod
    def of(
        cls,
        y_true: AnyArray,
        scores: AnyArray = None,
        *,
        score_type: str | None = None,
        sample_weight: AnyArray = None,
        n_bins: int = 15,
        classes: Sequence[Any] | None = None,
    ) -> Statistics:
        """One pass over the scores.

        Parameters
        ----------
        y_true
            Labels. Alone, without `scores`: :class:`driftcal.core.dataset.LabelledLogits`, or a source of ``(logits,
            y)`` chunks larger than memory.
        scores
            Logits or probabilities, shape (n, C); an array or a memory map. Shape (n,) or (n, 1): those of class 1.
        score_type
            "logits" or "probabilities". Scores of one column need it; the default for others is "logits".
        sample_weight
            Weight of each sample.
        n_bins
            Number of equal-width bins.
        classes
            The class of each column, for labels that are names.
        """
        data, positive_class = check_scores(
            y_true, scores, score_type=score_type, sample_weight=sample_weight, classes=classes
        )
        edges = bin_edges(n_bins)
        if not isinstance(data, LabelledLogits):
            return cls.of_samples(SampleScores.of(data, positive_class=positive_class), n_bins=n_bins)
        # one array: the totals in the first row, the sums per bin in the others
        sums = data.reduce_sum(_add_logits, (1 + _N_BIN_SUMS, max(_N_TOTALS, n_bins)), edges, positive_class)
        return cls._of_sums(sums[0], sums[1:, :n_bins], positive_class)

    @classmethod
    def of_samples(cls, samples: SampleScores, *, n_bins: int = 15) -> Statistics:
        """The sums over the six numbers per sample of :class:`SampleScores`."""
        edges = bin_edges(n_bins)
        totals, bins = np.zeros(_N_TOTALS), np.zeros((_N_BIN_SUMS, n_bins))
        _add_samples(samples.columns, samples.weights, totals, bins, edges)
        return cls._of_sums(totals, bins, samples.positive_class)

    @classmethod
    def _of_sums(cls, totals: Float64, bins: Float64, positive_class: bool) -> Statistics:
        bins = bins.copy()
        return cls(
            n_samples=int(totals[_SAMPLES]),
            total_weight=float(totals[_WEIGHT]),
            correct_sum=float(totals[_CORRECT_SUM]),
            nll_sum=float(totals[_NLL_SUM]),
            brier_sum=float(totals[_BRIER_SUM]),
            entropy_sum=float(totals[_ENTROPY_SUM]),
            n_clipped=int(totals[_CLIPPED]),
            bin_count=bins[_BIN_COUNT].astype(np.int64),
            bin_weight=bins[_BIN_WEIGHT],
            bin_confidence=bins[_BIN_CONFIDENCE],
            bin_outcome=bins[_BIN_OUTCOME],
            bin_square=bins[_BIN_SQUARE],
            bin_product=bins[_BIN_PRODUCT],
            bin_variance=bins[_BIN_VARIANCE],
            positive_class=positive_class,
        )

    @staticmethod
    def n_sums(n_bins: int) -> int:
        """The length of `to_array` with this many bins."""
        return _N_TOTALS + _N_BIN_SUMS * n_bins

    def to_array(self) -> Float64:
        """All sums in one array: adding the arrays of two parts gives the array of both."""
        return np.concatenate([np.ravel(getattr(self, name)).astype(np.float64) for name in _SUM_NAMES])

    @classmethod
    def from_array(cls, sums: Float64, *, positive_class: bool = False) -> Statistics:
        """The statistics that `to_array` describes."""
        return cls._of_sums(sums[:_N_TOTALS], sums[_N_TOTALS:].reshape(_N_BIN_SUMS, -1), positive_class)

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.n_bins != other.n_bins or self.positive_class != other.positive_class:
            raise InputError(
                "statistics must have the same bins and the same kind of confidence to be added; these have "
                f"{self.n_bins} and {other.n_bins} bins, positive_class={self.positive_class} and {other.positive_class}. Compute both alike."
            )
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUM_NAMES}
        return replace(self, **sums)

    def __radd__(self, other: Any) -> Statistics:
        """``sum(parts)`` begins with 0."""
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
        """The share of samples whose most probable class is the label."""
        return self.correct_sum / self.total_weight

    @property
    def nll(self) -> float:
        """Mean −log p(label), with probabilities clipped at 1e-15; `n_clipped` counts the clipped samples."""
        return self.nll_sum / self.total_weight

    @property
    def brier(self) -> float:
        """Mean squared error: summed over classes, or of class 1 alone if `positive_class`."""
        return self.brier_sum / self.total_weight

    @property
    def entropy(self) -> float:
        """Mean entropy of the predicted distribution, in nats."""
        return self.entropy_sum / self.total_weight

    @property
    def confidence(self) -> float:
        """Mean confidence."""
        return float(self.bin_confidence.sum()) / self.total_weight

    @property
    def calibration_gap(self) -> float:
        """Mean confidence − mean outcome: above 0 is over-confident, below 0 under-confident."""
        return float((self.bin_confidence - self.bin_outcome).sum()) / self.total_weight

    @property
    def ece(self) -> float:
        """Σ_b |confidence_b − outcome_b| / W over M equal-width bins.  Naeini et al. 2015; Guo et al. 2017, section 2.

        `confidence_b` and `outcome_b` are weighted sums over the samples of bin b, W is the total weight.
        """
        return float(np.abs(self.bin_confidence - self.bin_outcome).sum()) / self.total_weight

    @property
    def mce(self) -> float:
        """The largest |confidence − outcome| of a bin that holds a sample.  Guo et al. 2017, section 2."""
        filled = self.bin_weight > 0
        return float((np.abs(self.bin_confidence - self.bin_outcome)[filled] / self.bin_weight[filled]).max())

    @property
    def null_ece(self) -> float:
        """The expected ECE of a perfectly calibrated model with these confidences.

        Σ_b sqrt(2/π · Σ w² c (1−c)) / W. This assumes a normal residual in each bin, which is a few percent off if bins
        hold few samples; :func:`driftcal.metrics.null_ece` simulates instead.
        """
        return float(np.sqrt(2 / math.pi * self.bin_variance).sum()) / self.total_weight

    @property
    def histogram(self) -> Float64:
        """The share of weight in each bin of confidence."""
        return self.bin_weight / self.total_weight

    @property
    def curve(self) -> tuple[Float64, Float64]:
        """The reliability curve: mean confidence and mean outcome of each bin, NaN if it is empty."""
        weight = np.where(self.bin_weight > 0, self.bin_weight, np.nan)
        return self.bin_confidence / weight, self.bin_outcome / weight

    @property
    def decomposition(self) -> BrierDecomposition:
        """The parts of the squared error of the confidence; see :class:`BrierDecomposition`."""
        filled = self.bin_weight > 0
        w, c, o = self.bin_weight[filled], self.bin_confidence[filled], self.bin_outcome[filled]
        base_rate = o.sum() / self.total_weight
        return BrierDecomposition(
            score=float((self.bin_square - 2 * self.bin_product + self.bin_outcome).sum()) / self.total_weight,
            reliability=float((w * (c / w - o / w) ** 2).sum()) / self.total_weight,
            resolution=float((w * (o / w - base_rate) ** 2).sum()) / self.total_weight,
            uncertainty=float(base_rate * (1 - base_rate)),
            within_bin_variance=float((self.bin_square[filled] - c * c / w).sum()) / self.total_weight,
            within_bin_covariance=float((self.bin_product[filled] - c * o / w).sum()) / self.total_weight,
        )


# The sums in the order of the positions above.
_SUM_NAMES = tuple(f.name for f in fields(Statistics) if f.name != "positive_class")


@dataclass(frozen=True)
class BrierDecomposition:
    """score = reliability − resolution + uncertainty + within_bin_variance − 2 · within_bin_covariance.

    The score is the mean squared difference of confidence and outcome. The first three terms are those of Murphy 1973.
    The last two are those of Stephenson et al. 2008; they are not 0 if confidences differ inside a bin.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float


@kernel
def _add_sample(scores: Float64, w: float, totals: Float64, bins: Float64, edges: Float64) -> None:
    """Add the six numbers of one sample to the sums."""
    m = bin_index(scores[CONFIDENCE], edges)
    totals[_SAMPLES] += 1.0
    totals[_WEIGHT] += w
    totals[_CORRECT_SUM] += w * scores[CORRECT]
    totals[_NLL_SUM] += w * min(scores[NLL], WORST_NLL)
    totals[_BRIER_SUM] += w * scores[BRIER]
    totals[_ENTROPY_SUM] += w * scores[ENTROPY]
    if scores[NLL] > WORST_NLL:
        totals[_CLIPPED] += 1.0
    bins[_BIN_COUNT, m] += 1.0
    bins[_BIN_WEIGHT, m] += w
    bins[_BIN_CONFIDENCE, m] += w * scores[CONFIDENCE]
    bins[_BIN_OUTCOME, m] += w * scores[OUTCOME]
    bins[_BIN_SQUARE, m] += w * scores[CONFIDENCE] * scores[CONFIDENCE]
    bins[_BIN_PRODUCT, m] += w * scores[CONFIDENCE] * scores[OUTCOME]
    bins[_BIN_VARIANCE, m] += w * w * scores[CONFIDENCE] * (1.0 - scores[CONFIDENCE])


def _small_add_samples(columns: Float64, weights: Weights, totals: Float64, bins: Float64, edges: Float64) -> None:
    used = np.flatnonzero(weights > 0)
    scores, w = columns[used], weights[used]
    m = bin_indices(np.ascontiguousarray(scores[:, CONFIDENCE]), edges)
    confidence, outcome, nll = scores[:, CONFIDENCE], scores[:, OUTCOME], scores[:, NLL]
    totals[_SAMPLES] += len(used)
    totals[_WEIGHT] += w.sum()
    totals[_CORRECT_SUM] += w @ scores[:, CORRECT]
    totals[_NLL_SUM] += w @ np.minimum(nll, WORST_NLL)
    totals[_BRIER_SUM] += w @ scores[:, BRIER]
    totals[_ENTROPY_SUM] += w @ scores[:, ENTROPY]
    totals[_CLIPPED] += np.count_nonzero(nll > WORST_NLL)
    sums = {
        _BIN_COUNT: np.ones(len(used)), _BIN_WEIGHT: w, _BIN_CONFIDENCE: w * confidence, _BIN_OUTCOME: w * outcome,
        _BIN_SQUARE: w * confidence * confidence, _BIN_PRODUCT: w * confidence * outcome,
        _BIN_VARIANCE: w * w * confidence * (1.0 - confidence),
    }  # fmt: skip
    for position, values in sums.items():
        bins[position] += np.bincount(m, values, bins.shape[1])


@with_small(_small_add_samples)
def _add_samples(columns: Float64, weights: Weights, totals: Float64, bins: Float64, edges: Float64) -> None:
    """Add the samples with positive weight to the sums."""
    for i in range(columns.shape[0]):
        if weights[i] > 0:
            _add_sample(columns[i], weights[i], totals, bins, edges)


def _small_add_logits(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, edges: Float64, positive_class: bool
) -> None:
    scores = np.empty((len(logits), N_SCORES))
    small_score_samples(logits, labels, weights, scores, positive_class)
    _small_add_samples(scores, weights, sums[0], sums[1:], edges)


@with_small(_small_add_logits)
def _add_logits(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, edges: Float64, positive_class: bool
) -> None:
    scores = np.empty(N_SCORES)
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            score_sample(logits[i], labels[i], positive_class, scores)
            _add_sample(scores, weights[i], sums[0], sums[1:], edges)
