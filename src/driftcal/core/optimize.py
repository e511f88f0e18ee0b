"""Minimising smooth functions down to the last digits: of few numbers by their curvature, of many by their slope."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import ThreadpoolController

from driftcal.errors import DidNotConverge
from driftcal.types import Float64

#: A step that promises to lower the function by less than this share of its size cannot be judged by its value any more.
VALUE_DIGITS = 1e-11
#: Steps end when the promise is below this share: what is left of the unknowns is then of the order of its root, 1e-11.
PROMISE = 1e-22

#: The same for a method that only sees slopes: directions that hardly curve are the last to settle.
SLOPE_PROMISE = 1e-25
#: A function this close to 0 counts as this large: what is left to gain is then nothing.
LEAST_SIZE = 1e-9
#: Steps that the many-number method remembers.
MEMORY = 30
#: A search along a step that takes longer than this near the minimum follows rounding.
HOPELESS = 20

Surface: TypeAlias = Callable[[Float64], tuple[float, Float64, Float64]]
Slope: TypeAlias = Callable[[Float64], tuple[float, Float64]]

_pools = cache(ThreadpoolController)  # looking for libraries takes milliseconds


@contextmanager
def _one_thread() -> Iterator[None]:
    """BLAS on one thread: passes spread over the cores by themselves, and the products between them are small.

    Threads that wait for these in a loop take longer than one that does them, and keep the cores from the passes.
    """
    with _pools().limit(limits=1, user_api="blas"):
        yield


@_one_thread()
def descend(
    surface: Surface, start: Float64, what: str, *, promise: float = PROMISE, attempts: int = 500
) -> tuple[Float64, float, int]:
    """A minimum of `surface`, which gives value, slope and curvature; never higher than `start`.

    Newton's method with Levenberg's and Marquardt's damping. Far from the minimum a step must lower the value; where
    rounding hides that, it must shorten the slope in the metric of the curvature. It ends where a step would lower the
    value by less than the share `promise` of it. Returns the place, its value and how often `surface` was asked. Raises
    `DidNotConverge` with `what` in its words.
    """
    here, damping, growth, least = start, 1e-2, 2.0, math.inf
    value, slope, bend = surface(here)
    axes = _axes(slope, bend)
    for asked in range(1, attempts):
        values, inner, back = axes
        left = 0.5 * float((inner**2 / values).sum())  # what the undamped step promises
        size = max(abs(value), LEAST_SIZE)
        fine = left <= VALUE_DIGITS * size
        # where the slope is rounding by now, it no longer gets shorter
        if not left > promise * size or (fine and damping < 1e-6 and left > 0.5 * least):
            return here, value, asked
        step = -back @ (inner / (values + damping))
        promised = float(-slope @ step - 0.5 * step @ bend @ step)
        there = surface(here + step)
        gain = (value - there[0]) / promised
        if gain > 1e-3 or (fine and there[0] <= value + 1e-13 * size):
            least = left if fine and damping < 1e-6 else least
            here, (value, slope, bend) = here + step, there
            axes = _axes(slope, bend)
            # Nielsen's rule: trust the quadratic model more the better it foretold
            damping *= 0.1 if fine else max(0.2, 1 - (2 * gain - 1) ** 3)
            growth = 2.0
        else:
            damping, growth = max(damping, 1e-9) * growth, 2 * growth
        if damping > 1e30:
            break
    raise DidNotConverge(
        f"{what} did not settle in {attempts} passes; its loss stood at {value:.6g}. "
        "Are some logits or weights many orders of magnitude larger than the rest?"
    )


def _axes(slope: Float64, bend: Float64) -> tuple[Float64, Float64, Float64]:
    """Curvatures along directions that do not mix, the slope along them, and the way back from them.

    Every unknown is measured by its own curvature. Negative curvature counts by its size, so that steps go downhill there
    too, and what curves less than rounding is held fast.
    """
    size = np.sqrt(np.maximum(np.abs(np.diag(bend)), 1e-300))
    values, vectors = eigh(bend / np.outer(size, size), check_finite=False)
    values = np.abs(values) + 1e-14 * max(1.0, float(np.abs(values).max()))
    return values, vectors.T @ (slope / size), vectors / size[:, None]


@_one_thread()
def descend_convex(
    slope_of: Slope,
    start: Float64,
    curvature: Float64,
    what: str,
    *,
    promise: float = SLOPE_PROMISE,
    attempts: int = 5000,
) -> tuple[Float64, float, int]:
    """The minimum of a convex function of many numbers from its value and slope; never higher than `start`.

    L-BFGS (Nocedal 1980) in units of `curvature`, a guess at the diagonal of the second derivative. A step is judged by
    the slope along it, which for a convex function tells as much as the value and has more digits near the minimum.
    Returns the place, its value and how often `slope_of` was asked. Raises `DidNotConverge` with `what` in its words.
    """
    here, unit = start, np.sqrt(np.maximum(curvature, 1e-300))
    value, slope = slope_of(here)
    pairs: deque[tuple[Float64, Float64]] = deque(maxlen=MEMORY)
    least, waited, asked = math.inf, 0, 1
    while asked < attempts:
        step = -_two_loops(slope / unit, pairs) / unit
        promised = -0.5 * float(slope @ step)
        size = max(abs(value), LEAST_SIZE)
        # rounding by now, where the promise has not fallen for a while
        waited = 0 if promised < 0.5 * least else waited + 1
        least = min(least, promised)
        if not promised > promise * size or (promised < VALUE_DIGITS * 1e-5 * size and waited > MEMORY):
            return here, value, asked
        low, low_slope, high, high_slope, length = 0.0, -2 * promised, math.inf, math.inf, 1.0
        tried = 0
        while asked < attempts:
            there = slope_of(here + length * step)
            asked, tried = asked + 1, tried + 1
            along = float(there[1] @ step)
            if abs(along) <= promised and (along <= 0 or there[0] <= value + 1e-13 * size):
                break
            if tried > HOPELESS and promised < VALUE_DIGITS * 1e-5 * size:
                return here, value, asked  # the slope along the step is rounding
            bend = (along - low_slope) / max(length - low, 1e-300)
            if along < 0:
                low, low_slope = length, along
            else:
                high, high_slope = length, along
            if high == math.inf:  # as far as the slope as a straight line says, within reason
                length = low + min(max(-along / bend if bend > 0 else math.inf, low), 9 * low)
            else:
                share = -low_slope / (high_slope - low_slope)
                length = low + (high - low) * min(max(share, 0.1), 0.9)
                if not high - low > 1e-14 * high:
                    break
        moved, turned = length * step * unit, (there[1] - slope) / unit
        if float(moved @ turned) > 0:
            pairs.append((moved, turned))
        here, (value, slope) = here + length * step, there
    raise DidNotConverge(
        f"{what} did not settle in {attempts} passes; its loss stood at {value:.6g}. "
        "Are some logits or weights many orders of magnitude larger than the rest?"
    )


def _two_loops(slope: Float64, pairs: deque[tuple[Float64, Float64]]) -> Float64:
    """What the remembered steps say about the inverse of the curvature, applied to `slope`."""
    out, shares = slope.copy(), []
    for moved, turned in reversed(pairs):
        shares.append(float(moved @ out) / float(moved @ turned))
        out -= shares[-1] * turned
    if pairs:
        moved, turned = pairs[-1]
        out *= float(moved @ turned) / float(turned @ turned)
    for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
        out += (share - float(turned @ out) / float(moved @ turned)) * moved
    return out
