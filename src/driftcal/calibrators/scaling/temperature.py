"""Temperature scaling, solved exactly for any T."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log_softmax_kernel, row_max, softmax_kernel
from driftcal.errors import DidNotConverge, InputError, NoFiniteOptimum
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: Newton ends with a step this small relative to beta; what it leaves is of the order of the step's square.
STEP_TOLERANCE = 1e-7
EPSILON = float(np.finfo(float).eps)
#: Rows whose logits differ by less on average are flat: the squares of such differences underflow.
FLAT = 1e-100


class TemperatureScaling(Calibrator):
    """One scalar for all classes: q = softmax(z / T), with T > 0 minimising the negative log-likelihood.

    The loss is convex in beta = 1/T, so Newton's method, kept inside a bracket, finds the one optimum in float64
    whatever its size. Tuning rows that are all right (T -> 0) or no better than chance (T -> infinity) have none and
    raise `NoFiniteOptimum`, unless `t_max` caps the latter. `t_max=5` reproduces the code of Tomani et al. 2021.
    Guo et al. 2017, section 4.2.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])  # 90 % sure, right 3 times out of 4
    >>> ts = TemperatureScaling().fit(logits, [0, 0, 1, 1])
    >>> ts.predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    keeps_accuracy = True
    fitted = ("temperature_",)

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        beta, report = fit_nll(rows, self.t_max)
        self.temperature_ = float(1 / beta)
        return report

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1 / self.temperature_, out)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        log_softmax_kernel(logits, 1 / self.temperature_, out)


