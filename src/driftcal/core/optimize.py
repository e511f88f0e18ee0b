"""Exact minimisation of smooth functions: Newton's method for few variables, L-BFGS for many."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from threadpoolctl import ThreadpoolController

from driftcal.errors import DidNotConverge
from driftcal.types import Float64

#: Rounding hides a decrease below this share of the value, so smaller steps are judged by the gradient.
VALUE_DIGITS = 1e-11
#: Newton's method ends when the expected decrease is below this share of the value. Variables are then exact to about
#: the root of it, 1e-11.
NEWTON_TOL = 1e-22
#: The same for L-BFGS: directions of little curvature converge last.
LBFGS_TOL = 1e-25
#: Shares are taken of at least this value, because a loss this close to 0 cannot be improved.
LEAST_VALUE = 1e-9
#: Number of steps that L-BFGS stores.
MEMORY = 30
#: A line search near the minimum that takes more tries than this follows rounding errors.
MAX_LINE_SEARCH = 20

#: Value, gradient and curvature at a point.
Loss: TypeAlias = Callable[[Float64], tuple[float, Float64, Float64]]
#: Value and gradient at a point.
LossAndGradient: TypeAlias = Callable[[Float64], tuple[float, Float64]]

_pools = cache(ThreadpoolController)  # looking for libraries takes milliseconds


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a function is smallest, its value there, and how often it was called."""

    x: Float64
    value: float
    n_calls: int


@contextmanager
def _one_thread() -> Iterator[None]:
    """BLAS on one thread.

    Passes use all cores themselves, and the products between passes are small. BLAS threads would be slower than one
    thread, and while they wait for work they take the cores from the passes.
    """
    with _pools().limit(limits=1, user_api="blas"):
        yield


@_one_thread()
def minimise_newton(
    loss: Loss, start: Float64, name: str, *, tol: float = NEWTON_TOL, noise: float = 0.0, max_calls: int = 500
) -> Minimum:
    """A minimum of `loss`, never higher than `start`.

    Newton's method with the damping of Levenberg and Marquardt. Far from the minimum a step must lower the value. Where
    rounding hides the decrease, a step must shorten the gradient in the metric of the curvature. The search ends where
    the expected decrease is below the share `tol` of the value. `noise` is the rounding error of the value, if it is
    larger than usual. Raises `DidNotConverge` with `name`.
    """
    x, damping, growth, least_decrease = start, 1e-2, 2.0, math.inf
    value, gradient, curvature = loss(x)
    axes = _principal_axes(gradient, curvature)
    for n_calls in range(1, max_calls):
        undamped_decrease = 0.5 * float((axes.gradient**2 / axes.curvatures).sum())
        size = max(abs(value), LEAST_VALUE)
        is_rounded = undamped_decrease <= max(VALUE_DIGITS * size, noise)
        # a gradient of rounding errors only does not get shorter
        is_stalled = is_rounded and damping < 1e-6 and undamped_decrease > 0.5 * least_decrease
        if not undamped_decrease > tol * size or is_stalled:
            return Minimum(x, value, n_calls)
        step = -axes.to_variables @ (axes.gradient / (axes.curvatures + damping))
        damped_decrease = float(-gradient @ step - 0.5 * step @ curvature @ step)
        new_value, new_gradient, new_curvature = loss(x + step)
        gain = (value - new_value) / damped_decrease
        if gain > 1e-3 or (is_rounded and new_value <= value + max(1e-13 * size, noise)):
            least_decrease = undamped_decrease if is_rounded and damping < 1e-6 else least_decrease
            x, value, gradient, curvature = x + step, new_value, new_gradient, new_curvature
            axes = _principal_axes(gradient, curvature)
            # Nielsen's rule: the better the quadratic model predicted, the less damping
            damping *= 0.1 if is_rounded else max(0.2, 1 - (2 * gain - 1) ** 3)
            growth = 2.0
        else:
            damping, growth = max(damping, 1e-9) * growth, 2 * growth
        if damping > 1e30:
            break
    raise _did_not_converge(name, max_calls, value)


class PrincipalAxes(NamedTuple):
    """The principal axes of the curvature: the coordinates in which it is diagonal."""

    curvatures: Float64
    gradient: Float64
    #: (variables, axes): turns a step along the axes into a step of the variables.
    to_variables: Float64


def _principal_axes(gradient: Float64, curvature: Float64) -> PrincipalAxes:
    """The principal axes of `curvature`, of variables scaled to a curvature of 1.

    Negative curvature counts by its size, so that steps go downhill there too. Directions whose curvature is a rounding
    error get a small positive one.
    """
    from scipy.linalg import eigh

    scale = np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-300))
    values, vectors = eigh(curvature / np.outer(scale, scale), check_finite=False)
    values = np.abs(values) + 1e-14 * max(1.0, float(np.abs(values).max()))
    return PrincipalAxes(values, vectors.T @ (gradient / scale), vectors / scale[:, None])


