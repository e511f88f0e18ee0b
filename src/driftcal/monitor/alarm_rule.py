"""The alarm rule: the state of a window, compared with clean validation samples.

The states, in the order in which they are checked:

- `cannot tell`: the window has fewer than 50 samples, or the calibrator has no perturbation levels to compare with;
- `labels disagree`: the accuracy of the labelled samples is outside the interval of the estimated accuracy;
- `cannot tell`: the entropy raises an alarm, and estimators that are no regression contradict each other;
- `out of distribution`: an alarm, and the estimated accuracy is closer to chance than to the clean accuracy;
- `inputs shifted`: an alarm, and the accuracy is estimated below the clean one, or the class mix has not changed;
- `class mix changed`: the shares of the predicted classes have changed, and the estimated accuracy has not;
- `cannot tell`: no alarm, or one of the class mix, but the estimate does not confirm it: the window is unlike all shifts
  that the estimator was fitted on, the clean accuracy is above its interval, or this accuracy and one half-way to chance
  are both inside;
- `ok`: all other windows.

There is an alarm if the mean normalised negative entropy is outside the range of clean windows (:func:`clean_range`), or the
class mix is further from that of the validation samples than clean windows are (:func:`largest_clean_distance`).

The alarm on calibration, which needs labels, is the e-value of `sequential_test`; `summary` compares it with 1/alpha.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, chi2, norm

from driftcal.drift.estimators import NEGATIVE_ENTROPY, WINDOW_TS
from driftcal.drift.reference import DriftReference
from driftcal.monitor.window_estimate import WindowEstimate
from driftcal.monitor.window_sums import WindowSums

OK, CLASS_MIX, SHIFTED, OUT = "ok", "class mix changed", "inputs shifted", "out of distribution"
LABELS, UNKNOWN = "labels disagree", "cannot tell"
#: The states of a window.
STATES = (OK, CLASS_MIX, SHIFTED, OUT, LABELS, UNKNOWN)
#: States from the best to the worst.
SEVERITY = (OK, CLASS_MIX, UNKNOWN, SHIFTED, LABELS, OUT)
#: Smaller windows have no state: the standard error of an accuracy can exceed 0.07.
MIN_SAMPLES = 50
#: Entropy, class mix and labels are tested; each has this part of the false alarm rate.
N_TESTS = 3
#: The false alarm rate holds for this share of all validation sets, not only on average over them.
_ASSURANCE = 0.99
#: An estimate less than this below the clean accuracy is no loss.
_NO_LOSS = 0.01


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
    rate = false_alarm_rate / N_TESTS
    low, high = estimate.interval
    if labels_disagree(sums.n_correct, sums.n_labelled, estimate.interval, rate):
        return LABELS, (
            f"{sums.n_correct:,} of {sums.n_labelled:,} labels are as predicted; the accuracy is estimated between "
            f"{low:.2f} and {high:.2f}"
        )
    if reference.n_levels < 2:
        return (
            UNKNOWN,
            "the calibrator was tuned on clean samples only: there are no perturbation levels to compare with",
        )
    clean, halfway = reference.accuracies[0], reference.halfway_to_chance
    lowest, highest = clean_range(reference, sums.n_samples, rate)
    entropy_alarm = not lowest <= float(sums.means[NEGATIVE_ENTROPY]) <= highest
    mix_alarm = class_mix_distance(reference, sums) > largest_clean_distance(reference, sums.n_samples, rate)
    if entropy_alarm and _contradict(estimate, clean, halfway):
        return UNKNOWN, (
            "the estimators contradict each other: one estimates no loss of accuracy, "
            f"another one an accuracy below {halfway:.2f}, half-way to chance"
        )
    what = "mean entropy and class mix differ" if mix_alarm else "mean entropy differs"
    what = what if entropy_alarm else "class mix differs"
    reason = f"{what} from clean validation samples"
    if estimate.extrapolates:
        reason += ", the window is unlike all simulated shifts"
    if (entropy_alarm or mix_alarm) and estimate.accuracy < halfway:
        return OUT, f"{reason}, and accuracy estimated below {halfway:.2f}, half-way to chance"
    if (entropy_alarm and not mix_alarm) or (mix_alarm and high < clean):
        return (
            SHIFTED,
            reason if high >= clean else f"{reason}, and accuracy estimated below {clean:.2f}, the clean one",
        )
    if estimate.extrapolates:
        return UNKNOWN, "the window is unlike all simulated shifts, so its accuracy cannot be estimated"
    if high < clean and not mix_alarm:
        return (
            UNKNOWN,
            f"entropy and class mix as on clean samples, but accuracy estimated below {clean:.2f}, the clean one",
        )
    if low < halfway and high >= clean:
        return UNKNOWN, (
            f"the accuracy is estimated between {low:.2f} and {high:.2f}: the clean one and half-way to chance are both possible"
        )
    if mix_alarm:
        return CLASS_MIX, "the predicted classes have other shares, and the estimated accuracy is that of clean samples"
    return OK, "entropy and class mix as on clean validation samples"


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


def _contradict(estimate: WindowEstimate, clean: float, halfway: float) -> bool:
    """Whether one estimator sees no loss where another one sees half of the accuracy gone; the regression needs no vote."""
    if estimate.estimator == WINDOW_TS:
        return False
    others = estimate.by_estimator.values()
    return max(others) >= clean - _NO_LOSS and min(others) < halfway
