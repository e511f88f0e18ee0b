"""The accuracy of an unlabelled window, by regression on its label-free features over many simulated shifts.

Meta-set regression (Deng & Zheng, CVPR 2021): windows of labelled samples under simulated shifts give pairs of features and
accuracy. Ridge regression of logit(accuracy) on the features and their products learns the relation. The penalty is the one
with which shift families that were left out are estimated best.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from driftcal.types import Array, Float64

#: Penalties that are tried, per window and standardised term.
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
#: The level of `half_width`, and the normal quantile of the same level.
INTERVAL, _QUANTILE = 0.9, 1.645
#: A window of this size weighs half as much as a very large one: small ones say less about the accuracy.
_HALF_WEIGHT = 100.0
#: The range of features seen in training ends at these quantiles of the large training windows.
_RANGE = (0.005, 0.995)
#: Only windows of this size and above set the range and the error: the sampling error of small ones is added for any size.
_LARGE = 100
#: At most this many families are left out, each with its penalty.
_MAX_FOLDS = 12


@dataclass(frozen=True, eq=False)
class AccuracyRegression:
    """logit(accuracy) as a quadratic function of standardised features.

    Parameters
    ----------
    centre, scale : (f,): mean and standard deviation of each feature over the training windows.
    coefficients : (1 + f + f (f + 1) / 2,): of 1, the features, and the products of features i <= j.
    low, high : (f,): the range of the features in training.
    noise : (f,): standard deviation of a feature of a window, times the root of the window's size.
    error : the 90 % quantile of the error of log-odds on families that were left out, without sampling error.
    """

    centre: Float64
    scale: Float64
    coefficients: Float64
    low: Float64
    high: Float64
    noise: Float64
    error: float

    @classmethod
    def fit(
        cls, features: Float64, sizes: Float64, accuracies: Float64, conditions: Array, families: Array
    ) -> AccuracyRegression:
        """Fit on windows.

        Parameters
        ----------
        features : (w, f).
        sizes, accuracies : (w,): samples and the share of correct ones.
        conditions : (w,): the number of the condition of each window, 0 for clean.
        families : (w,): the family of the condition; a fold leaves one family out. The clean family is never left out.
        """
        centre, scale = features.mean(axis=0), features.std(axis=0) + 1e-9
        terms = quadratic_terms((features - centre) / scale)
        target = np.log((accuracies * sizes + 0.5) / ((1 - accuracies) * sizes + 0.5))
        weights = sizes / (sizes + _HALF_WEIGHT)
        equations, penalty, residuals = _choose_penalty(terms, target, weights, families, families[conditions == 0][0])
        large = sizes >= _LARGE
        low, high = np.quantile(features[large], _RANGE, axis=0)
        sampling = 1 / (sizes * np.maximum(accuracies * (1 - accuracies), 1 / sizes))  # variance of the log-odds
        excess = np.sqrt(np.maximum(residuals**2 - sampling, 0))[large & np.isfinite(residuals)]
        return cls(
            centre,
            scale,
            equations.solve(penalty),
            low,
            high,
            _noise(features, sizes, conditions),
            float(np.quantile(excess, INTERVAL)) if len(excess) else 0.0,
        )

    def log_odds(self, features: Float64) -> Float64:
        """(...): logit of the estimated accuracy of windows with these features (..., f)."""
        return quadratic_terms((features - self.centre) / self.scale) @ self.coefficients

    def accuracy(self, features: Float64) -> Float64:
        """(...): the estimated accuracy of windows."""
        return expit(self.log_odds(features))

    def half_width(self, accuracy: Float64, sizes: Float64) -> Float64:
        """(...): half the width of the 90 % interval of the windows' accuracy: model error and sampling error together."""
        variance = accuracy * (1 - accuracy)
        return np.asarray(np.sqrt((self.error * variance) ** 2 + _QUANTILE**2 * variance / sizes))

    def distance(self, features: Float64, sizes: Float64, log_odds: float) -> Float64:
        """(...): how many standard errors the estimate lies from these log-odds, which are the true ones; never negative."""
        true = expit(log_odds)
        variance = self.standard_error**2 + 1 / (sizes * true * (1 - true))
        return np.asarray(np.abs(np.clip(self.log_odds(features), -30, 30) - log_odds) / np.sqrt(variance))

    @property
    def standard_error(self) -> float:
        """Of the estimated log-odds under an unknown shift, without sampling error."""
        return self.error / _QUANTILE

    def excess(self, features: Float64, sizes: Float64) -> Float64:
        """(...): how far features lie outside the range seen in training; 0 inside, 1 is one training standard deviation.

        A window's sampling error, two standard deviations of it, counts as inside.
        """
        slack = 2 * self.noise / np.sqrt(np.asarray(sizes)[..., None])
        outside = np.maximum(np.maximum(self.low - slack - features, features - self.high - slack), 0)
        return np.asarray(np.sqrt(((outside / self.scale) ** 2).sum(axis=-1)))