@kernel
def nll_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add weighted sums of the loss log sum exp(beta z) - beta z_y, its slope and its curvature in beta."""
    loss = 0.0
    slope = 0.0
    curvature = 0.0
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        for c in range(row.shape[0]):
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(beta * d)
            s0 += e
            s1 += e * d
            s2 += e * d * d
        own = np.float64(row[labels[i]]) - top
        mean = s1 / s0
        w = weights[i]
        if w > 0:  # a row of weight 0 may hold anything, an infinite loss too
            loss += w * (math.log(s0) - beta * own)
            slope += w * (mean - own)
            curvature += w * (s2 / s0 - mean * mean)
    sums[0] += loss
    sums[1] += slope
    sums[2] += curvature


@kernel
def _survey_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    """Add up what every fit of a temperature asks first.

    Per row: whether the true class is not on top; the slope of its loss at beta = 0; top logit minus mean logit;
    the negative log-likelihood at beta = 1, the squared length of q = softmax(z), q_y, and 1/(classes not masked).
    """
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a row may hold anything, an infinite loss too
            continue
        row = logits[i]
        top = row_max(row)
        total = 0.0
        s0 = 0.0
        q0 = 0.0
        for c in range(row.shape[0]):
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(d)
            s0 += e
            q0 += e * e
            total += d
        finite = row.shape[0]
        if total <= MASKED:  # rare, so kept out of the loop above: masked classes do not count
            total = 0.0
            finite = 0
            for c in range(row.shape[0]):
                if row[c] > -np.inf:
                    total += np.float64(row[c]) - top
                    finite += 1
        own = np.float64(row[labels[i]]) - top
        sums[0] += w if own < 0 else 0.0
        sums[1] += w * (total / finite - own)
        sums[2] -= w * total / finite
        sums[3] += w * (math.log(s0) - own)
        sums[4] += w * q0 / (s0 * s0)
        sums[5] += w * exp(max(own, MASKED)) / s0
        sums[6] += w / finite


@dataclass(frozen=True)
class FirstPass:
    """What the rows say before any temperature is tried; means over the weights."""

    wrong: float
    slope_at_zero: float
    spread: float
    nll: float
    square: float
    own: float
    doubt: float

    @property
    def brier(self) -> float:
        """The squared error of the model as it is."""
        return self.square - 2 * self.own + 1

    @property
    def better_than_chance(self) -> bool:
        """Whether a little confidence in the logits is better than none; beyond rounding of the sums."""
        return self.slope_at_zero < -1e-13 * self.spread


def look(rows: LabelledLogits) -> FirstPass:
    """What the rows say, in one pass."""
    return FirstPass(*(rows.reduce_sum(_survey_sums, len(fields(FirstPass))) / rows.weight).tolist())


def survey(rows: LabelledLogits, t_max: float | None) -> FirstPass:
    """Look at the rows once; raise where no temperature can be the best, by any loss."""
    seen = look(rows)
    if seen.spread < FLAT:  # all temperatures are the same
        if t_max is None:
            raise no_better_than_chance()
        return seen
    if seen.wrong == 0:
        raise NoFiniteOptimum(
            "the best temperature is 0: the model is right on every tuning row, so no temperature explains its errors. "
            "Tune on more rows or on perturbed ones, or keep the model as it is (method 'base')."
        )
    return seen


def no_better_than_chance() -> NoFiniteOptimum:
    """The error for T -> infinity."""
    return NoFiniteOptimum(
        "the best temperature is infinite: the model is no better than chance on the tuning rows. "
        "Check that labels and columns match, or cap the temperature with t_max=5."
    )


def fit_nll(rows: LabelledLogits, t_max: float | None = None) -> tuple[float, FitReport]:
    """beta = 1/T that minimises the negative log-likelihood of `rows`, and the report."""
    floor = beta_floor(t_max)
    seen = survey(rows, t_max)
    if not math.isfinite(seen.slope_at_zero):
        raise NoFiniteOptimum(
            "tuning needs a finite logit for every true class; a row's true class is masked with -inf, so its loss is "
            "infinite at every temperature. Drop such rows or give them weight 0."
        )
    if not seen.better_than_chance and t_max is None:
        raise no_better_than_chance()

    def loss(beta: float, every: int = 1) -> Sequence[float]:
        return [float(part) for part in rows.reduce_sum(nll_sums, 3, beta, every=every) / rows.weight]

    start = max(floor, 1 / seen.spread if seen.spread > FLAT else 1.0)
    if rows.preview > 1:
        # Only a guess: a preview that is separable or no better than chance leaves the start where it was.
        with contextlib.suppress(DidNotConverge):
            start, _, _ = newton(lambda beta: loss(beta, rows.preview), start, floor, tolerance=1e-2, attempts=30)
    beta, after, passes = newton(loss, start, floor)
    certify("nll", seen.nll, after, bound=floor < 1)
    return beta, FitReport("nll", seen.nll, after, passes + 1)


def certify(loss: str, before: float, after: float, *, bound: bool = True) -> None:
    """Raise where a fit promises not to do worse than doing nothing, and did."""
    if bound and not after <= before + 1e-10 * max(1.0, abs(before)):
        raise DidNotConverge(
            f"a fit must not raise its own {loss}; it went from {before:.9g} to {after:.9g}. Please report these logits."
        )


def beta_floor(t_max: float | None) -> float:
    """The smallest beta that `t_max` allows, 0 without a cap."""
    if t_max is None:
        return 0.0
    if not isinstance(t_max, (int, float, np.number)) or not 0 < t_max < math.inf:
        raise InputError(
            f"t_max must be a positive number or None; it is {t_max!r}. Leave it out for the exact optimum."
        )
    return 1 / float(t_max)


def newton(
    loss: Callable[[float], Sequence[float]],
    start: float,
    low: float,
    high: float = math.inf,
    *,
    tolerance: float = STEP_TOLERANCE,
    product: float = 1e-7,
    attempts: int = 100,
) -> tuple[float, float, int]:
    """Minimise a function of beta in [low, high] from its (value, slope, curvature), starting at `start`.

    Newton steps, kept inside the bracket that the signs of the slopes draw: it always holds a local minimum. While a
    side is open, a step changes beta 1,000-fold at most. Near the minimum the last two points together give a step of
    fourth order, which saves the pass that would only confirm it; it is taken where the product of both relative steps
    is below `product`. Returns beta, the value there and how often `loss` was asked.
    """
    floor = low
    beta = start
    before = (math.nan, math.nan, math.nan, math.inf)  # beta, slope, curvature and relative step of the last pass
    for asked in range(1, attempts + 1):
        value, slope, curvature = loss(beta)
        if slope >= 0 and beta <= floor:
            return floor, value, asked  # the cap binds
        if abs(slope) * beta <= 1e-20 * abs(value):
            return beta, value, asked  # flat far below rounding: any beta near here is as good
        if slope < 0:
            low = beta
        else:
            high = beta
        step = -slope / curvature if curvature > 0 else math.copysign(math.inf, -slope)
        size = abs(step) / beta
        if slope == 0 or size <= tolerance or high - low <= 4 * EPSILON * beta:
            return _settle(beta, step, value, slope, curvature, low, high, asked)
        # What the fourth-order step leaves is of the order of that product's square.
        if before[3] < 0.05 and size < 1e-3 and slope != before[1] and before[3] * size < product:
            return _settle(
                beta, _hermite_step(beta, slope, curvature, *before[:3]), value, slope, curvature, low, high, asked
            )
        before = (beta, slope, curvature, size)
        target = min(max(beta + step, beta / 1024, floor), beta * 1024)
        inside = low < target < high or target == floor
        beta = target if inside else math.sqrt(max(low, beta / 1024) * min(high, beta * 1024))
    raise DidNotConverge(
        f"the temperature did not settle in {attempts} passes; it stood at {1 / beta:.6g}. "
        "Are some logits many orders of magnitude larger than the rest?"
    )


def _settle(
    beta: float, step: float, value: float, slope: float, curvature: float, low: float, high: float, asked: int
) -> tuple[float, float, int]:
    step = step if low <= beta + step <= high else 0.0
    # exact to second order, so the value there needs no further pass
    return beta + step, value + slope * step + curvature * step * step / 2, asked


def _hermite_step(
    beta: float, slope: float, curvature: float, beta_0: float, slope_0: float, curvature_0: float
) -> float:
    """Where the slope is 0 on the cubic beta(slope) through two points and their tangents, relative to `beta`."""
    width = slope - slope_0
    t = -slope_0 / width  # 0 at the last point, 1 at this one
    tangent_0, tangent_1 = width / curvature_0, width / curvature
    rise = beta - beta_0
    return (2 * t**3 - 3 * t**2) * -rise + (t**3 - 2 * t**2 + t) * tangent_0 + (t**3 - t**2) * tangent_1 - rise


def clean_temperature(logits: AnyArray, labels: AnyArray) -> float:
    """T of temperature scaling; 1 where it has no finite optimum: all rows right, or none better than chance."""
    try:
        return float(TemperatureScaling().fit(logits, labels).temperature_)
    except DidNotConverge:
        return 1.0
