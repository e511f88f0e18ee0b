"""The confidence above which predictions are accepted, chosen on validation data.

For a target accuracy the threshold holds with probability 1 − delta. Take the m samples with the highest confidence.
Given the next confidence, they are independent draws from the predictions above it, so the number of correct ones is
binomial, and its tail is an exact p-value of "the accuracy above this threshold is below the target" (Clopper & Pearson
1934). Thresholds are tested from high to low and each at the full level until one is not rejected: fixed-sequence
testing, as in Learn then Test (Angelopoulos et al. 2021, section 3.2). No correction for the number of thresholds is
needed, as a union bound would be (Geifman & El-Yaniv 2017). With a beginning that is fixed in advance this is exact if
accuracy does not fall with rising confidence; otherwise each single test still is.

The sequence must begin where a test can pass: with few samples no accuracy can be certified, with many a model that is
accurate only at the top fails at once. It begins at the fewest samples whose confidences alone, without the labels,
promise that the test passes, with 90 % of delta. If the confidences are wrong and it fails, shorter beginnings share the
other 10 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from scipy.stats import beta, binom

from driftcal.core.scalars import is_number
from driftcal.decisions.coverage_curve import CoverageCurve
from driftcal.errors import InputError, NoThreshold
from driftcal.types import Array

#: What a threshold can be chosen for.
CRITERIA = ("accuracy", "coverage", "cost")
#: Thresholds per sequence: more find a slightly higher coverage, and fail more often on the way.
N_TESTS = 75
#: The share of delta of the first sequence.
FIRST_SHARE = 0.9
#: The first sequence begins where its first test passes with this probability, if confidences are calibrated.
POWER = 0.99
#: Steps of the accuracy that is offered where another one cannot be certified.
_STEP = 0.005


@dataclass(frozen=True)
class Threshold:
    """A threshold of the confidence, and what it keeps on the validation data.

    Parameters
    ----------
    confidence : predictions with at least this confidence are accepted.
    criterion : "accuracy", "coverage" or "cost".
    target : the accuracy, the coverage, or the cost of an abstention as a share of that of an error.
    coverage : the share of the validation predictions that is accepted.
    accuracy : the accuracy of these.
    accuracy_bound : their accuracy is at least this with probability 1 − `delta`; None for a cost.
    delta : see `accuracy_bound`.
    n_samples : the number of validation samples.
    """

    confidence: float
    criterion: str
    target: float
    coverage: float
    accuracy: float
    accuracy_bound: float | None
    delta: float
    n_samples: int

    def __str__(self) -> str:
        bound = (
            ""
            if self.accuracy_bound is None
            else f", at least {self.accuracy_bound:.3f} with probability {1 - self.delta:g}"
        )
        return (
            f"Accept predictions with a confidence of at least {self.confidence:.3f}: {self.coverage:.1%} of {self.n_samples} "
            f"validation samples, with an accuracy of {self.accuracy:.3f}{bound}."
        )

    def accepts(self, confidence: Array) -> Array:
        """Whether predictions with these confidences are accepted."""
        accepted: Array = np.asarray(confidence) >= self.confidence
        return accepted

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Threshold:
        """The threshold that `to_dict` wrote, checked."""
        threshold = cls(**{field.name: values[field.name] for field in fields(cls)})
        numbers = (threshold.confidence, threshold.target, threshold.coverage, threshold.accuracy, threshold.delta)
        if threshold.criterion not in CRITERIA or not all(_is_share(number) for number in numbers):
            raise ValueError("a threshold holds values that are no shares")
        if threshold.accuracy_bound is not None and not _is_share(threshold.accuracy_bound):
            raise ValueError("a threshold holds a bound that is no share")
        if type(threshold.n_samples) is not int or threshold.n_samples < 1:
            raise ValueError("a threshold holds no number of samples")
        return threshold


def choose_threshold(
    curve: CoverageCurve,
    *,
    accuracy: float | None = None,
    coverage: float | None = None,
    cost: float | None = None,
    delta: float = 0.05,
) -> Threshold:
    """The threshold for one criterion.

    Parameters
    ----------
    curve
        Predictions of samples that the calibrator was not fitted on.
    accuracy
        The accepted predictions have at least this accuracy, with probability 1 − `delta`. The lowest such threshold.
    coverage
        At least this share of the predictions is accepted.
    cost
        The cost of an abstention if an error costs 1. The threshold has the lowest mean cost (Chow 1970). Where abstaining on
        all samples costs less, there is none.
    delta
        The probability that the bound of the accuracy does not hold.

    >>> rng = np.random.default_rng(0)
    >>> confidence = rng.random(2000)
    >>> curve = CoverageCurve.of(confidence, rng.random(2000) < confidence)
    >>> print(choose_threshold(curve, accuracy=0.8))
    Accept predictions with a confidence of at least 0.638: 36.3% of 2000 validation samples, with an accuracy of 0.831,
    at least 0.806 with probability 0.95.
    """
    criteria = {
        name: value for name, value in zip(CRITERIA, (accuracy, coverage, cost), strict=True) if value is not None
    }
    if len(criteria) != 1:
        raise InputError(
            f"one of accuracy, coverage and cost must be given; {' and '.join(criteria) or 'none'} is. Pass, say, accuracy=0.95."
        )
    ((criterion, target),) = criteria.items()
    for name, value in ((criterion, target), ("delta", delta)):
        if not is_number(value) or not 0 < value < 1:
            raise InputError(f"{name} must be a share between 0 and 1; it is {value!r}. {_way_out(name, value)}")
    if criterion == "accuracy":
        certified = _certified(curve, target, delta)
        if certified is None:
            raise _not_certified(curve, target, delta)
        index = certified
    elif criterion == "coverage":
        index = int(np.searchsorted(curve.kept, target * curve.n_samples - 1e-9))
    else:
        costs = curve.kept - curve.correct + target * (curve.n_samples - curve.kept)
        index = int(np.argmin(costs))
        if costs[index] > target * curve.n_samples:
            raise NoThreshold(
                f"accepting some of these {curve.n_samples} validation samples must cost less than abstaining on all; with an abstention "
                f"at {target:g} the best threshold costs {costs[index] / curve.n_samples:.3g} per sample. Abstain on all, or raise the cost."
            )
    kept, correct = int(curve.kept[index]), int(curve.correct[index])
    return Threshold(
        confidence=float(curve.thresholds[index]),
        criterion=criterion,
        target=float(target),
        coverage=kept / curve.n_samples,
        accuracy=correct / kept,
        accuracy_bound=None if criterion == "cost" else lower_bound(correct, kept, delta),
        delta=float(delta),
        n_samples=curve.n_samples,
    )


def masked_labels(labels: Array, probabilities: Array, threshold: Threshold | None) -> np.ma.MaskedArray[Any, Any]:
    """`labels`, masked where the largest of the probabilities is below the threshold."""
    if threshold is None:
        raise InputError(
            "predict_or_abstain needs a threshold; this model has none. Call with_threshold(calibrated.threshold(accuracy=0.95)) "
            "before, or pass threshold=."
        )
    return np.ma.masked_array(labels, mask=~threshold.accepts(probabilities.max(axis=1)))


def lower_bound(correct: int, n: int, delta: float) -> float:
    """The lower bound of an accuracy with probability 1 − delta.  Clopper & Pearson 1934.

    >>> round(lower_bound(59, 59, 0.05), 3)
    0.95
    """
    return 0.0 if correct == 0 else float(beta.ppf(delta, correct, n - correct + 1))


def fewest_samples(accuracy: float, delta: float) -> int:
    """With fewer accepted samples no accuracy is certified, even if all are correct.

    >>> fewest_samples(0.95, 0.05), fewest_samples(0.99, 0.05)
    (59, 299)
    """
    return math.ceil(math.log(delta) / math.log(accuracy))


def _certified(curve: CoverageCurve, accuracy: float, delta: float) -> int | None:
    """The index of the lowest threshold whose accuracy is certified; None if there is none."""
    fewest = fewest_samples(accuracy, FIRST_SHARE * delta)
    first = _first_start(curve, accuracy, FIRST_SHARE * delta)
    index = _walk(curve, first, accuracy, FIRST_SHARE * delta)
    if index is None:
        starts = []
        while (first := first // 2) >= fewest:
            starts.append(first)
        walks = [_walk(curve, start, accuracy, (1 - FIRST_SHARE) * delta / len(starts)) for start in starts]
        index = max((walk for walk in walks if walk is not None), default=None)
    return index


def _not_certified(curve: CoverageCurve, accuracy: float, delta: float) -> NoThreshold:
    """The error for an accuracy that no threshold reaches: what was asked, what is possible, and the way out."""
    asked = f"accuracy must be one that these {curve.n_samples} validation samples can certify; {accuracy:g} with probability {1 - delta:g} is not"
    fewest = fewest_samples(accuracy, FIRST_SHARE * delta)
    why = f" (it takes at least {fewest} accepted samples without an error)" if fewest > curve.n_samples / 2 else ""
    lower = np.round(np.arange(math.ceil(accuracy / _STEP) - 1, 0, -1) * _STEP, 3)
    certifiable = (
        (target, index) for target in lower.tolist() if (index := _certified(curve, target, delta)) is not None
    )
    target, index = next(certifiable, (0.0, None))
    if index is None:
        possible, instead = "They certify no accuracy at all", "Pass more labelled samples"
    else:
        coverage = curve.kept[index] / curve.n_samples
        possible = f"They certify {target:g}, with a coverage of {coverage:.0%}"
        instead = f"Ask for accuracy={target:g}, raise delta, or pass more labelled samples"
    return NoThreshold(f"{asked}{why}. {possible}. {instead}: threshold(X, y, accuracy={accuracy:g}).")


def _way_out(name: str, value: Any) -> str:
    if is_number(value) and 1 < value < 100:
        return f"Write {value / 100:g} for {value:g} %."
    return "The default of delta is 0.05." if name == "delta" else "Pass, say, accuracy=0.95."


def _first_start(curve: CoverageCurve, accuracy: float, delta: float) -> int:
    """The fewest kept samples whose test is likely to pass if confidences are calibrated; the likeliest otherwise."""
    upper = np.append(1.0, curve.thresholds[:-1])
    counts = np.diff(curve.kept, prepend=0)
    expected = np.cumsum(counts * (upper + curve.thresholds) / 2) / curve.kept  # accuracy, if confidence is calibrated
    power = binom.sf(binom.isf(delta, curve.kept, accuracy), curve.kept, expected)
    likely = np.flatnonzero(power >= POWER)
    return int(curve.kept[likely[0] if len(likely) else np.argmax(power)])


def _walk(curve: CoverageCurve, start: int, accuracy: float, delta: float) -> int | None:
    """The last threshold that passes from `start` kept samples on; None if the first one does not."""
    if start > curve.n_samples:
        return None
    ranks = np.linspace(start, curve.n_samples, N_TESTS)
    indices = np.unique(np.searchsorted(curve.kept, ranks.round()))
    p_values = binom.sf(curve.correct[indices] - 1, curve.kept[indices], accuracy)
    failed = np.flatnonzero(p_values > delta)
    n_passed = int(failed[0]) if len(failed) else len(indices)
    return int(indices[n_passed - 1]) if n_passed else None


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1