def expit(log_odds: Float64 | float) -> Float64:
    """The accuracy with these log-odds, which are clipped to ±30."""
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -30, 30))))


def quadratic_terms(features: Float64) -> Float64:
    """(..., 1 + f + f (f + 1) / 2): 1, the features, and their products.

    >>> quadratic_terms(np.array([2.0, 3.0]))
    array([1., 2., 3., 4., 6., 9.])
    """
    i, j = np.triu_indices(features.shape[-1])
    return np.concatenate([np.ones((*features.shape[:-1], 1)), features, features[..., i] * features[..., j]], axis=-1)


@dataclass(frozen=True, eq=False)
class _NormalEquations:
    """What ridge regression needs of windows, summed over them: products of terms, terms times target, weight."""

    gram: Float64
    moments: Float64
    weight: float

    @classmethod
    def of(cls, terms: Float64, target: Float64, weights: Float64) -> _NormalEquations:
        weighted = terms * weights[:, None]
        return cls(weighted.T @ terms, weighted.T @ target, float(weights.sum()))

    def __add__(self, other: _NormalEquations) -> _NormalEquations:
        return _NormalEquations(self.gram + other.gram, self.moments + other.moments, self.weight + other.weight)

    def solve(self, penalty: float) -> Float64:
        """The coefficients; that of the first term, 1, has no penalty."""
        ridge = np.full(len(self.gram), penalty * self.weight)
        ridge[0] = 0.0
        gram = self.gram + np.diag(ridge + 1e-12 * self.weight)
        return np.asarray(np.linalg.solve(gram, self.moments), np.float64)


def _choose_penalty(
    terms: Float64, target: Float64, weights: Float64, families: Array, clean: int
) -> tuple[_NormalEquations, float, Float64]:
    """The equations of all windows, the penalty with the smallest error of accuracy on families left out, and the errors of log-odds with it."""
    names = [family for family in np.unique(families) if family != clean]
    groups = [np.isin(families, names[k::_MAX_FOLDS]) for k in range(min(_MAX_FOLDS, len(names)))]
    parts = [_NormalEquations.of(terms[part], target[part], weights[part]) for part in (families == clean, *groups)]
    equations = reduce(add, parts)
    best, errors = PENALTIES[-1], np.full(len(target), np.nan)
    lowest = np.inf
    if len(names) < 2:
        return equations, best, errors
    others = [reduce(add, parts[: k + 1] + parts[k + 2 :]) for k in range(len(groups))]
    for penalty in PENALTIES:
        residuals = np.full(len(target), np.nan)
        for left_out, rest in zip(groups, others, strict=True):
            residuals[left_out] = terms[left_out] @ rest.solve(penalty) - target[left_out]
        is_predicted = np.isfinite(residuals)
        difference = expit(target[is_predicted] + residuals[is_predicted]) - expit(target[is_predicted])
        score = float((weights[is_predicted] * difference**2).sum())
        if score < lowest:
            best, errors, lowest = penalty, residuals, score
    return equations, best, errors


def _noise(features: Float64, sizes: Float64, conditions: Array) -> Float64:
    """The standard deviation of features of small windows around the mean of their condition, times the root of the size."""
    small = sizes == sizes.min()
    squares = [features[small & (conditions == number)].var(axis=0) * sizes.min() for number in np.unique(conditions)]
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))
