"""Temperature scaling, solved exactly for any T."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.export_maps.export_map import ExportMap, Scaled
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, log_softmax_kernel, row_max, softmax_kernel
from driftcal.errors import DidNotConverge, InputError, NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights

#: Newton ends with a step this small relative to beta; what it leaves is of the order of the step's square.
STEP_TOLERANCE = 1e-7
EPSILON = float(np.finfo(float).eps)
#: Samples whose logits differ by less on average are flat: the squares of such differences underflow.
FLAT = 1e-100


class TemperatureScaling(LogitCalibrator):
    """One scalar for all classes: q = softmax(z / T), with T > 0 minimising the negative log-likelihood.

    The loss is convex in beta = 1/T, so Newton's method, kept inside a bracket, finds the one optimum in float64
    whatever its size. Where all tuning samples are classified correctly (T -> 0), or no better than chance (T -> infinity),
    there is none: the fit raises `NoFiniteOptimum`, unless `t_max` caps the latter. `t_max=5` reproduces the code of
    Tomani et al. 2021. Guo et al. 2017, section 4.2.

    >>> import numpy as np
    >>> logits = np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.9, 0.1]])  # confidence 0.9, accuracy 0.75
    >>> ts = TemperatureScaling().fit(logits, [0, 0, 1, 1])
    >>> ts.predict_proba(logits)[0].round(6)
    array([0.75, 0.25])
    """

    keeps_accuracy = True
    fitted = {"temperature_": FittedArray(positive=True)}

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        beta, report = fit_nll(data, self.t_max)
        self.temperature_ = float(1 / beta)
        return report

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1 / self.temperature_, out)

    def _log_proba_into(self, logits: Logits, out: Float64) -> None:
        log_softmax_kernel(logits, 1 / self.temperature_, out)

    def export_map(self) -> ExportMap:
        """softmax(z / T)."""
        return ExportMap(Scaled(1 / self.temperature_))

    def _check_params(self) -> None:
        min_beta(self.t_max)


@kernel
def exponential_moments(row: Any, top: float, beta: float) -> tuple[float, float, float]:
    """Σe, Σe·d and Σe·d² with e = exp(beta·d) and d = z − top, the largest logit."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    for c in range(row.shape[0]):
        d = max(np.float64(row[c]) - top, MASKED)
        e = exp(beta * d)
        s0 += e
        s1 += e * d
        s2 += e * d * d
    return s0, s1, s2


@kernel
def nll_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, beta: float) -> None:
    """Add weighted sums of the loss log sum exp(beta z) - beta z_y, its gradient and its curvature in beta."""
    loss = 0.0
    gradient = 0.0
    curvature = 0.0
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        s0, s1, s2 = exponential_moments(row, top, beta)
        true_class = np.float64(row[labels[i]]) - top
        mean = s1 / s0
        w = weights[i]
        if w > 0:  # a sample of weight 0 may hold anything, an infinite loss too
            loss += w * (math.log(s0) - beta * true_class)
            gradient += w * (mean - true_class)
            curvature += w * (s2 / s0 - mean * mean)
    sums[0] += loss
    sums[1] += gradient
    sums[2] += curvature


@kernel
def _first_pass_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    """Add up what every fit of a temperature needs first: the fields of `FirstPass`, times the weights."""
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a sample may hold anything, an infinite loss too
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
        true_class = np.float64(row[labels[i]]) - top
        sums[0] += w if true_class < 0 else 0.0
        sums[1] += w * (total / finite - true_class)
        sums[2] -= w * total / finite
        sums[3] += w * (math.log(s0) - true_class)
        sums[4] += w * q0 / (s0 * s0)
        sums[5] += w * exp(max(true_class, MASKED)) / s0
        sums[6] += w / finite


@dataclass(frozen=True)
class FirstPass:
    """First-pass statistics of the samples, before any temperature is tried: weighted means.

    With q = softmax(z): whether the true class is not the top one; the gradient of the negative log-likelihood at beta = 0; the
    top logit minus the mean logit; the negative log-likelihood at beta = 1; Σ q²; q of the true class; and 1/(classes that are
    not masked), the probability of a uniform prediction.
    """

    error_rate: float
    gradient_at_zero: float
    top_minus_mean: float
    nll: float
    sum_of_squares: float
    true_class: float
    uniform: float

    @property
    def brier(self) -> float:
        """The squared error of the uncalibrated model."""
        return self.sum_of_squares - 2 * self.true_class + 1

    @property
    def better_than_chance(self) -> bool:
        """Whether a little confidence lowers the loss of a uniform prediction, by more than rounding of the sums."""
        return self.gradient_at_zero < -1e-13 * self.top_minus_mean


def first_pass(data: LabelledLogits) -> FirstPass:
    """First-pass statistics, in one pass."""
    return FirstPass(*(data.reduce_sum(_first_pass_sums, len(fields(FirstPass))) / data.total_weight).tolist())


def checked_first_pass(data: LabelledLogits, t_max: float | None) -> FirstPass:
    """First-pass statistics; raises where no temperature can be the best, by any loss."""
    first = first_pass(data)
    if first.top_minus_mean < FLAT:  # all temperatures are the same
        if t_max is None:
            raise no_better_than_chance()
        return first
    if first.error_rate == 0:
        raise NoFiniteOptimum(
            "the best temperature is 0: the model is correct on every tuning sample, so there is no error to measure confidence by. "
            "Tune on more samples or on perturbed ones, or leave the model uncalibrated (method 'base')."
        )
    return first


