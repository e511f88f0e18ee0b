"""What a noise ladder looks like without labels: the reference against which unlabelled traffic is read.

A row is four numbers in [0, 1], its gauges; a window is their means. `Profile` keeps what the means were on every rung
of the ladder that a calibrator was tuned on, beside the accuracy there, and reads an accuracy off a window in several
ways. Which of them to trust is decided when the ladder is at hand, see :meth:`Profile.of`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq

from driftcal import checks
from driftcal.calibrators import Calibrator, TemperatureScaling
from driftcal.calibrators.label_free import LadderScale, atc_threshold, between, row_statistics
from driftcal.errors import ArtefactError, DidNotConverge, InputError, UnknownName
from driftcal.sharded import Stored, each_part, stack
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Probs

#: What one row tells, in the order of the columns of `Profile.gauges`.
GAUGES = ("calibrated", "confidence", "certainty", "reaches")
# How far an estimator may be off on the very rows it was fitted on; about twice the sampling error of 1,000 rows.
_CLEAN = 0.02
#: Fewer validation rows than this give no mean worth keeping.
MIN_ROWS = 20


@dataclass(frozen=True)
class Profile:
    """The ladder seen without labels: mean gauges and accuracy of every rung, the clean one first.

    The gauges of a row are ``calibrated``, the calibrator's confidence; ``confidence`` and ``certainty`` = 1 − H / log C
    of softmax(z / T), T fitted on the clean rows; and ``reaches``, whether the certainty reaches the threshold that as
    many clean rows lie below as are wrong.
    """

    temperature: float
    threshold: float
    accuracies: tuple[float, ...]
    means: tuple[tuple[float, ...], ...]  # (rungs, gauges)
    rows: int  # per rung
    deviation: float  # of the certainty of one clean row
    skewness: float  # of the same
    shares: tuple[float, ...]  # predicted classes among the clean rows
    estimator: str
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, ladder: Sequence[AnyArray], y: AnyArray, calibrator: Calibrator) -> Profile:
        """The profile of a ladder: logits of the same labelled rows on every rung, the clean one first.

        The estimator is chosen on these rows alone, by its error in two worlds that look the same without labels. In the
        first, inputs grow noisier: the ladder's rungs, each estimated from the others. In the second they only grow
        harder: clean rows, weighted by e^(−θ·confidence) so that their mean confidence is that of the rung. The
        estimator whose larger error is the least is taken, because nobody knows which of the two comes; but none that
        misjudges the clean rows themselves by more than 0.02, since most windows are clean.
        """
        if not len(ladder):
            raise InputError("ladder must hold the logits of at least one rung, the clean one; it is empty.")
        logits = [rung if isinstance(rung, Stored) else checks.as_logits(rung)[0] for rung in ladder]
        n_classes = logits[0].shape[1]
        labels, _ = checks.as_labels(y, n_classes, len(logits[0]), classes=calibrator.classes_.tolist())
        if len({rung.shape for rung in logits}) > 1 or len(labels) < MIN_ROWS:
            raise InputError(
                f"every rung must hold the same rows, at least {MIN_ROWS}; their shapes are {[rung.shape for rung in logits]}. "
                "Pass the logits of one validation set at each level."
            )
        temperature = _temperature(*stack(logits[:1], labels))
        predicted = each_part(_predicted, logits, {})
        correct = np.stack([rung == labels for rung in predicted])
        clean = each_part(row_statistics, logits[:1], {"temperature": temperature})[0]
        certainty = _certainty(clean[:, 1], n_classes)
        threshold = atc_threshold(certainty, correct[0])
        settings = {"calibrator": calibrator, "temperature": temperature, "threshold": threshold}
        gauges = np.stack(each_part(_gauges_of, logits, settings))
        spread = float(certainty.std())
        plain = cls(
            temperature=temperature,
            threshold=threshold,
            accuracies=tuple(correct.mean(axis=1).tolist()),
            means=tuple(map(tuple, gauges.mean(axis=1).tolist())),
            rows=len(labels),
            deviation=spread,
            skewness=float(np.mean(((certainty - certainty.mean()) / spread) ** 3)) if spread > 0 else 0.0,
            shares=tuple((np.bincount(predicted[0], minlength=n_classes) / len(labels)).tolist()),
            estimator="confidence",
        )
        errors = _errors(plain, gauges[0], correct[0])
        sound = [name for name, found in errors.items() if found["clean"] <= _CLEAN] or list(errors)
        best = min(sound, key=lambda name: max(errors[name].values()))
        return cls(**{**vars(plain), "estimator": best, "errors": errors})

    @property
    def n_classes(self) -> int:
        """How many classes the logits have."""
        return len(self.shares)

    @property
    def levels(self) -> int:
        """Rungs of the ladder, the clean one included."""
        return len(self.accuracies)

    @property
    def halfway(self) -> float:
        """The accuracy half-way between the clean rows' and chance."""
        return (self.accuracies[0] + 1 / self.n_classes) / 2

    def gauges(self, logits: Logits, calibrated: Probs) -> Float64:
        """(n, 4) in [0, 1]: the gauges of checked rows, and of what the calibrator makes of them."""
        return _gauges(logits, calibrated, self.temperature, self.threshold)

    def position(self, means: Float64) -> float:
        """Where a window stands on the ladder, from 0 (clean) to the last rung, by its mean certainty.

        Some models grow surer under noise; for those the ladder is read upwards.
        """
        known = np.array([rung[2] for rung in self.means])
        way = -1.0 if known.mean() > known[0] else 1.0
        return LadderScale.of(way * known).position(way * float(means[2]))

    def slope(self, means: Float64) -> float:
        """How much accuracy the ladder loses per unit of certainty around a window."""
        step = 0.01  # a window of a thousand rows is about this exact
        low, high = (self.position(np.array([0, 0, means[2] + side, 0])) for side in (-step, step))
        return abs(between(self.accuracies, high) - between(self.accuracies, low)) / (2 * step)

    def estimate(self, name: str, means: Float64) -> float:
        """The accuracy of a window of unlabelled rows from their mean gauges, by one of the `ESTIMATORS`."""
        if name not in ESTIMATORS:
            raise UnknownName.of("estimator", name, ESTIMATORS)
        return float(np.clip(ESTIMATORS[name](self, means), 0, 1))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            **asdict(self),
            "accuracies": list(self.accuracies),
            "means": [list(rung) for rung in self.means],
            "shares": list(self.shares),
            "errors": {name: dict(found) for name, found in self.errors.items()},
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Profile:
        """What `to_dict` gave, after checking that it can be used."""
        try:
            profile = cls(
                **{
                    **found,
                    **{name: tuple(map(float, found[name])) for name in ("accuracies", "shares")},
                    "means": tuple(tuple(map(float, rung)) for rung in found["means"]),
                }
            )
            numbers = np.array([*profile.accuracies, *profile.shares, *np.ravel(profile.means), profile.deviation])
            sound = (
                np.shape(profile.means) == (profile.levels, len(GAUGES))
                and bool(((numbers >= 0) & (numbers <= 1 + 1e-9)).all())
                and profile.temperature > 0
                and profile.rows > 0
                and math.isfinite(profile.skewness)
                and profile.estimator in ESTIMATORS
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ArtefactError(
                f"a profile must hold what Profile.of found; it does not: {error}. Tune again."
            ) from error
        if not sound:
            raise ArtefactError("a profile must hold numbers that fit each other; these do not. Tune again.")
        return profile


def _middle(profile: Profile, means: Float64) -> float:
    return (ESTIMATORS["atc"](profile, means) + ESTIMATORS["ladder"](profile, means)) / 2


#: Accuracy from the mean gauges of a window, by name.
ESTIMATORS: dict[str, Callable[[Profile, Float64], float]] = {
    # mean confidence of the calibrator: right as long as it stays calibrated under this drift
    "confidence": lambda profile, means: float(means[0]),
    # Garg et al. 2022: the share of rows that reach the threshold
    "atc": lambda profile, means: float(means[3]),
    # Guillory et al. 2021: clean accuracy minus what the mean confidence lost
    "doc": lambda profile, means: profile.accuracies[0] - (profile.means[0][1] - float(means[1])),
    # the accuracy of the ladder where it is as certain as the window
    "ladder": lambda profile, means: between(profile.accuracies, profile.position(means)),
    # half-way between the last two, of which one errs upwards under noise and the other downwards without it
    "middle": _middle,
}


def _predicted(logits: Logits) -> Array:
    columns: Array = logits.argmax(axis=1)
    return columns


def _gauges_of(logits: Logits, calibrator: Calibrator, temperature: float, threshold: float) -> Float64:
    return _gauges(logits, calibrator.predict_proba(logits), temperature, threshold)


def _temperature(logits: AnyArray, labels: Labels | None) -> float:
    try:
        return float(TemperatureScaling().fit(logits, labels).temperature_)
    except DidNotConverge:  # all rows right, or none better than chance: the model's own scale must do
        return 1.0


def _certainty(negative_entropy: Float64, n_classes: int) -> Float64:
    value: Float64 = np.clip(1 + negative_entropy / math.log(n_classes), 0, 1)
    return value


def _gauges(logits: Logits, calibrated: Probs, temperature: float, threshold: float) -> Float64:
    found = row_statistics(logits, temperature)[:, :2]
    certainty = _certainty(found[:, 1], logits.shape[1])
    columns = [calibrated.max(axis=1), found[:, 0], certainty, certainty >= threshold]
    gauges: Float64 = np.clip(np.stack(columns, axis=1), 0, 1)
    return gauges


def _errors(profile: Profile, clean: Float64, correct: Array) -> dict[str, dict[str, float]]:
    """Mean absolute error of every estimator over the rungs, and over clean rows made as hard as the rungs."""
    noise: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    hard: dict[str, list[float]] = {name: [] for name in ESTIMATORS}
    lowest = np.minimum.accumulate([rung[1] for rung in profile.means])
    for j in range(profile.levels):
        # the clean rung is what every estimator starts from; any other one must be read off the rest
        others = [i for i in range(profile.levels) if i != j or j == 0]
        kept = {name: tuple(getattr(profile, name)[i] for i in others) for name in ("accuracies", "means")}
        without = Profile(**{**vars(profile), **kept})
        weights = _harder(clean[:, 1], float(lowest[j]))
        means, truth = weights @ clean, float(weights @ correct)
        for name in ESTIMATORS:
            noise[name].append(abs(without.estimate(name, np.array(profile.means[j])) - profile.accuracies[j]))
            hard[name].append(abs(profile.estimate(name, means) - truth))
    return {
        name: {
            "clean": noise[name][0],
            "noisier": float(np.mean(noise[name])),
            "harder": float(np.mean(hard[name])),
        }
        for name in ESTIMATORS
    }


def _harder(confidence: Float64, target: float) -> Float64:
    """Weights e^(−θ·confidence) of the clean rows, summing to 1, under which their mean confidence is the target."""

    def weights(theta: float) -> Float64:
        powers: Float64 = np.exp(-theta * (confidence - confidence.min()))
        powers /= powers.sum()
        return powers

    most = 1e3  # by then only the least confident rows count
    if weights(most) @ confidence >= target or not np.ptp(confidence):
        return weights(most if np.ptp(confidence) else 0.0)
    if weights(0.0) @ confidence <= target:
        return weights(0.0)
    return weights(brentq(lambda theta: float(weights(theta) @ confidence) - target, 0.0, most))
