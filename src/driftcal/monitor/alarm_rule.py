"""The alarm rule: the state of a window of unlabelled samples, compared with clean validation samples.

The states, in the order in which they are checked:

- `cannot tell`: the calibrator was tuned without perturbation levels, or the window has fewer than 50 samples;
- `ok`: the mean normalised negative entropy is in the range of clean windows of this size (:func:`clean_range`);
- `cannot tell`: the accuracy estimators contradict each other. One estimates no loss, another one an accuracy closer to
  chance than to the clean accuracy;
- `out of distribution`: the chosen estimator gives an accuracy closer to chance than to the clean accuracy;
- `drifting`: all other windows.

The alarm on calibration, which needs labels, is the e-value of `sequential_test`; `summary` compares it with 1/alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from scipy.stats import norm

from driftcal.drift.estimators import NEGATIVE_ENTROPY
from driftcal.drift.reference import DriftReference
from driftcal.monitor.window_sums import WindowSums

OK, DRIFTING, OUT, UNKNOWN = "ok", "drifting", "out of distribution", "cannot tell"
#: The states of a window.
STATES = (OK, DRIFTING, OUT, UNKNOWN)
#: States from the best to the worst. `cannot tell` comes first: few samples do not mean that anything is bad.
SEVERITY = (UNKNOWN, OK, DRIFTING, OUT)
#: Smaller windows have no state: the standard error of an accuracy can exceed 0.07.
MIN_SAMPLES = 50
#: The false alarm rate holds for this share of all validation sets, not only on average over them.
_ASSURANCE = 0.99
#: An estimate less than this below the clean accuracy is no loss.
_NO_LOSS = 0.01


def window_state(
    reference: DriftReference,
    sums: WindowSums,
    estimates: Mapping[str, float],
    *,
    estimator: str,
    false_alarm_rate: float,
) -> tuple[str, str]:
    """The state of a window and the reason for it.

    Parameters
    ----------
    reference : drift reference of the calibrator.
    sums : sums of the window.
    estimates : accuracy of the window by each estimator.
    estimator : the estimator that decides whether the window is out of distribution.
    false_alarm_rate : largest share of clean windows with a state other than ok.
    """
    if reference.n_levels < 2:
        return (
            UNKNOWN,
            "the calibrator was tuned on clean samples only: there are no perturbation levels to compare with",
        )
    if sums.n_samples < MIN_SAMPLES:
        return UNKNOWN, f"{sums.n_samples} samples are too few: at least {MIN_SAMPLES} are needed"
    low, high = clean_range(reference, sums.n_samples, false_alarm_rate)
    value = float(sums.means[NEGATIVE_ENTROPY])
    if low <= value <= high:
        return OK, "mean entropy as on clean validation samples"
    no_loss = [name for name, accuracy in estimates.items() if accuracy >= reference.accuracies[0] - _NO_LOSS]
    near_chance = [name for name, accuracy in estimates.items() if accuracy < reference.halfway_to_chance]
    if no_loss and near_chance:
        return UNKNOWN, (
            f"the estimators contradict each other: {no_loss[0]} estimates no loss of accuracy, "
            f"{near_chance[0]} an accuracy below {reference.halfway_to_chance:.2f}, half-way to chance"
        )
    reason = f"mean entropy {'above' if value < low else 'below'} that of clean validation samples"
    if estimates[estimator] < reference.halfway_to_chance:
        return OUT, f"{reason}, and accuracy estimated below {reference.halfway_to_chance:.2f}, half-way to chance"
    return DRIFTING, reason


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


def detectable_drop(reference: DriftReference, n_samples: int, false_alarm_rate: float, power: float = 0.95) -> float:
    """The drop of the mean normalised negative entropy that gives an alarm with probability `power`.

    Shifted samples vary more than clean ones: the variance of numbers in [0, 1] with mean m is at most m(1 − m).
    """
    low, _ = clean_range(reference, n_samples, false_alarm_rate)
    mean = min(max(low, 0.0), 1.0)
    sampling_error = math.sqrt(mean * (1 - mean) / n_samples)
    return reference.means[0][NEGATIVE_ENTROPY] - low + float(norm.ppf(power)) * sampling_error