def no_better_than_chance() -> NoFiniteOptimum:
    """The error for T -> infinity."""
    return NoFiniteOptimum(
        "the best temperature is infinite: the model is no better than chance on the tuning samples. "
        "Check that labels and columns match, or cap the temperature with t_max=5."
    )


def fit_nll(data: LabelledLogits, t_max: float | None = None) -> tuple[float, FitReport]:
    """beta = 1/T that minimises the negative log-likelihood of `data`, and the report."""
    floor = min_beta(t_max)
    first = checked_first_pass(data, t_max)
    if not math.isfinite(first.gradient_at_zero):
        raise NoFiniteOptimum(
            "tuning needs a finite logit for every true class; the true class of a sample is masked with -inf, so its loss "
            "is infinite at every temperature. Drop such samples or give them weight 0."
        )
    if not first.better_than_chance and t_max is None:
        raise no_better_than_chance()

    def loss(beta: float, stride: int = 1) -> Sequence[float]:
        return [float(part) for part in data.reduce_sum(nll_sums, 3, beta, stride=stride) / data.total_weight]

    start = max(floor, 1 / first.top_minus_mean if first.top_minus_mean > FLAT else 1.0)
    if data.subsample_stride > 1:
        # Only a guess: a subsample that is separable or no better than chance leaves the start where it was.
        with contextlib.suppress(DidNotConverge):
            start = minimise_in_beta(
                lambda beta: loss(beta, data.subsample_stride), start, floor, tolerance=1e-2, max_calls=30
            ).beta
    best = minimise_in_beta(loss, start, floor)
    certify("nll", first.nll, best.value, bound=floor < 1)
    return best.beta, FitReport("nll", first.nll, best.value, best.passes + 1)


def certify(loss: str, before: float, after: float, *, bound: bool = True) -> None:
    """Raise where a fit ends with a higher loss than the uncalibrated model, and `bound` says that it must not."""
    if bound and not after <= before + 1e-10 * max(1.0, abs(before)):
        raise DidNotConverge(
            f"a fit must not raise its own {loss}; it went from {before:.9g} to {after:.9g}. Please report these logits."
        )


def min_beta(t_max: float | None) -> float:
    """The smallest beta that `t_max` allows, 0 without a cap."""
    if t_max is None:
        return 0.0
    if not isinstance(t_max, (int, float, np.number)) or not 0 < t_max < math.inf:
        raise InputError(
            f"t_max must be a positive number or None; it is {t_max!r}. Leave it out for the exact optimum."
        )
    return 1 / float(t_max)


@dataclass(frozen=True)
class BetaMinimum:
    """beta = 1/T where a loss is lowest, the loss there, and the passes taken."""

    beta: float
    value: float
    passes: int


def minimise_in_beta(
    loss: Callable[[float], Sequence[float]],
    start: float,
    low: float,
    high: float = math.inf,
    *,
    tolerance: float = STEP_TOLERANCE,
    product: float = 1e-7,
    max_calls: int = 100,
) -> BetaMinimum:
    """Minimise a function of beta in [low, high] from its (value, gradient, curvature), starting at `start`.

    Newton steps, kept inside the bracket given by the signs of the gradients: it always holds a local minimum. While a
    side is open, a step changes beta 1,000-fold at most. Near the minimum the last two points together give a step of
    fourth order, which saves the pass that would only confirm it; it is taken where the product of both relative steps
    is below `product`.
    """
    floor = low
    beta = start
    before = (math.nan, math.nan, math.nan, math.inf)  # beta, gradient, curvature and relative step of the last pass
    for n_calls in range(1, max_calls + 1):
        value, gradient, curvature = loss(beta)
        if gradient >= 0 and beta <= floor:
            return BetaMinimum(floor, value, n_calls)  # the cap binds
        if abs(gradient) * beta <= 1e-20 * abs(value):
            return BetaMinimum(beta, value, n_calls)  # flat far below rounding: any beta nearby is as good
        if gradient < 0:
            low = beta
        else:
            high = beta
        step = -gradient / curvature if curvature > 0 else math.copysign(math.inf, -gradient)
        size = abs(step) / beta
        converged = gradient == 0 or size <= tolerance or high - low <= 4 * EPSILON * beta
        # What the fourth-order step leaves is of the order of that product's square.
        if not converged and before[3] < 0.05 and size < 1e-3 and gradient != before[1] and before[3] * size < product:
            step, converged = _hermite_step(beta, gradient, curvature, *before[:3]), True
        if converged:
            step = step if low <= beta + step <= high else 0.0
            # exact to second order, so the value there needs no further pass
            value = value + gradient * step + curvature * step * step / 2
            return BetaMinimum(beta + step, value, n_calls)
        before = (beta, gradient, curvature, size)
        target = min(max(beta + step, beta / 1024, floor), beta * 1024)
        inside = low < target < high or target == floor
        beta = target if inside else math.sqrt(max(low, beta / 1024) * min(high, beta * 1024))
    raise DidNotConverge(
        f"the temperature did not converge in {max_calls} passes; it was {1 / beta:.6g}. "
        "Are some logits many orders of magnitude larger than the rest?"
    )


def _hermite_step(
    beta: float, gradient: float, curvature: float, beta_0: float, gradient_0: float, curvature_0: float
) -> float:
    """The step from `beta` to gradient 0 on the cubic beta(gradient) through two points and their tangents."""
    width = gradient - gradient_0
    t = -gradient_0 / width  # 0 at the last point, 1 at this one
    tangent_0, tangent_1 = width / curvature_0, width / curvature
    rise = beta - beta_0
    return (2 * t**3 - 3 * t**2) * -rise + (t**3 - 2 * t**2 + t) * tangent_0 + (t**3 - t**2) * tangent_1 - rise
