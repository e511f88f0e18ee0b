"""Accuracy, proper scores, and scores of confidence as a predictor of errors, one function each.

Arguments are ``(y_true, probabilities)``, with the meaning described in :mod:`driftcal.metrics.calibration_errors`.
"""

from __future__ import annotations

from driftcal.metrics.additive_statistics import BrierDecomposition
from driftcal.metrics.metric_inputs import Classes, samples_of, statistics_of
from driftcal.metrics.sorted_samples import SortedSamples
from driftcal.types import AnyArray


def accuracy(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """The share of samples whose most probable class is the label; of several most probable classes, the first is used.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> accuracy([0, 1, 1], [[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    0.6666666666666666
    """
    return statistics_of(y_true, probabilities, sample_weight, classes).accuracy


def negative_log_likelihood(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """Mean −log max(p[label], 1e-15), in nats.

    Without the clip, one error with confidence 1 would make it infinite; :class:`Statistics` counts the clipped
    samples. A proper score: the true probabilities have the lowest expected value.  Good 1952.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> round(negative_log_likelihood([0, 1], [[0.5, 0.5], [0.75, 0.25]]), 4)
    1.0397
    """
    return statistics_of(y_true, probabilities, sample_weight, classes).nll


def brier_score(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """Squared distance of the probabilities to the labels: mean Σ_c (p_c − [y = c])², in [0, 2].

    For 1-D probabilities it is the usual binary score, mean (p − y)² in [0, 1], which is half as large.  Brier 1950.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> brier_score([0, 1], [[0.5, 0.5], [1.0, 0.0]])
    1.25
    >>> brier_score([0, 1], [0.5, 0.0])
    0.625
    """
    return statistics_of(y_true, probabilities, sample_weight, classes).brier


def brier_decomposition(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> BrierDecomposition:
    """The parts of the squared error of the confidence: reliability, resolution, uncertainty.

    (confidence − outcome)² = reliability − resolution + uncertainty + within-bin variance − 2 · within-bin covariance,
    exactly.  Murphy 1973; Stephenson et al. 2008.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    n_bins
        Number of equal-width bins.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> parts = brier_decomposition([0, 1, 1, 0], [0.25, 0.75, 0.75, 0.75])
    >>> round(parts.reliability - parts.resolution + parts.uncertainty, 6), round(parts.score, 6)
    (0.1875, 0.1875)
    """
    return statistics_of(y_true, probabilities, sample_weight, classes, n_bins).decomposition


def predictive_entropy(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """Mean entropy of the predicted distribution, −Σ_c p_c log p_c in nats, from 0 to log C. Labels are not used.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> round(predictive_entropy([0, 0], [[0.5, 0.5], [1.0, 0.0]]), 4)
    0.3466
    """
    return statistics_of(y_true, probabilities, sample_weight, classes).entropy


def area_under_risk_coverage(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """The error rate among the most confident predictions, averaged over their share of all predictions.

    (1/W) ∫ errors(t)/t dt with samples in falling order of confidence; the errors of equal confidences are spread
    evenly. This is the exact area; the mean over ranks of Geifman & El-Yaniv 2017 differs from it by less than 1/n.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> area_under_risk_coverage([1, 1], [0.9, 0.8])
    0.0
    """
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return SortedSamples.by_top_confidence(samples).selective(samples.weights)[0]


def error_auroc(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """How well confidence separates correct from incorrect predictions: P(c correct > c incorrect), ties with weight ½.

    It is 0.5, the value of a random score, if all predictions are correct or all incorrect.  Hendrycks & Gimpel 2017.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> error_auroc([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    1.0
    """
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return SortedSamples.by_top_confidence(samples).selective(samples.weights)[1]
