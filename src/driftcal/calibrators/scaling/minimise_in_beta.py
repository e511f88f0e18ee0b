"""Minimising a loss in one variable, beta = 1/T, with few passes over the samples."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from driftcal.errors import DidNotConverge

#: Newton's method ends with a step this small relative to beta: the error that is left is of the order of its square.
STEP_TOLERANCE = 1e-7
#: A gradient this small relative to the loss is a rounding error (1e-16) by far: any beta nearby is as good.
NEGLIGIBLE_GRADIENT = 1e-20
#: The fourth-order step needs two points near the minimum: the last step and this one are below these shares of beta.
#: Further away the cubic through both points may miss the minimum.
NEAR_LAST_STEP, NEAR_STEP = 0.05, 1e-3
#: While one side of the minimum is unknown, a step changes beta by this factor at most.
MAX_FACTOR = 1024
EPSILON = float(np.finfo(float).eps)

#: Value, gradient and curvature of a loss at beta.
LossInBeta: TypeAlias = Callable[[float], Sequence[float]]


@dataclass(frozen=True)
class BetaMinimum:
    """beta = 1/T where a loss is lowest, the loss there, and the passes taken."""

    beta: float
    value: float
    passes: int


@dataclass(frozen=True)
class _Point:
    """A point of the search: beta, the gradient and the curvature there, and the size of the Newton step over beta."""

    beta: float
    gradient: float
    curvature: float
    relative_step: float


def minimise_in_beta(
    loss: LossInBeta,
    start: float,
    low: float,
    high: float = math.inf,
    *,
    tolerance: float = STEP_TOLERANCE,
    max_step_product: float = 1e-7,
    max_calls: int = 100,
) -> BetaMinimum:
    """Minimise a function of beta in [low, high] from its (value, gradient, curvature), starting at `start`.

    Newton's method inside a bracket: the signs of the gradients show on which side of a point the minimum lies. While a
    side is open, a step changes beta 1,024-fold at most. Near the minimum, the last two points together give a step of
    fourth order, which saves the pass that would only confirm it. This step is taken if the product of the last two
    relative steps is below `max_step_product`; the error that is left is of the order of the product's square.
    """
    lowest = low
    beta = start
    last = _Point(math.nan, math.nan, math.nan, math.inf)
    for n_calls in range(1, max_calls + 1):
        value, gradient, curvature = loss(beta)
        if gradient >= 0 and beta <= lowest:
            return BetaMinimum(lowest, value, n_calls)  # the lower bound is the minimum
        step = -gradient / curvature if curvature > 0 else math.copysign(math.inf, -gradient)
        point = _Point(beta, gradient, curvature, abs(step) / beta)
        # far below the minimum, as after a start on an unlucky subsample, the product is small but the step is not
        if abs(gradient) * beta <= NEGLIGIBLE_GRADIENT * abs(value) and point.relative_step <= 1:
            return BetaMinimum(beta, value, n_calls)
        if gradient < 0:
            low = beta
        else:
            high = beta
        converged = gradient == 0 or point.relative_step <= tolerance or high - low <= 4 * EPSILON * beta
        if not converged and _are_near(last, point, max_step_product):
            step, converged = _fourth_order_step(last, point), True
        if converged:
            step = step if low <= beta + step <= high else 0.0
            # exact to second order, so the value there needs no further pass
            value = value + gradient * step + curvature * step * step / 2
            return BetaMinimum(beta + step, value, n_calls)
        last = point
        target = min(max(beta + step, beta / MAX_FACTOR, lowest), beta * MAX_FACTOR)
        is_inside = low < target < high or target == lowest
        beta = target if is_inside else math.sqrt(max(low, beta / MAX_FACTOR) * min(high, beta * MAX_FACTOR))
    raise DidNotConverge(
        f"the temperature did not converge in {max_calls} passes; it was {1 / beta:.6g}. "
        "Are some logits many orders of magnitude larger than the rest?"
    )


def _are_near(last: _Point, point: _Point, max_step_product: float) -> bool:
    """Whether two points are so near the minimum, and different enough, that a fourth-order step from them is exact."""
    steps_are_small = last.relative_step < NEAR_LAST_STEP and point.relative_step < NEAR_STEP
    gradients_differ = point.gradient != last.gradient
    return steps_are_small and gradients_differ and last.relative_step * point.relative_step < max_step_product


def _fourth_order_step(last: _Point, point: _Point) -> float:
    """The step from `point` to gradient 0 on the Hermite cubic beta(gradient) through both points."""
    width = point.gradient - last.gradient
    t = -last.gradient / width  # 0 at the last point, 1 at this one
    tangent_0, tangent_1 = width / last.curvature, width / point.curvature
    rise = point.beta - last.beta
    return (2 * t**3 - 3 * t**2) * -rise + (t**3 - 2 * t**2 + t) * tangent_0 + (t**3 - t**2) * tangent_1 - rise
