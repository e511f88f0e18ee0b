"""The alarm rule: the state of a window, compared with clean validation samples.

There is an alarm if the mean normalised negative entropy is outside the range of clean windows (:func:`clean_range`), if the
class mix is further from that of the validation samples than clean windows are (:func:`largest_clean_distance`), or if labels
show an accuracy below the clean one (:func:`accuracy_lost`). The accuracy of a window has an interval: that of its labels, if
they exclude the clean accuracy or one half-way to chance, otherwise that of the estimate. An interval is wide if both are
inside, or if the clean one is and the window is unlike all shifts that the estimator was fitted on.

The states, in the order in which they are checked:

- `cannot tell`: the window has fewer than 50 samples;
- `labels disagree`: the accuracy of the labelled samples is outside an interval of the estimate that is not wide;
- `cannot tell`: the entropy raises an alarm, and estimators that are no regression contradict each other;
- `out of distribution`: an alarm, and the accuracy is closer to chance than to the clean accuracy; if only the class mix
  raises it, the interval is not wide;
- `inputs shifted`: an alarm of the labels, or of the entropy alone, or of both entropy and class mix with a wide interval, or of
  the class mix with an interval below the clean accuracy;
- `class mix changed`: any other alarm;
- `cannot tell`: no alarm, but the window is unlike all shifts of the fit, or the interval is below the clean accuracy;
- `no change seen`: no alarm, and a wide interval;
- `ok`: all other windows.

The alarm on calibration, which needs labels, is the e-value of `sequential_test`; `summary` compares it with 1/alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom, chi2, norm

from driftcal.drift.estimators import NEGATIVE_ENTROPY, WINDOW_TS
from driftcal.drift.reference import DriftReference
from driftcal.monitor.window_estimate import WindowEstimate
from driftcal.monitor.window_sums import WindowSums

OK, NO_CHANGE, CLASS_MIX, SHIFTED, OUT = (
    "ok",
    "no change seen",
    "class mix changed",
    "inputs shifted",
    "out of distribution",
)
LABELS, UNKNOWN = "labels disagree", "cannot tell"
#: The states of a window.
STATES = (OK, NO_CHANGE, CLASS_MIX, SHIFTED, OUT, LABELS, UNKNOWN)
#: States from the best to the worst.
SEVERITY = (OK, NO_CHANGE, CLASS_MIX, UNKNOWN, SHIFTED, LABELS, OUT)
#: States that are alarms; at most `false_alarm_rate` of clean windows have one of them.
ALARMS = (CLASS_MIX, SHIFTED, LABELS, OUT)
#: Smaller windows have no state: the standard error of an accuracy can exceed 0.07.
MIN_SAMPLES = 50
#: Entropy, class mix and labels are tested; each has this part of the false alarm rate.
N_TESTS = 3
#: The false alarm rate holds for this share of all validation sets, not only on average over them.
_ASSURANCE = 0.99
#: An estimate less than this below the clean accuracy is no loss.
_NO_LOSS = 0.01


@dataclass(frozen=True)
class _Accuracy:
    """The accuracy of a window, by its labels or estimated, and what its interval says, see the module."""

    value: float
    #: Whether the interval is below the clean accuracy.
    below_clean: bool
    is_wide: bool
    text: str


def window_state(
    reference: DriftReference, sums: WindowSums, estimate: WindowEstimate, *, false_alarm_rate: float
) -> tuple[str, str]:
    """The state of a window and the reason for it.

    Parameters
    ----------
    reference : drift reference of the calibrator.
    sums : sums of the window.
    estimate : its estimated accuracy.
    false_alarm_rate : largest share of clean windows with an alarm.
    """
    if sums.n_samples < MIN_SAMPLES:
        return UNKNOWN, f"{sums.n_samples} samples are too few: at least {MIN_SAMPLES} are needed"
    rate, clean, halfway = false_alarm_rate / N_TESTS, reference.accuracies[0], reference.halfway_to_chance
    accuracy, (low, high) = _estimated(reference, estimate), estimate.interval
    if not accuracy.is_wide and labels_disagree(sums.n_correct, sums.n_labelled, estimate.interval, rate):
        return LABELS, (
            f"{sums.n_correct:,} of {sums.n_labelled:,} labels are as predicted; the accuracy is estimated between "
            f"{low:.2f} and {high:.2f}"
        )
    measured = _measured(reference, sums, rate)
    by_labels = measured is not None and not measured.is_wide
    if measured is not None and by_labels:
        accuracy = measured
    lost = by_labels and accuracy.below_clean
    entropy_alarm = has_entropy_alarm(reference, sums, false_alarm_rate)
    mix_alarm = class_mix_distance(reference, sums) > largest_clean_distance(reference, sums.n_samples, rate)
    if entropy_alarm and not by_labels and _contradict(reference, estimate):
        return UNKNOWN, (
            "mean entropy differs from clean validation samples, but the estimators contradict each other: one estimates "
            f"no loss of accuracy, another one an accuracy below {halfway:.2f}, half-way to chance"
        )
    seen = {
        (True, True): "mean entropy and class mix differ from clean validation samples",
        (True, False): "mean entropy differs from clean validation samples",
        (False, True): "class mix differs from clean validation samples",
        (False, False): "entropy and class mix as on clean samples",
    }[entropy_alarm, mix_alarm]
    if (entropy_alarm or lost or (mix_alarm and not accuracy.is_wide)) and accuracy.value < halfway:
        value = "" if by_labels else f", most likely {accuracy.value:.2f}"
        return OUT, f"{seen}; {accuracy.text}{value}, below {halfway:.2f}, half-way to chance"
    if lost or (mix_alarm and accuracy.below_clean):
        return SHIFTED, f"{seen}; {accuracy.text}, below {clean:.2f}, the clean one"
    reason = f"{seen}; {accuracy.text}"
    if entropy_alarm and (not mix_alarm or accuracy.is_wide):
        return SHIFTED, reason
    if mix_alarm:
        return CLASS_MIX, reason
    if accuracy.below_clean:
        return UNKNOWN, f"{seen}, but {accuracy.text}, below {clean:.2f}, the clean one"
    if estimate.extrapolates and not by_labels:
        return UNKNOWN, reason
    return (NO_CHANGE if accuracy.is_wide else OK), reason


def has_entropy_alarm(reference: DriftReference, sums: WindowSums, false_alarm_rate: float) -> bool:
    """Whether the mean entropy is outside the range of clean windows."""
    low, high = clean_range(reference, sums.n_samples, false_alarm_rate / N_TESTS)
    return not low <= float(sums.means[NEGATIVE_ENTROPY]) <= high


def accuracy_lost(reference: DriftReference, sums: WindowSums, false_alarm_rate: float) -> bool:
    """Whether labels show an accuracy below that of clean samples: an exact binomial test.

    The clean accuracy has the sampling error of the validation samples: its lower bound holds for 99 % of all validation sets.
    """
    measured = _measured(reference, sums, false_alarm_rate / N_TESTS)
    return measured is not None and measured.below_clean


def _measured(reference: DriftReference, sums: WindowSums, rate: float) -> _Accuracy | None:
    """The accuracy of the labelled samples with its exact interval at the level `rate` (Clopper and Pearson)."""
    n, n_correct = sums.n_labelled, sums.n_correct
    if not n:
        return None
    low, high = _exact_bounds(n_correct, n, rate / 2)
    n_clean = reference.n_samples
    lowest_clean, _ = _exact_bounds(round(reference.accuracies[0] * n_clean), n_clean, 1 - _ASSURANCE)
    text = f"accuracy {n_correct / n:.2f} measured on {n:,} labels"
    below_clean = high < lowest_clean
    return _Accuracy(n_correct / n, below_clean, not below_clean and low < reference.halfway_to_chance, text)


def _estimated(reference: DriftReference, estimate: WindowEstimate) -> _Accuracy:
    low, high = estimate.interval
    below_clean = high < reference.accuracies[0]
    is_wide = not below_clean and (low < reference.halfway_to_chance or estimate.extrapolates)
    if reference.n_levels < 2:
        text = "the accuracy cannot be estimated, because the calibrator was fitted on clean samples only"
    elif estimate.extrapolates:
        text = f"the window is unlike all simulated shifts, and accuracy estimated between {low:.2f} and {high:.2f}"
    elif is_wide:
        text = f"the accuracy cannot be estimated closely: between {low:.2f} and {high:.2f}"
    else:
        text = f"accuracy estimated between {low:.2f} and {high:.2f}"
    return _Accuracy(estimate.accuracy, below_clean, is_wide, text)


def _exact_bounds(n_correct: int, n: int, rate: float) -> tuple[float, float]:
    """Bounds of the probability of a correct prediction; each is wrong with a probability of at most `rate`."""
    low = float(beta.ppf(rate, n_correct, n - n_correct + 1)) if n_correct > 0 else 0.0
    high = float(beta.isf(rate, n_correct + 1, n - n_correct)) if n_correct < n else 1.0
    return low, high


def labels_disagree(n_correct: int, n_labelled: int, interval: tuple[float, float], rate: float) -> bool:
    """Whether labelled samples contradict an accuracy in this interval: a binomial test at the level `rate`.

    >>> labels_disagree(60, 100, (0.85, 0.95), 0.001), labels_disagree(80, 100, (0.85, 0.95), 0.001)
    (True, False)
    """
    if not n_labelled:
        return False
    low, high = interval
    fewer, more = binom.cdf(n_correct, n_labelled, low), binom.sf(n_correct - 1, n_labelled, high)
    return bool(min(fewer, more) < rate / 2)


def clean_range(reference: DriftReference, n_samples: int, false_alarm_rate: float) -> tuple[float, float]:
    """The range of the mean normalised negative entropy of clean windows.

    At most a share `false_alarm_rate` of clean windows is outside, for 99 % of all validation sets. The range is the
    mean ± (z(α/2) / √n_samples + z(0.01) / √n) standard deviations of a sample, with α = `false_alarm_rate`. The second
    part is the sampling error of the n validation samples. The first part is corrected for the skewness of the samples
    (Cornish and Fisher), because normalised negative entropy has a long lower tail.
    """
    z = float(norm.isf(false_alarm_rate / 2))
    skew = reference.skewness / (6 * math.sqrt(n_samples)) * (z * z - 1)
    validation_error = float(norm.ppf(_ASSURANCE)) / math.sqrt(reference.n_samples)
    below = (z - skew) / math.sqrt(n_samples) + validation_error
    above = (z + skew) / math.sqrt(n_samples) + validation_error
    centre = reference.means[0][NEGATIVE_ENTROPY]
    return centre - reference.standard_deviation * below, centre + reference.standard_deviation * above


def class_mix_distance(reference: DriftReference, sums: WindowSums) -> float:
    """The Euclidean distance between the shares of the predicted classes and those of the clean validation samples."""
    return float(np.linalg.norm(sums.class_shares - np.array(reference.class_shares)))


def largest_clean_distance(reference: DriftReference, n_samples: int, false_alarm_rate: float) -> float:
    """At most a share `false_alarm_rate` of clean windows is further away, for 99 % of all validation sets.

    The squared distance of n multinomial draws from their shares is distributed as Σ λ χ² / n, with the eigenvalues λ of
    diag(s) − s sᵀ; a scaled χ² with the same first three moments replaces it. The distance of the validation samples from
    the true shares is added (triangle inequality).
    """
    s = np.array(reference.class_shares)
    squares, cubes, fourth = (float((s**k).sum()) for k in (2, 3, 4))
    # traces of the powers of diag(s) − s sᵀ
    first = 1 - squares
    second = squares - 2 * cubes + squares**2
    third = cubes - 3 * fourth + 3 * squares * cubes - squares**3
    if min(first, second, third) <= 1e-12:  # all validation samples have one predicted class
        return math.inf
    degrees = second**3 / third**2

    def quantile(rate: float) -> float:
        return first + (float(chi2.isf(rate, degrees)) - degrees) * math.sqrt(second / degrees)

    window = math.sqrt(quantile(false_alarm_rate) / n_samples)
    return window + math.sqrt(max(0.0, quantile(1 - _ASSURANCE)) / reference.n_samples)


def detectable_drop(reference: DriftReference, n_samples: int, false_alarm_rate: float, power: float = 0.95) -> float:
    """The drop of the mean normalised negative entropy that gives an alarm with probability `power`.

    Shifted samples vary more than clean ones: the variance of numbers in [0, 1] with mean m is at most m(1 − m).
    """
    low, _ = clean_range(reference, n_samples, false_alarm_rate / N_TESTS)
    mean = min(max(low, 0.0), 1.0)
    sampling_error = math.sqrt(mean * (1 - mean) / n_samples)
    return reference.means[0][NEGATIVE_ENTROPY] - low + float(norm.ppf(power)) * sampling_error


def _contradict(reference: DriftReference, estimate: WindowEstimate) -> bool:
    """Whether one estimator sees no loss where another one sees half of the accuracy gone; the regression needs no vote."""
    if estimate.estimator == WINDOW_TS or reference.n_levels < 2:
        return False
    others = estimate.by_estimator.values()
    return max(others) >= reference.accuracies[0] - _NO_LOSS and min(others) < reference.halfway_to_chance
