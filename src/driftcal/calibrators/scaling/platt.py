"""Platt scaling, one against rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport, finish
from driftcal.calibrators.kernels.class_columns import LOG_ODDS, Column, for_each_column
from driftcal.calibrators.scaling.temperature import certify
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log, log_odds_row
from driftcal.errors import DidNotConverge
from driftcal.types import Float64, Labels, Logits, Weights

#: A class is done when a Newton step promises to lower its mean loss by less than this many nats: slope and intercept
#: are then right to about six digits, and the step itself doubles them.
DECREMENT = 1e-12
ATTEMPTS = 200

#: A loss, its two slopes and its three curvatures.
_Sums: TypeAlias = tuple[float, float, float, float, float, float]


class PlattScaling(Calibrator):
    """A logistic curve per class on its log-odds against the rest: σ(a·x + b), x = log p − log(1 − p), normalised.

    a and b minimise the negative log-likelihood of "is the class". Where a class has no finite optimum, because a
    threshold separates its tuning rows or they hold only one kind, Platt's smoothed targets are used and the report
    says so. Platt 1999; one against rest as in Zadrozny and Elkan 2002.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.9, 0.1], [0.1, 0.9]])
    >>> PlattScaling().fit(logits, [0, 0, 1, 1, 1, 0]).predict_proba(logits)[0].round(6)  # right 4 times out of 6
    array([0.666667, 0.333333])
    """

    keeps_accuracy = False
    fitted = ("slopes_", "intercepts_")

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        lines, passes = for_each_column(rows, LOG_ODDS, fit_line)
        self.slopes_ = np.array([line.slope for line in lines])
        self.intercepts_ = np.array([line.intercept for line in lines])
        return platt_report(rows, lines, passes)

    def _map(self, logits: Logits, out: Float64) -> None:
        platt_kernel(logits, out, self.slopes_, self.intercepts_)
        finish(logits, out)


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
    """σ(slope·x + intercept) of one class; losses are sums over its rows, `smoothed` says that no optimum was finite."""

    slope: float
    intercept: float
    before: float
    after: float
    smoothed: bool


def fit_line(column: Column) -> Line:
    """Newton's method on one class; a step that would raise the loss is cut.

    Works on x − centre, so that scores which hardly differ still tell slope and intercept apart.
    """
    c, x, labels, weights = column.number, column.scores, column.labels, column.weights
    positive, negative, centre, least, most, separable = _kinds(x, labels, weights, c)
    constant = not most - least > 1e-14 * max(abs(least), abs(most))
    smoothed = separable and not (constant and positive > 0 and negative > 0)
    # Weights that sum to less than the rows are shares of them. Counts beyond 1e9 would round the targets to 1 and 0,
    # which no finite line reaches.
    rows_each = max(1.0, len(x) / (positive + negative)) if positive + negative > 0 else 1.0
    hits, misses = min(positive * rows_each, 1e9), min(negative * rows_each, 1e9)
    hit = (hits + 1) / (hits + 2) if smoothed else 1.0
    miss = 1 / (misses + 2) if smoothed else 0.0

    powers = np.empty(len(x))

    def sums(a: float, b: float) -> _Sums:
        return _line_sums(x, labels, weights, powers, column.even, c, a, b, centre, hit, miss)

    a, cut, damping = 0.0, 1.0, 0.0
    total = positive + negative
    share = (positive * hit + negative * miss) / total if total > 0 else 0.5
    b = math.log(share / (1 - share)) if 0 < share < 1 else math.log((positive + 1) / (negative + 1))
    here = sums(1.0, centre)
    before = here[0]
    knowing_nothing = -total * (share * math.log(share) + (1 - share) * math.log1p(-share)) if 0 < share < 1 else 0.0
    if before < knowing_nothing:  # start from the model as it is: nearer than the base rate
        a, b = 1.0, centre
    else:
        here = sums(a, b)
    for _ in range(ATTEMPTS):
        step = _newton_step(*here[1:])
        if constant or step is None:  # no spread at all: the constant is the answer
            after = here[0]
            break
        promise = -(step[0] * here[1] + step[1] * here[2])
        if promise <= DECREMENT * total:  # the last step, and what it brings, are exact to second order
            a, b, after = a + step[0], b + step[1], here[0] - promise / 2
            break
        step_a, step_b = _newton_step(*here[1:], damping) or step
        promise = -(step_a * here[1] + step_b * here[2])
        there = sums(a + cut * step_a, b + cut * step_b)
        # The loss is convex: while its slope along the step is less than it was in size, the step went the right way.
        if abs(there[1] * step_a + there[2] * step_b) < promise:
            a, b, here = a + cut * step_a, b + cut * step_b, there
            cut, damping = min(1.0, 4 * cut), damping / 1000
        elif cut > 1e-3:
            cut /= 4
        else:  # the direction itself is bad: two rows far apart in size leave a and b hard to tell apart
            cut, damping = 1.0, max(1000 * damping, 1e-9)
    else:
        raise DidNotConverge(
            f"Platt scaling of class number {c} did not settle in {ATTEMPTS} steps; slope and intercept stood at {a:.6g} "
            f"and {b - a * centre:.6g}. Are some logits or weights many orders of magnitude larger than the rest?"
        )
    b -= a * centre
    certify("negative log-likelihood", before, after, bound=not smoothed)
    # Smoothed targets stop short of certainty; a model that is certain and right is left as it is.
    return Line(a, b, before, after, smoothed) if after <= before else Line(1.0, 0.0, before, before, smoothed)


def _newton_step(
    slope_a: float, slope_b: float, aa: float, ab: float, bb: float, damping: float = 0.0
) -> tuple[float, float] | None:
    """The step to the minimum of the quadratic model, shorter and steeper with `damping`; None where all is flat."""
    # A ridge far below rounding keeps scores that hardly tell a and b apart solvable.
    aa, bb = aa * (1 + 1e-13 + damping), bb * (1 + 1e-13 + damping)
    determinant = aa * bb - ab * ab
    if not determinant > 0:
        return None
    return (ab * slope_b - bb * slope_a) / determinant, (ab * slope_a - aa * slope_b) / determinant


@kernel
def _kinds(x: Float64, labels: Labels, weights: Weights, c: int) -> tuple[float, float, float, float, float, bool]:
    """Weight of the class' own rows and of the rest; mean, least and most x; whether a threshold separates the two."""
    own = rest = total = 0.0
    own_least, own_most, rest_least, rest_most = np.inf, -np.inf, np.inf, -np.inf
    for i in range(x.shape[0]):
        if abs(x[i]) < -MASKED:
            total += weights[i] * x[i]
            if labels[i] == c:
                own += weights[i]
                own_least, own_most = min(own_least, x[i]), max(own_most, x[i])
            else:
                rest += weights[i]
                rest_least, rest_most = min(rest_least, x[i]), max(rest_most, x[i])
    centre = total / (own + rest) if own + rest > 0 else 0.0
    separable = not (own_least < rest_most and rest_least < own_most)
    return own, rest, centre, min(own_least, rest_least), max(own_most, rest_most), separable


