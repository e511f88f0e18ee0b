"""The product of log-probabilities and a matrix in ONNX; a large one is multiplied as integers, a third of the bytes to read."""

from __future__ import annotations

import math

import numpy as np

from driftcal.calibrators.scaling.dirichlet import GRID, GRID_BASE, GRID_DIGITS, grid_step
from driftcal.export.onnx.nodes import AXIS, Nodes, number
from driftcal.types import Array, Float64

#: From so many classes on, reading the matrix takes longer than ten small operators.
_LARGE = 256
#: Sums of so many products of two digits still fit in 32 bits.
_LARGEST = (2**31 - 1) // (255 * GRID_BASE // 2)
#: How far digits that are left out may move a score, and how many there are at most: float64 has no more.
_ERROR, _MOST_DIGITS = 1e-9, 7
_UINT8, _DOUBLE, _UINT64 = 2, 11, 13  # TensorProto.UINT8, DOUBLE, UINT64


def add_product(nodes: Nodes, x: str, matrix: Float64, least: float) -> str:
    """x · matrix for rows x from `least`, a negative number, to 0.

    Where the matrix is large and its off-diagonal lies on the grid that large ones are fitted on, the off-diagonal is multiplied
    digit by digit in integers, which is exact; the diagonal, like all of other matrices, in float64.
    """
    planes = matrix_digits(matrix) if _LARGE <= len(matrix) <= _LARGEST else None
    if planes is None:
        return nodes("MatMul", x, matrix)
    n, diagonal, step = len(matrix), np.diag(matrix).copy(), grid_step(matrix)
    span = math.ldexp(1.0, math.frexp(least)[1])  # a power of two: −x / span is less than 1 and has all digits of x
    count = _digits_of_rows(matrix, span)
    # −x / span as bytes, the highest first, (count, n, classes). The shift cannot be spared: onnxruntime makes one Cast of two in
    # a row, and float64 beyond 2^31 straight to bytes gives zeros.
    whole = nodes("Cast", nodes("Mul", x, number(-(256.0**count) / span)), to=_UINT64)
    shifts = 8 * np.arange(count, dtype=np.uint64)[::-1].reshape(-1, 1, 1)
    rows = nodes("Cast", nodes("BitShift", whole, shifts.copy(), direction="RIGHT"), to=_UINT8)
    sums = nodes("MatMulInteger", rows, np.concatenate(planes, axis=1))
    # (count, n, digits · classes): first the digits of x make a number, then those of the matrix; with n = 0 as well
    flat = nodes("Reshape", nodes("Cast", sums, to=_DOUBLE), np.array([count, -1]))
    worth = -span * step / 256.0 ** np.arange(1, count + 1)
    parts = nodes("Reshape", nodes("MatMul", worth.reshape(1, -1), flat), np.array([-1, len(planes), n]))
    weighted = nodes("Mul", parts, float(GRID_BASE) ** np.arange(len(planes)).reshape(-1, 1))
    return nodes("Add", nodes("ReduceSum", weighted, AXIS, keepdims=0), nodes("Mul", x, diagonal))


def matrix_digits(matrix: Float64) -> list[Array] | None:
    """The off-diagonal in steps of its grid as digits from −64 to 63, the lowest first; None where it does not lie on the grid.

    With these, a processor that adds pairs of products in 16 bits (vpmaddubsw, before VNNI) does not saturate: 2 · 255 · 64 < 2^15.
    """
    off, step = matrix.copy(), grid_step(matrix)
    np.fill_diagonal(off, 0)
    whole = np.round(off / step)
    if not (np.abs(whole) <= GRID).all() or (whole * step != off).any():
        return None
    left, half, planes = whole.astype(np.int64), GRID_BASE // 2, []
    for _ in range(GRID_DIGITS):
        digit = (left + half) % GRID_BASE - half
        planes.append(digit.astype(np.int8))
        left = (left - digit) // GRID_BASE
    return planes


def _digits_of_rows(matrix: Float64, span: float) -> int:
    """How many bytes of −x / span the off-diagonal needs."""
    off = np.abs(matrix)
    np.fill_diagonal(off, 0)
    moved = span * float(off.sum(axis=0).max())
    return next(k for k in range(1, _MOST_DIGITS + 1) if k == _MOST_DIGITS or moved / 256.0**k <= _ERROR)
