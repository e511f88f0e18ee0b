"""Calibration errors, one function each: the ECE and its relatives. Arguments are ``(y_true, probabilities)``.

For `probabilities` of shape (n, C) the top label is evaluated. Probabilities of shape (n,) or (n, 1) are those of class
1, as in scikit-learn, and the calibration of class 1 is evaluated. `sample_weight` weights samples; whole numbers act
as repeated samples. Labels that are names need `classes`, the class of each column (a calibrator's `classes_`), or a
data frame whose columns are named like the classes.
"""

from __future__ import annotations

import math

from driftcal.core.random import as_seed
from driftcal.errors import InputError, UnknownName
from driftcal.metrics.all_metrics import DEBIASED_BINS
from driftcal.metrics.bins import bin_edges
from driftcal.metrics.classwise import ClassProbabilities
from driftcal.metrics.metric_inputs import Classes, samples_of, statistics_of
from driftcal.metrics.null_simulation import null_ece_replicates
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.scores_and_labels import check_probabilities
from driftcal.metrics.smooth_ece import SmoothedResiduals
from driftcal.metrics.sorted_samples import SortedSamples
from driftcal.types import AnyArray


def expected_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """Difference of confidence and accuracy, averaged over bins: Σ_b W_b/W · |confidence_b − accuracy_b|.

    Bins are ((m−1)/M, m/M]. 0.0 is in the first bin, and an edge belongs to the bin below. For 1-D probabilities the
    confidence is the probability of class 1 and the accuracy is the frequency of class 1. The ECE is biased upwards:
    compare it with :func:`null_ece`.  Naeini et al. 2015; Guo et al. 2017, section 2.

    The sum itself is `Statistics.ece` in ``metrics/additive_statistics.py``.

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

    >>> round(expected_calibration_error([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]]), 4)
    0.4
    """
    return statistics_of(y_true, probabilities, sample_weight, classes, n_bins).ece


def maximum_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """The largest difference of a bin: max_b |confidence_b − accuracy_b| over bins that hold a sample.

    A bin with a single sample can determine it.  Naeini et al. 2015; Guo et al. 2017, section 2.

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

    >>> round(maximum_calibration_error([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]]), 4)
    0.8
    """
    return statistics_of(y_true, probabilities, sample_weight, classes, n_bins).mce