@kernel
def _line_sums(
    x: Float64,
    labels: Labels,
    weights: Weights,
    powers: Float64,
    even: bool,
    c: int,
    a: float,
    b: float,
    centre: float,
    hit: float,
    miss: float,
) -> _Sums:
    """Σ w (log(1 + e^m) − t·m), m = a·(x − centre) + b; its slopes in a and b; its curvatures aa, ab, bb.

    `powers` is room for e^−|m| of every row.
    """
    loss = slope_a = slope_b = aa = ab = bb = 0.0
    for i in range(x.shape[0]):
        known = abs(x[i]) < -MASKED
        w = weights[i] if known else 0.0
        z = x[i] - centre if known else 0.0
        t = hit if labels[i] == c else miss
        m = a * z + b
        e = exp(max(-abs(m), MASKED))
        share = 1.0 / (1.0 + e)
        off = w * ((share if m >= 0 else e * share) - t)
        bend = w * e * share * share
        slope_a += off * z
        slope_b += off
        aa += bend * z * z
        ab += bend * z
        bb += bend
        loss += w * (max(m, 0.0) - t * m)
        powers[i] = e if known else 0.0
    loss += _log_factors(powers, weights, even)
    return loss, slope_a, slope_b, aa, ab, bb


@kernel
def _log_factors(powers: Float64, weights: Weights, even: bool) -> float:
    """Σ w log(1 + power), powers from 0 to 1: 512 rows of the same weight, whose product is at most 2^512, take one logarithm."""
    total = 0.0
    if not even:
        for i in range(powers.shape[0]):
            total += weights[i] * log(1.0 + powers[i])
        return total
    for low in range(0, powers.shape[0], 512):
        product = 1.0
        for i in range(low, min(low + 512, powers.shape[0])):
            product *= 1.0 + powers[i]
        total += log(product)
    return float(weights[0]) * total


def platt_report(rows: LabelledLogits, lines: Sequence[Line], passes: int) -> FitReport:
    """What all the lines together did."""
    smoothed = [str(name) for name, line in zip(rows.classes.tolist(), lines, strict=True) if line.smoothed]
    warnings = (
        f"{len(smoothed)} of {rows.n_classes} classes have no finite optimum (a threshold separates their tuning rows, or "
        f"all are of one kind) and use Platt's smoothed targets: {', '.join(smoothed[:5])}{' …' * (len(smoothed) > 5)}",
    )
    return FitReport(
        "nll one against rest, summed over classes",
        math.fsum(line.before for line in lines) / rows.weight,
        math.fsum(line.after for line in lines) / rows.weight,
        passes,
        warnings=warnings if smoothed else (),
    )
