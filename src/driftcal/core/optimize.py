"""Minimising smooth functions down to the last digits: of few variables by Newton's method, of many by L-BFGS."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import ThreadpoolController

from driftcal.errors import DidNotConverge
from driftcal.types import Float64

#: A step that promises to lower the function by less than this share of its value cannot be judged by the value: it is rounded.
VALUE_DIGITS = 1e-11
#: Newton's method ends when a step promises a decrease below this share: variables are then exact to about its root, 1e-11.
NEWTON_TOL = 1e-22
#: The same for L-BFGS: directions of little curvature converge last.
LBFGS_TOL = 1e-25
#: A function this close to 0 counts as this large: there is nothing left to gain.
LEAST_VALUE = 1e-9
#: Steps that L-BFGS remembers.
MEMORY = 30
#: A line search near the minimum that takes more steps than this follows rounding.
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
    """BLAS on one thread: passes use all cores themselves, and the products between them are small.

    Threads that wait for these in a loop take longer than one thread, and keep the cores from the passes.
    """
    with _pools().limit(limits=1, user_api="blas"):
        yield


@_one_thread()
def minimise_newton(loss: Loss, start: Float64, name: str, *, tol: float = NEWTON_TOL, max_calls: int = 500) -> Minimum:
    """A minimum of `loss`, never higher than `start`.

    Newton's method with the damping of Levenberg and Marquardt. Far from the minimum a step must lower the value; where rounding
    hides that, it must shorten the gradient in the metric of the curvature. It ends where a step promises to lower the
    value by less than the share `tol`. Raises `DidNotConverge` that says `name`.
    """
    x, damping, growth, least = start, 1e-2, 2.0, math.inf
    value, gradient, curvature = loss(x)
    axes = _principal_axes(gradient, curvature)
    for n_calls in range(1, max_calls):
        curvatures, along, back = axes
        expected = 0.5 * float((along**2 / curvatures).sum())  # the decrease that the undamped step promises
        size = max(abs(value), LEAST_VALUE)
        rounded = expected <= VALUE_DIGITS * size
        # a gradient that is all rounding no longer gets shorter
        if not expected > tol * size or (rounded and damping < 1e-6 and expected > 0.5 * least):
            return Minimum(x, value, n_calls)
        step = -back @ (along / (curvatures + damping))
        promised = float(-gradient @ step - 0.5 * step @ curvature @ step)
        new = loss(x + step)
        gain = (value - new[0]) / promised
        if gain > 1e-3 or (rounded and new[0] <= value + 1e-13 * size):
            least = expected if rounded and damping < 1e-6 else least
            x, (value, gradient, curvature) = x + step, new
            axes = _principal_axes(gradient, curvature)
            # Nielsen's rule: the better the quadratic model predicted, the less damping
            damping *= 0.1 if rounded else max(0.2, 1 - (2 * gain - 1) ** 3)
            growth = 2.0
        else:
            damping, growth = max(damping, 1e-9) * growth, 2 * growth
        if damping > 1e30:
            break
    raise _did_not_converge(name, max_calls, value)


def _principal_axes(gradient: Float64, curvature: Float64) -> tuple[Float64, Float64, Float64]:
    """The curvatures along the principal axes, the gradient along them, and the matrix back from them.

    Variables are scaled by their own curvature. Negative curvature counts by its size, so that steps go downhill there too, and
    directions whose curvature is rounding are held fixed.
    """
    scale = np.sqrt(np.maximum(np.abs(np.diag(curvature)), 1e-300))
    values, vectors = eigh(curvature / np.outer(scale, scale), check_finite=False)
    values = np.abs(values) + 1e-14 * max(1.0, float(np.abs(values).max()))
    return values, vectors.T @ (gradient / scale), vectors / scale[:, None]


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

    L-BFGS (Nocedal 1980) in units of `curvature`, a guess at the diagonal of the second derivative. A step is judged by the
    gradient along it, which for a convex function tells as much as the value and has more digits near the minimum; scipy's
    judges by the value and stops at 1e-8. Raises `DidNotConverge` that says `name`.
    """
    x, unit = start, np.sqrt(np.maximum(curvature, 1e-300))
    value, gradient = loss(x)
    pairs: deque[tuple[Float64, Float64]] = deque(maxlen=MEMORY)
    least, stalled, n_calls = math.inf, 0, 1
    while n_calls < max_calls:
        step = -_two_loops(gradient / unit, pairs) / unit
        expected = -0.5 * float(gradient @ step)
        size = max(abs(value), LEAST_VALUE)
        rounded = expected < VALUE_DIGITS * 1e-5 * size
        stalled = 0 if expected < 0.5 * least else stalled + 1
        least = min(least, expected)
        if not expected > tol * size or (rounded and stalled > MEMORY):
            return Minimum(x, value, n_calls)
        low, low_slope, high, high_slope, length, n_tries = 0.0, -2 * expected, math.inf, math.inf, 1.0, 0
        while n_calls < max_calls:
            new = loss(x + length * step)
            n_calls, n_tries = n_calls + 1, n_tries + 1
            slope = float(new[1] @ step)
            if abs(slope) <= expected and (slope <= 0 or new[0] <= value + 1e-13 * size):
                break
            if rounded and n_tries > MAX_LINE_SEARCH:
                return Minimum(x, value, n_calls)  # the gradient along the step is rounding
            second = (slope - low_slope) / max(length - low, 1e-300)
            if slope < 0:
                low, low_slope = length, slope
            else:
                high, high_slope = length, slope
            if high == math.inf:  # as far as the slope, as a straight line, says; within limits
                length = low + min(max(-slope / second if second > 0 else math.inf, low), 9 * low)
            else:
                share = -low_slope / (high_slope - low_slope)
                length = low + (high - low) * min(max(share, 0.1), 0.9)
                if not high - low > 1e-14 * high:
                    break
        moved, turned = length * step * unit, (new[1] - gradient) / unit
        if float(moved @ turned) > 0:
            pairs.append((moved, turned))
        x, (value, gradient) = x + length * step, new
    raise _did_not_converge(name, max_calls, value)


def _two_loops(gradient: Float64, pairs: deque[tuple[Float64, Float64]]) -> Float64:
    """The inverse curvature that the remembered steps imply, applied to `gradient`."""
    out, shares = gradient.copy(), []
    for moved, turned in reversed(pairs):
        shares.append(float(moved @ out) / float(moved @ turned))
        out -= shares[-1] * turned
    if pairs:
        moved, turned = pairs[-1]
        out *= float(moved @ turned) / float(turned @ turned)
    for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
        out += (share - float(turned @ out) / float(moved @ turned)) * moved
    return out


def _did_not_converge(name: str, max_calls: int, value: float) -> DidNotConverge:
    return DidNotConverge(
        f"{name} did not converge in {max_calls} passes; its loss was {value:.6g}. "
        "Are some logits or weights many orders of magnitude larger than the rest?"
    )
