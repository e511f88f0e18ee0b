"""First-pass statistics: what every fit of a temperature needs before it tries one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, differences, exp, row_max, with_small
from driftcal.errors import NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights

#: If logits differ by less on average, all temperatures count as equal: the squares of such differences underflow.
FLAT = 1e-100
#: Sums over millions of samples are rounded by about this share.
ROUNDING = 1e-13

#: The index of each sum of the first pass, in the order of the fields of `FirstPass`.
ERROR_RATE, GRADIENT_AT_ZERO, TOP_MINUS_MEAN, NLL, SUM_OF_SQUARES, TRUE_CLASS_PROBABILITY, UNIFORM = range(7)


@dataclass(frozen=True)
class FirstPass:
    """Weighted means over the samples, with q = softmax(z).

    Parameters
    ----------
    error_rate
        The share of samples whose true class is not the top class.
    gradient_at_zero
        The gradient of the negative log-likelihood of softmax(beta·z) at beta = 0.
    top_minus_mean
        The largest logit minus the mean logit.
    nll
        The negative log-likelihood of q.
    sum_of_squares
        Σ q² over the classes.
    true_class_probability
        q of the true class.
    uniform
        The probability of a uniform prediction: 1/(classes that are not masked).
    """

    error_rate: float
    gradient_at_zero: float
    top_minus_mean: float
    nll: float
    sum_of_squares: float
    true_class_probability: float
    uniform: float

    @property
    def brier(self) -> float:
        """The squared error of the uncalibrated model."""
        return self.sum_of_squares - 2 * self.true_class_probability + 1

    @property
    def better_than_chance(self) -> bool:
        """Whether a little confidence lowers the loss of a uniform prediction, by more than rounding of the sums."""
        return self.gradient_at_zero < -ROUNDING * self.top_minus_mean


def first_pass(data: LabelledLogits) -> FirstPass:
    """First-pass statistics of labelled logits."""
    return FirstPass(*(data.reduce_sum(_first_pass_sums, len(fields(FirstPass))) / data.total_weight).tolist())


def mean_first_pass(weights: Float64, passes: Sequence[FirstPass]) -> FirstPass:
    """The weighted mean of the first-pass statistics of several sets of samples; sets of weight 0 may hold anything."""
    used = [(weight, astuple(first)) for weight, first in zip(weights, passes, strict=True) if weight > 0]
    return FirstPass(*(float(sum(weight * value[k] for weight, value in used)) for k in range(len(fields(FirstPass)))))


def checked_first_pass(data: LabelledLogits, t_max: float | None) -> FirstPass:
    """First-pass statistics; raises `NoFiniteOptimum` if no temperature is best by any loss."""
    return check_first_pass(first_pass(data), t_max)


def check_first_pass(first: FirstPass, t_max: float | None) -> FirstPass:
    """The same statistics; raises `NoFiniteOptimum` if no temperature is best by any loss."""
    if first.top_minus_mean < FLAT:  # all temperatures give the same probabilities
        if t_max is None:
            raise no_better_than_chance()
        return first
    if first.error_rate == 0:
        raise NoFiniteOptimum(
            "the best temperature is 0: the model is correct on every tuning sample, so there is no error to measure confidence by. "
            "Tune on more samples or on perturbed ones, or leave the model uncalibrated (method 'base')."
        )
    return first


def check_nll_optimum(first: FirstPass, t_max: float | None) -> None:
    """Raise `NoFiniteOptimum` if no finite temperature has the lowest negative log-likelihood."""
    check_first_pass(first, t_max)
    if not math.isfinite(first.gradient_at_zero):
        raise NoFiniteOptimum(
            "tuning needs a finite logit for every true class; the true class of a sample is masked with -inf, so its loss "
            "is infinite at every temperature. Drop such samples or give them weight 0."
        )
    if not first.better_than_chance and t_max is None:
        raise no_better_than_chance()


def no_better_than_chance() -> NoFiniteOptimum:
    """The error for T -> infinity."""
    return NoFiniteOptimum(
        "the best temperature is infinite: the model is no better than chance on the tuning samples. "
        "Check that labels and columns match, or cap the temperature with t_max=5."
    )


def _small_first_pass_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    used = np.flatnonzero(weights)
    logits, labels, w = logits[used], labels[used], weights[used]
    d, top = differences(logits)
    e = np.exp(d)
    s0 = e.sum(axis=1)
    is_masked = np.isneginf(logits)
    n_unmasked = (~is_masked).sum(axis=1)
    total = np.where(is_masked, 0.0, d).sum(axis=1)
    true = np.arange(len(labels)), labels
    d_true = logits[true].astype(np.float64) - top[:, 0]
    sums[ERROR_RATE] += w[d_true < 0].sum()
    sums[GRADIENT_AT_ZERO] += w @ (total / n_unmasked - d_true)
    sums[TOP_MINUS_MEAN] -= w @ (total / n_unmasked)
    sums[NLL] += w @ (np.log(s0) - d_true)
    sums[SUM_OF_SQUARES] += w @ ((e * e).sum(axis=1) / (s0 * s0))
    sums[TRUE_CLASS_PROBABILITY] += w @ (e[true] / s0)
    sums[UNIFORM] += (w / n_unmasked).sum()


@with_small(_small_first_pass_sums)
def _first_pass_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    """Add the fields of `FirstPass`, times the weights."""
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a sample may hold anything, even an infinite loss
            continue
        row = logits[i]
        top = row_max(row)
        total = 0.0
        s0 = 0.0
        q0 = 0.0
        for c in range(row.shape[0]):
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(d)
            s0 += e
            q0 += e * e
            total += d
        n_unmasked = row.shape[0]
        if total <= MASKED:  # masked classes do not count; they are rare, so the loop above does not test for them
            total = 0.0
            n_unmasked = 0
            for c in range(row.shape[0]):
                if row[c] > -np.inf:
                    total += np.float64(row[c]) - top
                    n_unmasked += 1
        d_true = np.float64(row[labels[i]]) - top
        sums[ERROR_RATE] += w if d_true < 0 else 0.0
        sums[GRADIENT_AT_ZERO] += w * (total / n_unmasked - d_true)
        sums[TOP_MINUS_MEAN] -= w * total / n_unmasked
        sums[NLL] += w * (math.log(s0) - d_true)
        sums[SUM_OF_SQUARES] += w * q0 / (s0 * s0)
        sums[TRUE_CLASS_PROBABILITY] += w * exp(max(d_true, MASKED)) / s0
        sums[UNIFORM] += w / n_unmasked
