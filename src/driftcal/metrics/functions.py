"""One function per metric, in scikit-learn's order of arguments: ``(y_true, probabilities)``.

`probabilities` of shape (n, C) are judged by their top label; of shape (n,) they are those of class 1.
`sample_weight` weighs rows; whole numbers act as repeated rows. Labels that are names stand for columns in sorted order, unless
`classes` gives their order (a calibrator's `classes_`) or the probabilities are a frame whose columns are named like them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from driftcal.errors import InputError, UnknownName
from driftcal.metrics.classwise import ClassScores
from driftcal.metrics.ordered import Ordered
from driftcal.metrics.scores import Scores, check_pair
from driftcal.metrics.smooth import Smooth
from driftcal.metrics.statistics import BrierDecomposition, Statistics, bin_edges
from driftcal.metrics.summary import DEBIASED_BINS, simulate_floor
from driftcal.types import AnyArray

Classes = Sequence[Any] | None


def accuracy(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """How often the most probable class is the label; the first one where several are most probable.

    >>> accuracy([0, 1, 1], [[0.7, 0.3], [0.4, 0.6], [0.9, 0.1]])
    0.6666666666666666
    """
    return Statistics.of_probabilities(y_true, probabilities, sample_weight=sample_weight, classes=classes).accuracy


def negative_log_likelihood(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """How surprised the model is by the labels: mean −log max(p[label], 1e-15), in nats.

    Without the clip one certain mistake makes it infinite; :class:`Statistics` counts the rows that were clipped.
    A proper score: no way of shading the probabilities lowers its expectation.  Good 1952.

    >>> round(negative_log_likelihood([0, 1], [[0.5, 0.5], [0.75, 0.25]]), 4)
    1.0397
    """
    return Statistics.of_probabilities(y_true, probabilities, sample_weight=sample_weight, classes=classes).nll


def brier_score(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """How far the probabilities are from the labels: mean Σ_c (p_c − [y = c])², in [0, 2].

    For 1-D probabilities the usual binary score, mean (p − y)² in [0, 1], which is half as large.  Brier 1950.

    >>> brier_score([0, 1], [[0.5, 0.5], [1.0, 0.0]])
    1.25
    >>> brier_score([0, 1], [0.5, 0.0])
    0.625
    """
    return Statistics.of_probabilities(y_true, probabilities, sample_weight=sample_weight, classes=classes).brier


def predictive_entropy(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """How undecided the model is: mean −Σ_c p_c log p_c in nats, from 0 to log C. The labels do not matter.

    >>> round(predictive_entropy([0, 0], [[0.5, 0.5], [1.0, 0.0]]), 4)
    0.3466
    """
    return Statistics.of_probabilities(y_true, probabilities, sample_weight=sample_weight, classes=classes).entropy


def expected_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """How far confidence is from accuracy, bin by bin: Σ_b W_b/W · |confidence_b − accuracy_b|.

    Bins are ((m−1)/M, m/M]; 0.0 is in the first and an edge belongs to the bin below. For 1-D probabilities the
    confidence is the probability of class 1 and the accuracy its frequency. Biased upwards: compare with
    :func:`ece_floor`.  Naeini et al. 2015; Guo et al. 2017, section 2.

    >>> round(expected_calibration_error([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]]), 4)
    0.4
    """
    return Statistics.of_probabilities(
        y_true, probabilities, sample_weight=sample_weight, classes=classes, n_bins=n_bins
    ).ece


def maximum_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """The worst bin: max_b |confidence_b − accuracy_b| over bins that hold a row.

    One row alone in its bin can decide it.  Naeini et al. 2015; Guo et al. 2017, section 2.

    >>> round(maximum_calibration_error([0, 1, 1], [[0.9, 0.1], [0.3, 0.7], [0.8, 0.2]]), 4)
    0.8
    """
    return Statistics.of_probabilities(
        y_true, probabilities, sample_weight=sample_weight, classes=classes, n_bins=n_bins
    ).mce


def signed_gap(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """Mean confidence − accuracy: above 0 the model is over-confident, below 0 under-confident.

    >>> round(signed_gap([0, 1], [[0.75, 0.25], [0.75, 0.25]]), 4)
    0.25
    """
    return Statistics.of_probabilities(y_true, probabilities, sample_weight=sample_weight, classes=classes).gap


def brier_decomposition(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> BrierDecomposition:
    """Why the squared error of the confidence is what it is: calibration, discrimination, difficulty.

    (confidence − outcome)² = reliability − resolution + uncertainty + within-bin variance − 2 · within-bin covariance,
    exactly.  Murphy 1973; Stephenson et al. 2008.

    >>> parts = brier_decomposition([0, 1, 1, 0], [0.25, 0.75, 0.75, 0.75])
    >>> round(parts.reliability - parts.resolution + parts.uncertainty, 6), round(parts.score, 6)
    (0.1875, 0.1875)
    """
    return Statistics.of_probabilities(
        y_true, probabilities, sample_weight=sample_weight, classes=classes, n_bins=n_bins
    ).decomposition


def equal_mass_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """ECE over bins that hold equally many rows, so that none is nearly empty.

    Equal confidences share a bin; with fewer rows than bins each row is one.  Nguyen & O'Connor 2015; Roelofs et al. 2022.

    >>> round(equal_mass_calibration_error([1, 0, 1, 1], [0.6, 0.7, 0.8, 0.9], n_bins=2), 4)
    0.15
    """
    bin_edges(n_bins)
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return Ordered.of_scores(scores).equal_mass(scores.weights, int(n_bins))


def sweep_calibration_error(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """ECE over as many equal-mass bins as keep the accuracy rising with confidence, 1,000 at most.

    Starting from one bin, the number grows until a bin's accuracy falls below its left neighbour's; the number before
    is taken. The absolute error (p = 1) is summed, as in the ECE.  Roelofs et al. 2022, section 4.

    >>> round(sweep_calibration_error([0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9]), 4)
    0.15
    """
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return Ordered.of_scores(scores).sweep(scores.weights)[0]


def debiased_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = DEBIASED_BINS,
    kind: str = "top-label",
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """The root of the squared calibration error, with what pure chance adds to it taken off.

    sqrt(max(0, Σ_b W_b/W · ((confidence_b − accuracy_b)² − accuracy_b (1 − accuracy_b)/(W_b − 1)))) over equal-mass
    bins; bins with a weight of 1 or less are left out. ``kind="marginal"`` takes the root mean square over classes. Weights
    are read as numbers of rows: their scale matters here, unless they sum to less than the rows and are shares.  Kumar et al. 2019, section 5.

    >>> debiased_calibration_error([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5])
    0.0
    """
    bin_edges(n_bins)
    labels, p, weights, positive = check_pair(y_true, probabilities, sample_weight, classes)
    if kind == "top-label":
        scores = Scores.of_checked(labels, p, weights, positive)
        return math.sqrt(Ordered.of_scores(scores).debiased(scores.weights, int(n_bins)))
    if kind == "marginal":
        return ClassScores.of_probabilities(labels, p, weights).marginal_debiased(int(n_bins))
    raise UnknownName.of("kind of debiased error", kind, ["top-label", "marginal"])


def classwise_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """The ECE of each class's own probability against that class's frequency, averaged over classes.

    A class that never occurs counts like any other: its probability should be 0. Small for many classes, since most
    probabilities are near 0.  Kull et al. 2019, section 2.

    >>> round(classwise_calibration_error([0, 1], [[0.8, 0.2], [0.4, 0.6]]), 4)
    0.3
    """
    bin_edges(n_bins)
    labels, p, weights, _ = check_pair(y_true, probabilities, sample_weight, classes)
    return ClassScores.of_probabilities(labels, p, weights).classwise_ece(n_bins)


def smooth_calibration_error(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    bandwidth: float | None = None,
    sample_weight: AnyArray = None,
    classes: Classes = None,
) -> float:
    """Calibration error without bins: ∫ |Σ_i w_i (c_i − o_i) K_σ(c_i, t)| dt / W with a Gaussian reflected at 0 and 1.

    The bandwidth σ is where the error equals it, unless one is given.  Błasiok & Nakkiran 2023, section 3.

    >>> round(smooth_calibration_error([1, 1, 1, 0], [0.5, 0.5, 0.5, 0.5]), 4)
    0.25
    """
    if bandwidth is not None and not (isinstance(bandwidth, float | int) and 0 < bandwidth < math.inf):
        raise InputError(
            f"bandwidth must be above 0, a finite number; it is {bandwidth!r}. Leave it out to take the fixed point."
        )
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return Smooth.of(scores.confidence, scores.outcome).error(scores.weights, bandwidth)


def ks_calibration_error(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """The largest imbalance up to any confidence: max_t |Σ_{c ≤ t} w (c − o)| / W, without bins.

    Rows with equal confidence enter together.  Gupta et al. 2021, section 3.

    >>> round(ks_calibration_error([1, 0, 1, 1], [0.5, 0.5, 0.9, 0.9]), 4)
    0.05
    """
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return Ordered.of_scores(scores).ks(scores.weights)


def area_under_risk_coverage(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """The error rate among the surest predictions, averaged over how many of them are kept.

    (1/W) ∫ errors(t)/t dt with rows from surest to least sure; equal confidences share their errors evenly. This is
    the area itself; the mean over ranks of Geifman & El-Yaniv 2017 differs from it by less than 1/n.

    >>> area_under_risk_coverage([1, 1], [0.9, 0.8])
    0.0
    """
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return Ordered.of_certainty(scores).selective(scores.weights)[0]


def error_auroc(
    y_true: AnyArray, probabilities: AnyArray, *, sample_weight: AnyArray = None, classes: Classes = None
) -> float:
    """How well confidence tells right answers from wrong: P(confidence right > confidence wrong), ties count half.

    0.5, the value of a coin, where all answers are right or all are wrong: there is nothing to tell apart, and no evidence
    that confidence could.  Hendrycks & Gimpel 2017.

    >>> error_auroc([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    1.0
    """
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return Ordered.of_certainty(scores).selective(scores.weights)[1]


def ece_floor(
    y_true: AnyArray,
    probabilities: AnyArray,
    *,
    n_bins: int = 15,
    sample_weight: AnyArray = None,
    classes: Classes = None,
    draws: int = 1000,
    seed: int = 0,
) -> float:
    """The ECE that a perfectly calibrated model with these confidences would show on this many rows.

    The mean over simulated labels that come true with the stated confidence; the given labels do not matter. An ECE at
    the floor is no evidence of miscalibration.  Bröcker & Smith 2007, for the resampling.

    >>> 0.3 < ece_floor([0, 1, 1], [0.5, 0.6, 0.7]) < 0.6
    True
    """
    bin_edges(n_bins)
    if draws < 1:
        raise InputError(f"draws must be at least 1; it is {draws}. The usual choice is 1000.")
    scores = Scores.of_probabilities(y_true, probabilities, sample_weight, classes)
    return float(simulate_floor(scores, n_bins, draws, seed).mean())