@_one_thread()
def minimise_lbfgs(
    loss: LossAndGradient,
    start: Float64,
    curvature: Float64,
    name: str,
    *,
    tol: float = LBFGS_TOL,
    max_calls: int = 5000,
) -> Minimum:
    """The minimum of a convex function of many variables, never higher than `start`.

    L-BFGS (Nocedal 1980) in units of `curvature`, an estimate of the diagonal of the second derivative. A step is
    judged by the derivative along it. For a convex function this is as informative as the value, and it has more digits
    near the minimum; scipy's L-BFGS uses the value and stops at 1e-8. Raises `DidNotConverge` with `name`.
    """
    x, unit = start, np.sqrt(np.maximum(curvature, 1e-300))
    value, gradient = loss(x)
    pairs: deque[tuple[Float64, Float64]] = deque(maxlen=MEMORY)
    least_decrease, n_stalled, n_calls = math.inf, 0, 1
    while n_calls < max_calls:
        step = -_two_loops(gradient / unit, pairs) / unit
        decrease = -0.5 * float(gradient @ step)  # what the quadratic model predicts
        size = max(abs(value), LEAST_VALUE)
        is_rounded = decrease < VALUE_DIGITS * 1e-5 * size
        n_stalled = 0 if decrease < 0.5 * least_decrease else n_stalled + 1
        least_decrease = min(least_decrease, decrease)
        if not decrease > tol * size or (is_rounded and n_stalled > MEMORY):
            return Minimum(x, value, n_calls)
        bracket, length, n_tries = _Bracket(0.0, -2 * decrease), 1.0, 0
        while n_calls < max_calls:
            new_value, new_gradient = loss(x + length * step)
            n_calls, n_tries = n_calls + 1, n_tries + 1
            derivative = float(new_gradient @ step)
            if abs(derivative) <= decrease and (derivative <= 0 or new_value <= value + 1e-13 * size):
                break
            if is_rounded and n_tries > MAX_LINE_SEARCH:
                return Minimum(x, value, n_calls)  # the derivative along the step is a rounding error
            length = bracket.next_length(length, derivative)
            if bracket.is_empty:
                break
        move, gradient_change = length * step * unit, (new_gradient - gradient) / unit
        if float(move @ gradient_change) > 0:
            pairs.append((move, gradient_change))
        x, value, gradient = x + length * step, new_value, new_gradient
    raise _did_not_converge(name, max_calls, value)


@dataclass
class _Bracket:
    """The step lengths between which the minimum lies: the derivative is negative at `low` and positive at `high`."""

    low: float
    low_derivative: float
    high: float = math.inf
    high_derivative: float = math.inf

    def next_length(self, length: float, derivative: float) -> float:
        """The length to try after `length`, where the derivative is `derivative`."""
        second_derivative = (derivative - self.low_derivative) / max(length - self.low, 1e-300)
        if derivative < 0:
            self.low, self.low_derivative = length, derivative
        else:
            self.high, self.high_derivative = length, derivative
        if self.high == math.inf:  # where a straight line through the derivatives is 0; from 2 to 10 times as long
            further = -derivative / second_derivative if second_derivative > 0 else math.inf
            return self.low + min(max(further, self.low), 9 * self.low)
        share = -self.low_derivative / (self.high_derivative - self.low_derivative)
        return self.low + (self.high - self.low) * min(max(share, 0.1), 0.9)

    @property
    def is_empty(self) -> bool:
        """Whether both ends are the same number, up to rounding."""
        return self.high < math.inf and not self.high - self.low > 1e-14 * self.high


def _two_loops(gradient: Float64, pairs: deque[tuple[Float64, Float64]]) -> Float64:
    """The inverse curvature that `pairs` of (move, change of the gradient) imply, times `gradient`."""
    out, shares = gradient.copy(), []
    for move, gradient_change in reversed(pairs):
        shares.append(float(move @ out) / float(move @ gradient_change))
        out -= shares[-1] * gradient_change
    if pairs:
        move, gradient_change = pairs[-1]
        out *= float(move @ gradient_change) / float(gradient_change @ gradient_change)
    for (move, gradient_change), share in zip(pairs, reversed(shares), strict=True):
        out += (share - float(gradient_change @ out) / float(move @ gradient_change)) * move
    return out


def _did_not_converge(name: str, max_calls: int, value: float) -> DidNotConverge:
    return DidNotConverge(
        f"{name} did not converge in {max_calls} passes; its loss was {value:.6g}. "
        "Are some logits or weights many orders of magnitude larger than the rest?"
    )
