"""The only place that exponentiates logits.

``exp`` and ``log`` are written out so that the compiler turns a loop over classes into vector instructions. They take
about three nanoseconds per class in float64, are accurate to one unit in the last place, and give the same bits on
every run. Kernels in other files are compiled with :func:`kernel` and call these functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from driftcal.core.kernels import Kernel, is_small
from driftcal.types import Array, Float64, Logits, LogProbs, Probs

F = TypeVar("F", bound=Callable[..., Any])

#: Replaces a difference of -inf, so that exp(MASKED) * MASKED**2 is 0 and not NaN.
MASKED = -1e150


def kernel(function: F, *, small: Callable[..., Any] | None = None) -> F:
    """Compile `function` for use on threads: no interpreter lock, sums may be reordered, NaN and inf stay correct.

    `small` does the same in numpy for small inputs, so that they need no compiler (:mod:`driftcal.core.kernels`).
    """
    return cast(F, Kernel(function, {"contract", "reassoc", "nsz"}, small))


def exact(function: F) -> F:
    """Compile `function` with every operation in the order written (``exp`` depends on it)."""
    return cast(F, Kernel(function, {"contract"}))


def ieee(function: F) -> F:
    """Compile `function` without fused or reordered operations, as the random shifts need for stable bits."""
    return cast(F, Kernel(function, set()))


def inlined(function: F) -> F:
    """Copy `function` into the kernels that call it, and compile it with them."""
    return cast(F, Kernel(function, set(), inline="always"))


def with_small(small: Callable[..., Any]) -> Callable[[F], F]:
    """A decorator: :func:`kernel` with `small` for small inputs."""
    return lambda function: kernel(function, small=small)


class _BitCast:
    """The bits of a float as an integer, or the reverse: LLVM's instruction "bitcast", for which numba has no function."""

    def __init__(self, to_float: bool) -> None:
        self._to_float = to_float

    def __call__(self, value: Any) -> Any:
        """The same in Python, when numba's compiler is switched off to debug kernels (NUMBA_DISABLE_JIT=1)."""
        return np.int64(value).view(np.float64) if self._to_float else int(np.float64(value).view(np.int64))

    @cached_property
    def _numba_type_(self) -> Any:
        """The type of the intrinsic, by which kernels call it; numba asks for it."""
        from llvmlite import ir
        from numba import types
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic

        source, target = (types.int64, types.float64) if self._to_float else (types.float64, types.int64)
        width = ir.DoubleType() if self._to_float else ir.IntType(64)

        def bitcast(typing_context: Any, value: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                return builder.bitcast(args[0], width)

            return target(source), codegen

        function = intrinsic(bitcast)
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(function)


float_of_bits: Any = _BitCast(True)
bits_of_float: Any = _BitCast(False)

_LOG2_E = 1 / math.log(2)
# log 2 in two parts: k * _LOG2_HIGH is exact for |k| < 2**20
_LOG2_HIGH, _LOG2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Adding this to x leaves round(x) in the low bits of the sum.
_ROUND = 1.5 * 2.0**52
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (1 / math.factorial(k) for k in range(2, 14))


@exact
def exp(x: float) -> float:
    """e**x for x up to 700: 2**k times a Taylor polynomial on [-log(2)/2, log(2)/2]; exactly 0 below -745.2."""
    x = max(x, -745.2)
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    p = _C13 * r + _C12
    p = p * r + _C11
    p = p * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r * r + r + 1.0
    power = bits_of_float(shifted) - bits_of_float(_ROUND)
    half = power >> 1  # two factors, so that denormal results are reached without overflow of the exponent
    result: float = p * float_of_bits((half + 1023) << 52) * float_of_bits((power - half + 1023) << 52)
    return result


@exact
def log(x: float) -> float:
    """Natural logarithm of a normal positive x, by 2 atanh((m - 1) / (m + 1)) with m in [sqrt(1/2), sqrt(2))."""
    bits = bits_of_float(x)
    # 0x3FE6A09E667F3BCD are the bits of sqrt(1/2): the exponent counts from there
    offset = bits - 0x3FE6A09E667F3BCD
    k = offset >> 52
    m = float_of_bits(bits - (k << 52))
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    p = 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    # int64 -> float64 has no vector instruction before AVX-512: go through the rounding constant instead
    kf = float_of_bits(k + bits_of_float(_ROUND)) - _ROUND
    result: float = kf * _LOG2_HIGH + (2.0 * s + (2.0 * s * z * p + kf * _LOG2_LOW))
    return result


@kernel
def row_max(row: Array) -> float:
    """The largest entry of a row that holds no NaN."""
    top = row[0]
    for c in range(1, row.shape[0]):
        top = max(top, row[c])
    return np.float64(top)


@kernel
def row_argmax(row: Array) -> int:
    """The first position of the largest entry, as numpy's argmax."""
    top = row_max(row)
    for c in range(row.shape[0]):
        if row[c] == top:
            return c
    return 0


@exact
def softmax_row(row: Array, scale: float, out: Float64) -> float:
    """Write softmax(scale * row) into `out`; return the normaliser relative to the largest entry.

    Fits and predictions both call this function, so the same logits give the same bits in both.
    """
    top = row_max(row)
    for c in range(row.shape[0]):
        out[c] = exp(scale * max(np.float64(row[c]) - top, MASKED))
    total = _sum(out)
    inverse = 1.0 / total
    for c in range(row.shape[0]):
        out[c] *= inverse
    return total


@kernel
def _sum(values: Float64) -> float:
    total = 0.0
    for c in range(values.shape[0]):
        total += values[c]
    return total


@kernel
def log_odds_row(row: Array, out: Float64) -> None:
    """Write log p_c − log(1 − p_c) = z_c − log Σ_{k≠c} exp(z_k).

    A masked class gets MASKED. If all classes but one are masked, that one gets −MASKED.
    """
    best, top, rest, odds = log_odds_of_top(row, out)
    for c in range(row.shape[0]):
        out[c] = log_odds_below(np.float64(row[c]) - top, out[c], rest)
    out[best] = odds


@kernel
def log_odds_below(difference: float, power: float, rest: float) -> float:
    """Log-odds of a class whose logit is `difference` relative to the top's; the top's 1 is part of the others' sum."""
    x = max(difference, MASKED) - log(max(rest + 1.0 - power, 1.0))
    return x if x > 0.5 * MASKED else MASKED


@kernel
def log_odds_of_top(row: Array, out: Float64) -> tuple[int, float, float, float]:
    """The top class, its logit, the others' sum of exponentials relative to it, and its log-odds without cancellation.

    The exponentials are written into `out`, with 0 for the top class.
    """
    best = row_argmax(row)
    top = np.float64(row[best])
    for c in range(row.shape[0]):
        out[c] = exp(max(np.float64(row[c]) - top, MASKED))
    out[best] = 0.0
    rest = _sum(out)
    if rest > 1e-290:
        return best, top, rest, -math.log(rest)
    # the other logits are so far below that their exponentials are 0: sum them relative to the second largest
    second = -np.inf
    for c in range(row.shape[0]):
        if c != best:
            second = max(second, np.float64(row[c]))
    relative = 0.0
    for c in range(row.shape[0]):
        if c != best and row[c] > -np.inf:
            relative += exp(max(np.float64(row[c]) - second, MASKED))
    # logits near the largest float differ by infinity
    return best, top, rest, min((top - second) - math.log(relative), -MASKED) if relative > 0 else -MASKED


def differences(logits: Logits) -> tuple[Float64, Float64]:
    """Each logit minus the largest of its sample, at least MASKED; and the largest, (n, 1): numpy, for small inputs."""
    scores = logits.astype(np.float64)
    top = scores.max(axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # logits near the largest float
        return np.maximum(scores - top, MASKED), top


def _small_softmax(logits: Logits, scale: float, out: Float64) -> None:
    np.exp(scale * differences(logits)[0], out=out)
    out /= out.sum(axis=1, keepdims=True)


def _small_log_softmax(logits: Logits, scale: float, out: Float64) -> None:
    scaled, top = differences(logits)
    total = np.exp(scale * scaled).sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        np.subtract(scale * (logits.astype(np.float64) - top), np.log(total), out=out)


@kernel
def softmax_kernel(logits: Logits, scale: float, out: Float64) -> None:
    """Write softmax(scale * logits) of each sample into `out`."""
    for i in range(logits.shape[0]):
        softmax_row(logits[i], scale, out[i])


@kernel
def log_softmax_kernel(logits: Logits, scale: float, out: Float64) -> None:
    """Write log softmax(scale * logits) of each sample into `out`; a masked class stays at -inf."""
    for i in range(logits.shape[0]):
        row = logits[i]
        log_total = math.log(softmax_row(row, scale, out[i]))
        top = row_max(row)
        for c in range(row.shape[0]):
            out[i, c] = scale * (np.float64(row[c]) - top) - log_total


def softmax_into(logits: Logits, scale: float, out: Float64) -> None:
    """:func:`softmax_kernel`, in numpy on small inputs, whose last bit may differ.

    A map that compares scores with those of its fit, such as an isotonic curve, needs the bits of the kernel.
    """
    (_small_softmax if is_small(logits) else softmax_kernel)(logits, scale, out)


def log_softmax_into(logits: Logits, scale: float, out: Float64) -> None:
    """:func:`log_softmax_kernel`, in numpy on small inputs, whose last bit may differ."""
    (_small_log_softmax if is_small(logits) else log_softmax_kernel)(logits, scale, out)


def softmax(logits: Logits, scale: float = 1.0) -> Probs:
    """softmax(scale * logits) of one block of samples, in float64.

    >>> softmax(np.array([[0.0, 0.0], [1e4, -np.inf]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    out = np.empty(logits.shape)
    softmax_kernel(logits, scale, out)
    return out


def log_softmax(logits: Logits, scale: float = 1.0) -> LogProbs:
    """log softmax(scale * logits) of one block of samples, in float64.

    >>> log_softmax(np.array([[0.0, -1e4]]))
    array([[     0., -10000.]])
    """
    out = np.empty(logits.shape)
    log_softmax_kernel(logits, scale, out)
    return out
