"""Minimising a smooth function of a few numbers from its value, slope and curvature, down to the last digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.linalg import eigh

from driftcal.errors import DidNotConverge
from driftcal.types import Float64

#: A step that promises to lower the function by less than this share of its size cannot be judged by its value any more.
VALUE_DIGITS = 1e-11
#: Steps end when the promise is below this share: what is left of the unknowns is then of the order of its root, 1e-11.
PROMISE = 1e-22

Surface: TypeAlias = Callable[[Float64], tuple[float, Float64, Float64]]


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
    for asked in range(1, attempts):
        step = _step(slope, bend, damping)
        promised = float(-slope @ step - 0.5 * step @ bend @ step)
        size = max(abs(value), 1e-300)
        fine = promised <= VALUE_DIGITS * size
        # where the slope is rounding by now, it no longer gets shorter
        if not promised > promise * size or (fine and damping < 1e-6 and promised > 0.5 * least):
            return here, value, asked
        there = surface(here + step)
        gain = (value - there[0]) / promised
        if gain > 1e-3 or (fine and there[0] <= value + 1e-13 * size):
            least = promised if fine and damping < 1e-6 else least
            here, (value, slope, bend) = here + step, there
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


def _step(slope: Float64, bend: Float64, damping: float) -> Float64:
    """The Newton step, shorter with `damping`; downhill along directions of negative curvature too.

    Every unknown is measured by its own curvature, and what curves less than rounding is held fast.
    """
    size = np.sqrt(np.maximum(np.abs(np.diag(bend)), 1e-300))
    values, vectors = eigh(bend / np.outer(size, size), check_finite=False)
    inner = vectors.T @ (slope / size)
    held = np.abs(values) + damping + 1e-12 * max(1.0, float(np.abs(values).max()))
    step: Float64 = -(vectors @ (inner / held)) / size
    return step