def calibration_gap(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """Mean confidence − accuracy: above 0 the model is over-confident, below 0 under-confident.

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

    >>> round(calibration_gap([0, 1], [[0.75, 0.25], [0.75, 0.25]]), 4)
    0.25
    """
    return statistics_of(y_true, probabilities, sample_weight, classes).calibration_gap


def equal_mass_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """ECE over bins with equal numbers of samples, so that no bin is nearly empty.

    Samples of equal confidence share a bin. With fewer samples than bins, each sample is a bin.  Nguyen & O'Connor
    2015; Roelofs et al. 2022.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    n_bins
        Number of equal-mass bins.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> round(equal_mass_calibration_error([1, 0, 1, 1], [0.6, 0.7, 0.8, 0.9], n_bins=2), 4)
    0.15
    """
    bin_edges(n_bins)
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return SortedSamples.by_confidence(samples).equal_mass(samples.weights, int(n_bins))


def sweep_calibration_error(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """ECE over the largest number of equal-mass bins whose accuracies rise with confidence, at most 1,000.

    The number grows from one until the accuracy of a bin is below that of its left neighbour; the number before that is
    used. The absolute error (p = 1) is summed, as in the ECE.  Roelofs et al. 2022, section 4.

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

    >>> round(sweep_calibration_error([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9]), 4)
    0.15
    """
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return SortedSamples.by_confidence(samples).sweep(samples.weights)[0]


def debiased_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = DEBIASED_BINS,
    kind: str = "top-label",
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """The root of the squared calibration error, without the bias that finite samples add.

    sqrt(max(0, Σ_b W_b/W · ((confidence_b − accuracy_b)² − accuracy_b (1 − accuracy_b)/(W_b − 1)))) over equal-mass
    bins; bins with a weight of 1 or less are left out. ``kind="marginal"`` is the root mean square over classes.
    Weights are numbers of samples, so their scale matters. Weights that sum to less than the number of samples are
    shares.  Kumar et al. 2019, section 5.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    n_bins
        Number of equal-mass bins.
    kind
        "top-label", or "marginal": every class against the others.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> debiased_calibration_error([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5])
    0.0
    """
    bin_edges(n_bins)
    data = check_probabilities(y_true, probabilities, sample_weight, classes)
    if kind == "top-label":
        samples = SampleScores.of(data, positive_class=data.positive_class)
        return math.sqrt(SortedSamples.by_confidence(samples).debiased(samples.weights, int(n_bins)))
    if kind == "marginal":
        return ClassProbabilities.of(data).marginal_debiased(int(n_bins))
    raise UnknownName.of("kind of debiased error", kind, ["top-label", "marginal"])


def classwise_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """The ECE of each class's probability compared with the frequency of that class, averaged over classes.

    A class without samples counts like any other: its probability should be 0. The value is small for many classes,
    because most probabilities are near 0.  Kull et al. 2019, section 2.

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

    >>> round(classwise_calibration_error([0, 1], [[0.8, 0.2], [0.4, 0.6]]), 4)
    0.3
    """
    bin_edges(n_bins)
    data = check_probabilities(y_true, probabilities, sample_weight, classes)
    return ClassProbabilities.of(data).classwise_ece(n_bins)


def smooth_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    bandwidth: float | None = None,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """Calibration error without bins: ∫ |Σ_i w_i (c_i − o_i) K_σ(c_i, t)| dt / W with a Gaussian reflected at 0 and 1.

    Without `bandwidth`, the bandwidth σ is the one that equals the error.  Błasiok & Nakkiran 2023, section 3.

    Parameters
    ----------
    y_true
        Labels: columns of the probabilities, or names in `classes`.
    probabilities
        Shape (n, C); shape (n,) is the probability of class 1.
    bandwidth
        Width σ of the Gaussian. None: the fixed point.
    sample_weight
        Weight of each sample.
    classes
        The class of each column, for labels that are names.

    >>> round(smooth_calibration_error([1, 1, 1, 0], [0.5, 0.5, 0.5, 0.5]), 4)
    0.25
    """
    if bandwidth is not None and not (isinstance(bandwidth, float | int) and 0 < bandwidth < math.inf):
        raise InputError(
            f"bandwidth must be above 0, a finite number; it is {bandwidth!r}. Leave it out to use the fixed point."
        )
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return SmoothedResiduals.of(samples.confidence, samples.outcome).error(samples.weights, bandwidth)


def ks_calibration_error(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """The largest sum of residuals up to any confidence: max_t |Σ_{c ≤ t} w (c − o)| / W, without bins.

    Samples of equal confidence are added together.  Gupta et al. 2021, section 3.

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

    >>> round(ks_calibration_error([1, 0, 1, 1], [0.5, 0.5, 0.9, 0.9]), 4)
    0.05
    """
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return SortedSamples.by_confidence(samples).ks(samples.weights)


def null_ece(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
    n_resamples: int = 1000,
    random_state: int = 0,
) -> float:
    """The expected ECE of a perfectly calibrated model with these confidences on as many samples.

    It is the mean ECE of simulated outcomes, which are 1 with a probability equal to the confidence; `y_true` is only
    checked. An ECE near the null ECE is no evidence of miscalibration.  Bröcker & Smith 2007, for the resampling.

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
    n_resamples
        Simulations of the outcomes.
    random_state
        Seed of the simulations.

    >>> 0.3 < null_ece([0, 1, 1], [0.5, 0.6, 0.7]) < 0.6
    True
    """
    bin_edges(n_bins)
    if n_resamples < 1:
        raise InputError(f"n_resamples must be at least 1; it is {n_resamples}. The usual choice is 1000.")
    seed = as_seed(random_state, "random_state")
    samples = samples_of(y_true, probabilities, sample_weight, classes)
    return float(null_ece_replicates(samples, n_bins, n_resamples, seed).mean())
