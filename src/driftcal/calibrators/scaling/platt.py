"""Platt scaling, one against rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap, Sigmoids
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.normalise import normalise
from driftcal.calibrators.per_class import LOG_ODDS, ClassScores, for_each_class
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log, log_odds_row
from driftcal.errors import DidNotConverge
from driftcal.types import Float64, Labels, Logits, Weights

#: A class has converged if a Newton step is expected to lower its mean loss by less than this many nats. Slope and
#: intercept then have about six correct digits, and the step doubles these.
CONVERGED_DECREASE = 1e-12
#: The most Newton steps. Only scores of very different sizes need so many.
MAX_STEPS = 200
#: Smoothed targets count at most this many samples: with more they would round to 0 and 1, which no finite line
#: reaches.
MAX_COUNT = 1e9
#: Numbers between an array that a loop writes and any array before it.
_GAP = 64


class PlattScaling(LogitCalibrator):
    """A logistic curve per class on its log-odds against the rest: σ(a·x + b), x = log p − log(1 − p), normalised.

    a and b minimise the negative log-likelihood of "is the class". There is no finite optimum if a threshold separates
    the tuning samples of a class from the others, or if one of both is missing. Then Platt's smoothed targets are used,
    and the report has a warning. Platt 1999; one against rest as in Zadrozny and Elkan 2002.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]])
    >>> PlattScaling().fit(logits, [0, 0, 1, 1, 1, 0]).predict_proba(logits)[0].round(6)  # correct 4 times out of 6
    array([0.666667, 0.333333])
    """

    keeps_accuracy = False
    uses_sample_count = True  # in smoothed targets
    fitted = {"slopes_": FittedArray("classes"), "intercepts_": FittedArray("classes")}

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        lines, passes = for_each_class(data, LOG_ODDS, fit_line)
        self.slopes_ = np.array([line.slope for line in lines])
        self.intercepts_ = np.array([line.intercept for line in lines])
        return platt_report(data, lines, passes)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        platt_kernel(logits, out, self.slopes_, self.intercepts_)
        normalise(logits, out)

    def export_map(self) -> ExportMap:
        """σ(a·x + b) per class, normalised."""
        return ExportMap(Sigmoids(self.slopes_, self.intercepts_), last_step="normalise")


@kernel
def platt_kernel(logits: Logits, out: Float64, slopes: Float64, intercepts: Float64) -> None:
    """Write σ(a·x + b) for every class."""
    for i in range(logits.shape[0]):
        x = out[i]
        log_odds_row(logits[i], x)
        for c in range(x.shape[0]):
            x[c] = sigmoid(slopes[c] * x[c] + intercepts[c])


@kernel
def sigmoid(m: float) -> float:
    """1 / (1 + e^−m), for any m."""
    e = exp(max(-abs(m), MASKED))
    share = 1.0 / (1.0 + e)
    return share if m >= 0 else e * share


@kernel
def to_sigmoid(x: Float64, slope: float, intercept: float) -> None:
    """Replace x by σ(slope·x + intercept)."""
    for i in range(x.shape[0]):
        x[i] = sigmoid(slope * x[i] + intercept)


@dataclass(frozen=True)
class Line:
    """σ(slope·x + intercept) of one class, and its summed loss before and after.

    `smoothed` says that there was no finite optimum, so that smoothed targets were used.
    """

    slope: float
    intercept: float
    before: float
    after: float
    smoothed: bool


class _LineSums(NamedTuple):
    """The summed loss of a line, its gradient in slope a and intercept b, and its curvatures."""

    loss: float
    gradient_a: float
    gradient_b: float
    aa: float
    ab: float
    bb: float

    def derivative(self, step: _Step) -> float:
        """The derivative of the loss along a step."""
        return step.a * self.gradient_a + step.b * self.gradient_b

    def newton_step(self, damping: float = 0.0) -> _Step | None:
        """The step to the minimum of the quadratic model, shorter and steeper with `damping`; None if all is flat."""
        # a ridge far below rounding keeps the system solvable if scores hardly differ
        aa, ab, bb = self.aa * (1 + 1e-13 + damping), self.ab, self.bb * (1 + 1e-13 + damping)
        determinant = aa * bb - ab * ab
        if not determinant > 0:
            return None
        return _Step(
            (ab * self.gradient_b - bb * self.gradient_a) / determinant,
            (ab * self.gradient_a - aa * self.gradient_b) / determinant,
        )


class _Step(NamedTuple):
    """A step of the slope a and the intercept b."""

    a: float
    b: float


def fit_line(column: ClassScores) -> Line:
    """Fit the line of one class by Newton's method; a step that would raise the loss is shortened.

    The variable is x − centre, so that slope and intercept stay distinguishable if scores hardly differ.
    """
    c, x, labels, weights = column.column, column.scores, column.labels, column.weights
    groups = ClassGroups(*_class_groups(x, labels, weights, c))
    positive, negative, centre = groups.positive, groups.negative, groups.mean
    is_constant = not groups.greatest - groups.least > 1e-14 * max(abs(groups.least), abs(groups.greatest))
    smoothed = groups.separable and not (is_constant and positive > 0 and negative > 0)
    # weights that sum to less than the number of samples are shares of it
    samples_per_weight = max(1.0, groups.n_samples / (positive + negative)) if positive + negative > 0 else 1.0
    n_positive = min(positive * samples_per_weight, MAX_COUNT)
    n_negative = min(negative * samples_per_weight, MAX_COUNT)
    positive_target = (n_positive + 1) / (n_positive + 2) if smoothed else 1.0
    negative_target = 1 / (n_negative + 2) if smoothed else 0.0

    # compiled loops compute small arrays less than 16 numbers apart in memory one by one, and sums then differ in the last
    # bit: a gap makes fits equal to the bit
    powers = np.empty(len(x) + 2 * _GAP)[_GAP : len(x) + _GAP]

    def sums(a: float, b: float) -> _LineSums:
        return _LineSums(
            *_line_sums(
                x, labels, weights, powers, column.equal_weights, c, a, b, centre, positive_target, negative_target
            )
        )

    a, length, damping = 0.0, 1.0, 0.0
    total = positive + negative
    base_rate = (positive * positive_target + negative * negative_target) / total if total > 0 else 0.5
    b = math.log(base_rate / (1 - base_rate)) if 0 < base_rate < 1 else math.log((positive + 1) / (negative + 1))
    current = sums(1.0, centre)
    before = current.loss
    base_rate_loss = 0.0
    if 0 < base_rate < 1:
        base_rate_loss = -total * (base_rate * math.log(base_rate) + (1 - base_rate) * math.log1p(-base_rate))
    if before < base_rate_loss:  # the uncalibrated model is a better start than the base rate
        a, b = 1.0, centre
    else:
        current = sums(a, b)
    # all scores are equal, or all targets: a slope would be rounding, of any sign
    constant_is_optimal = is_constant or positive == 0 or negative == 0
    for _ in range(MAX_STEPS):
        newton_step = current.newton_step()
        if constant_is_optimal or newton_step is None:
            after = current.loss
            break
        expected_decrease = -current.derivative(newton_step)
        if expected_decrease <= CONVERGED_DECREASE * total:  # the last step and its decrease are exact to second order
            a, b, after = a + newton_step.a, b + newton_step.b, current.loss - expected_decrease / 2
            break
        step = current.newton_step(damping) or newton_step
        new = sums(a + length * step.a, b + length * step.b)
        # the loss is convex: a step whose derivative along it shrinks went downhill
        if abs(new.derivative(step)) < -current.derivative(step):
            a, b, current = a + length * step.a, b + length * step.b, new
            length, damping = min(1.0, 4 * length), damping / 1000
        elif length > 1e-3:
            length /= 4
        else:  # the direction is bad: scores of very different sizes make a and b hard to distinguish
            length, damping = 1.0, max(1000 * damping, 1e-9)
    else:
        raise DidNotConverge(
            f"Platt scaling of class number {c} did not converge in {MAX_STEPS} steps; slope and intercept were {a:.6g} "
            f"and {b - a * centre:.6g}. Are some logits or weights many orders of magnitude larger than the rest?"
        )
    b -= a * centre
    if not smoothed:
        certify("negative log-likelihood", before, after)
    # smoothed targets are below 1: a model that is certain and correct stays uncalibrated
    return Line(a, b, before, after, smoothed) if after <= before else Line(1.0, 0.0, before, before, smoothed)


@dataclass(frozen=True)
class ClassGroups:
    """The weights of the samples of a class and of all others, and the mean, least and greatest x.

    `separable` says whether a threshold separates both. `n_samples` is the number of samples in which the class is not
    masked: only these are evidence for its line.
    """

    positive: float
    negative: float
    mean: float
    least: float
    greatest: float
    separable: bool
    n_samples: int


@kernel
def _class_groups(
    x: Float64, labels: Labels, weights: Weights, c: int
) -> tuple[float, float, float, float, float, bool, int]:
    """The fields of `ClassGroups`."""
    positive = negative = total = 0.0
    n_samples = 0
    least_positive, most_positive, least_negative, most_negative = np.inf, -np.inf, np.inf, -np.inf
    for i in range(x.shape[0]):
        if abs(x[i]) < -MASKED:
            n_samples += 1
            total += weights[i] * x[i]
            if labels[i] == c:
                positive += weights[i]
                least_positive, most_positive = min(least_positive, x[i]), max(most_positive, x[i])
            else:
                negative += weights[i]
                least_negative, most_negative = min(least_negative, x[i]), max(most_negative, x[i])
    mean = total / (positive + negative) if positive + negative > 0 else 0.0
    separable = not (least_positive < most_negative and least_negative < most_positive)
    least, greatest = min(least_positive, least_negative), max(most_positive, most_negative)
    return positive, negative, mean, least, greatest, separable, n_samples


@kernel
def _line_sums(
    x: Float64,
    labels: Labels,
    weights: Weights,
    powers: Float64,
    equal_weights: bool,
    c: int,
    a: float,
    b: float,
    centre: float,
    positive_target: float,
    negative_target: float,
) -> tuple[float, float, float, float, float, float]:
    """The fields of `_LineSums`; the loss is Σ w (log(1 + e^m) − t·m) with m = a·(x − centre) + b and the target t.

    `powers` is scratch memory for e^−|m| of every sample.
    """
    loss = gradient_a = gradient_b = aa = ab = bb = 0.0
    for i in range(x.shape[0]):
        unmasked = abs(x[i]) < -MASKED
        w = weights[i] if unmasked else 0.0
        z = x[i] - centre if unmasked else 0.0
        t = positive_target if labels[i] == c else negative_target
        m = a * z + b
        e = exp(max(-abs(m), MASKED))
        share = 1.0 / (1.0 + e)
        residual = w * ((share if m >= 0 else e * share) - t)
        curvature = w * e * share * share
        gradient_a += residual * z
        gradient_b += residual
        aa += curvature * z * z
        ab += curvature * z
        bb += curvature
        loss += w * (max(m, 0.0) - t * m)
        powers[i] = e if unmasked else 0.0
    loss += _log_factors(powers, weights, equal_weights)
    return loss, gradient_a, gradient_b, aa, ab, bb


@kernel
def _log_factors(powers: Float64, weights: Weights, equal_weights: bool) -> float:
    """Σ w log(1 + power), with powers from 0 to 1.

    512 samples of the same weight take one logarithm, since their product is at most 2^512.
    """
    total = 0.0
    if not equal_weights:
        for i in range(powers.shape[0]):
            total += weights[i] * log(1.0 + powers[i])
        return total
    for low in range(0, powers.shape[0], 512):
        product = 1.0
        for i in range(low, min(low + 512, powers.shape[0])):
            product *= 1.0 + powers[i]
        total += log(product)
    return float(weights[0]) * total


def platt_report(data: LabelledLogits, lines: Sequence[Line], passes: int) -> FitReport:
    """The report of all lines together."""
    smoothed = [str(name) for name, line in zip(data.classes.tolist(), lines, strict=True) if line.smoothed]
    warnings = (
        f"{len(smoothed)} of {data.n_classes} classes have no finite optimum (a threshold separates their tuning samples from "
        f"the others, or one of both is missing) and use Platt's smoothed targets: {', '.join(smoothed[:5])}{' …' * (len(smoothed) > 5)}",
    )
    return FitReport(
        "nll one against rest, summed over classes",
        math.fsum(line.before for line in lines) / data.total_weight,
        math.fsum(line.after for line in lines) / data.total_weight,
        passes,
        warnings=warnings if smoothed else (),
    )
