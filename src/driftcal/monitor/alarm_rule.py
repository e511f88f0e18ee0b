"""The alarm rule: the state of a window of unlabelled samples, compared with clean validation samples.

A window is `ok` if its mean normalised negative entropy lies in the range of clean windows of its size
(:func:`clean_range`). Otherwise it is `drifting`, or `out of distribution` if the estimated accuracy is closer to chance
than to the clean accuracy. If too little is known it is `cannot tell`.

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
#: States from the best to the worst. Too few samples are no bad sign, so `cannot tell` comes first.
SEVERITY = (UNKNOWN, OK, DRIFTING, OUT)
#: Smaller windows have no state: the standard error of an accuracy can exceed 0.07.
MIN_SAMPLES = 50
# The false alarm rate holds for this share of all validation sets, not only on average over them.
_ASSURANCE = 0.99
# An estimate within this distance of the clean accuracy counts as no loss.
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
    estimator : the one that decides whether the window is out of distribution.
    false_alarm_rate : share of clean windows that may be called anything but ok.
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
    large_loss = [name for name, accuracy in estimates.items() if accuracy < reference.halfway_to_chance]
    if no_loss and large_loss:
        return UNKNOWN, (
            f"the estimators contradict each other: {no_loss[0]} estimates no loss of accuracy, "
            f"{large_loss[0]} a loss of more than half"
        )
    reason = f"mean entropy {'above' if value < low else 'below'} that of clean validation samples"
    if estimates[estimator] < reference.halfway_to_chance:
        return OUT, f"{reason}, and accuracy estimated below {reference.halfway_to_chance:.2f}, half-way to chance"
    return DRIFTING, reason


def clean_range(reference: DriftReference, n_samples: int, false_alarm_rate: float) -> tuple[float, float]:
    """The range of the mean normalised negative entropy of clean windows; a share `false_alarm_rate` lies outside.

    Mean ± (z(α/2) / √n_samples + z(0.01) / √n) standard deviations of a sample. The second part is the sampling error of
    the n validation samples, so the rate holds with 99 % assurance. The first part is corrected for the skewness of the
    samples (Cornish and Fisher), because normalised negative entropy has a long lower tail.
    """
    z = float(norm.isf(false_alarm_rate / 2))
    skew = reference.skewness / (6 * math.sqrt(n_samples)) * (z * z - 1)
    validation = float(norm.ppf(_ASSURANCE)) / math.sqrt(reference.n_samples)
    below, above = (z - skew) / math.sqrt(n_samples) + validation, (z + skew) / math.sqrt(n_samples) + validation
    centre = reference.means[0][NEGATIVE_ENTROPY]
    return centre - reference.standard_deviation * below, centre + reference.standard_deviation * above


def detectable_loss(reference: DriftReference, n_samples: int, false_alarm_rate: float, power: float = 0.95) -> float:
    """How far the mean normalised negative entropy must fall for a window to be noticed with probability `power`.

    Shifted samples vary more than clean ones; numbers in [0, 1] with mean m have a variance of at most m(1 − m).
    """
    low, _ = clean_range(reference, n_samples, false_alarm_rate)
    edge = min(max(low, 0.0), 1.0)
    return (
        reference.means[0][NEGATIVE_ENTROPY] - low + float(norm.ppf(power)) * math.sqrt(edge * (1 - edge) / n_samples)
    )
