"""Dirichlet calibration: a matrix on log-probabilities, with its off-diagonal and intercepts held small (ODIR)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.scaling.temperature import certify
from driftcal.calibrators.scaling.vector import fit_line, nll_before, positive, temperature_or_not, vector_kernel
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import log_softmax, softmax, softmax_kernel
from driftcal.core.optimize import SLOPE_PROMISE, descend, descend_convex
from driftcal.errors import DidNotConverge
from driftcal.types import Float64, Labels, Logits, Weights

#: The log of the least probability that float64 holds: what a class without a chance is taken for.
LEAST_LOG = -708.0
#: Times C²/n, what holds the off-diagonal and the intercepts where no penalty is given; C/n holds the diagonal, as in SVS.
HOLD = 10.0
#: Of a given penalty on the off-diagonal, this share holds the diagonal at 1: classes without tuning rows need it.
DIAGONAL = 1e-2
#: Up to so many classes (420 numbers) the curvature in all pairs of numbers is cheaper than many passes without it.
FEW_CLASSES = 20
#: Beyond so many, the last digits of thousands of numbers are not worth three times the passes.
MANY_CLASSES = 50
#: There the off-diagonal is whole steps of a grid, no more either way than these digits say, from −64 to 63 each: an exported
#: model then multiplies by it in integers.
GRID_BASE, GRID_DIGITS = 128, 3
GRID = (GRID_BASE // 2 - 1) * sum(GRID_BASE**k for k in range(GRID_DIGITS))


class DirichletCalibration(Calibrator):
    """Any linear map of log-probabilities: q = softmax(W·log p + b), with p = softmax(z).

    W and b minimise the negative log-likelihood plus off-diagonal and intercept regularisation (ODIR), which holds them at the
    one best temperature as far as the rows cannot tell: (10·C²/n)·(Σ w_ij² over i ≠ j + Σ b_i²) + (C/n)·Σ (w_ii − 1/T)². With
    fewer than C² rows W is a diagonal, `matrix_` then has C numbers, and b is held by C/n too: off the diagonal so few
    rows say nothing. Weights count rows: n is their sum.

    A number as `penalty` is the published form, whatever the rows: λ·(mean of w_ij² + mean of b_i²), W held at the identity (and
    1 % of λ on the mean of (w_ii − 1)², for classes without rows). The right λ differs by orders of magnitude from case to case.

    Convex: Newton's method finds the one optimum, beyond 20 classes L-BFGS, beyond 50 to some 1e-9 of the loss (1e-8 with fewer
    rows than numbers), W off the diagonal rounded to 1e-6 of its largest number: exports then multiply integers. Each pass is
    a product of n×C and C×C matrices: meant for tens of classes. Can change which class is on top.
    Kull et al. 2019 (Beyond temperature scaling), sections 3 and 4; how the penalty grows as rows get fewer follows Berta et al. 2025.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(9000, 3)) * 2
    >>> y = np.argmax(logits @ [[1, 0, 0.5], [0, 1, 0], [0, 0, 1]] + rng.gumbel(size=(9000, 3)), axis=1)
    >>> matrix = DirichletCalibration().fit(logits, y).matrix_
    >>> bool(abs(matrix[2, 0] - matrix[1, 0] - 0.5) < 0.2)  # the first class' score speaks for the third
    True
    """

    keeps_accuracy = False
    counts_rows = True
    fitted = ("matrix_", "intercepts_")

    def __init__(self, *, penalty: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.penalty = penalty
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        before = nll_before(rows)
        n = rows.n_classes
        beta, passes = temperature_or_not(rows, None)
        start = (beta if passes else 1.0) * np.eye(n, n + 1)
        if self.penalty is None and rows.count < n * n:
            return self._fit_diagonal(rows, before, np.diag(start), passes)
        pull, centre = self._hold(rows, start)

        def slope_of(matrix: Float64) -> tuple[float, Float64]:
            sums = rows.reduce_sum(_matrix_sums, (n + 1, n + 1), matrix) / rows.weight
            away = matrix - centre
            return float(sums[-1, 0] + (pull * away**2).sum()), sums[:-1] + 2 * pull * away

        try:
            matrix, value, asked = (_by_curvature if n <= FEW_CLASSES else _by_slope)(rows, slope_of, start, pull)
        except DidNotConverge as stuck:
            if self.penalty is None:
                raise
            raise DidNotConverge(
                f"Dirichlet calibration needs a penalty that holds its {n}² numbers as firmly as {rows.count:.0f} rows demand; with {self.penalty:g} it "
                "did not settle. Raise it, or leave it out: by default it goes by the rows."
            ) from stuck
        self.matrix_, self.intercepts_ = matrix[:, :-1].copy(), matrix[:, -1].copy()
        after = value - float((pull * (matrix - centre) ** 2).sum())
        certify("nll", before, after)
        return FitReport("nll", before, after, passes + asked + 2)

    def _hold(self, rows: LabelledLogits, start: Float64) -> tuple[Float64, Float64]:
        """What each number of (W, b) is pulled to, and how strongly: the second and the first."""
        n = rows.n_classes
        if self.penalty is None:
            off = intercept = HOLD * n * n / rows.count
            diagonal, centre = n / rows.count, start
        else:
            strength = positive(self.penalty, "penalty", "None, which goes by the rows")
            off, intercept, diagonal = strength / (n * (n - 1)), strength / n, DIAGONAL * strength / n
            centre = np.eye(n, n + 1)
        pull = np.full((n, n + 1), off)
        pull[:, -1] = intercept
        np.fill_diagonal(pull, diagonal)
        return pull, centre

    def _fit_diagonal(self, rows: LabelledLogits, before: float, diagonal: Float64, passes: int) -> FitReport:
        n = rows.n_classes
        start = np.concatenate([diagonal, np.zeros(n)])
        found, after, asked = fit_line(rows, 1.0, start, n / rows.count, "Dirichlet calibration")
        self.matrix_, self.intercepts_ = np.split(found, 2)
        certify("nll", before, after)
        return FitReport("nll", before, after, passes + asked + 1)

    def _map(self, logits: Logits, out: Float64) -> None:
        if self.matrix_.ndim == 1:
            vector_kernel(logits, 1.0, self.matrix_, self.intercepts_, out)
            return
        softmax_kernel(_scores(logits, np.column_stack([self.matrix_, self.intercepts_]))[1], 1.0, out)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"matrix_": (self.n_features_in_,) * (1 if self.matrix_.ndim == 1 else 2)}


def grid_step(matrix: Float64) -> float:
    """The power of two whose multiples the off-diagonal of many classes is made of: the least that `GRID` steps suffice for."""
    off = np.abs(matrix)
    np.fill_diagonal(off, 0)
    # up to half a step more is rounded back; half a step itself is no number of the grid, whose step thus stays what it is
    return math.ldexp(1.0, math.frexp(float(off.max()) / (GRID + 0.5))[1])


def to_grid(matrix: Float64) -> Float64:
    """The matrix with its off-diagonal rounded to multiples of `grid_step`, 1e-6 of its largest number or less away."""
    off, step = matrix.copy(), grid_step(matrix)
    np.fill_diagonal(off, 0)
    rounded: Float64 = np.round(off / step) * step
    np.fill_diagonal(rounded, np.diag(matrix))
    return rounded


def _by_curvature(
    rows: LabelledLogits, slope_of: Callable[[Float64], tuple[float, Float64]], start: Float64, pull: Float64
) -> tuple[Float64, float, int]:
    """Newton's method: few passes, each with the curvature in all pairs of entries."""

    def surface(flat: Float64) -> tuple[float, Float64, Float64]:
        matrix = flat.reshape(start.shape)
        value, slope = slope_of(matrix)
        bend = rows.reduce_sum(_curvature_sums, (flat.size, flat.size), matrix) / rows.weight
        return value, slope.ravel(), bend + np.diag(2 * pull.ravel())

    found, value, asked = descend(surface, start.ravel(), "Dirichlet calibration")
    return found.reshape(start.shape), value, 2 * asked


def _by_slope(
    rows: LabelledLogits, slope_of: Callable[[Float64], tuple[float, Float64]], start: Float64, pull: Float64
) -> tuple[Float64, float, int]:
    """L-BFGS in units in which log-probabilities no longer rise and fall together, so that directions curve alike.

    Many classes' off-diagonal is rounded at the end; the intercepts take back what that does to a row in the middle of all.
    """
    size = start.shape[1]
    moments = rows.reduce_sum(_moment_sums, (size, size), start) / rows.weight
    middle = moments[-1, :-1] / max(moments[-1, -1], 1e-300)
    moments[np.diag_indices(size)] += 2 * pull.mean(axis=0) + 1e-14 * np.trace(moments)
    lower = cholesky(moments, lower=True)

    def matrix_of(flat: Float64) -> Float64:
        found: Float64 = solve_triangular(lower, flat.reshape(start.shape).T, trans=1, lower=True).T
        return found

    def slope(flat: Float64) -> tuple[float, Float64]:
        value, by_matrix = slope_of(matrix_of(flat))
        return value, solve_triangular(lower, by_matrix.T, lower=True).T.ravel()

    found, value, asked = descend_convex(
        slope,
        (start @ lower).ravel(),
        np.ones(start.size),
        "Dirichlet calibration",
        promise=SLOPE_PROMISE if size <= MANY_CLASSES else 1e-13,
    )
    matrix = matrix_of(found)
    if len(start) <= MANY_CLASSES:
        return matrix, value, asked + 1
    rounded = to_grid(matrix[:, :-1])
    matrix = np.column_stack([rounded, matrix[:, -1] - (rounded - matrix[:, :-1]) @ middle])
    return matrix, slope_of(matrix)[0], asked + 2


def _scores(logits: Logits, matrix: Float64) -> tuple[Float64, Float64]:
    """log p, no less than `LEAST_LOG`, and W·log p + b; masked classes stay masked."""
    x = np.maximum(log_softmax(logits), LEAST_LOG)
    u = x @ matrix[:, :-1].T + matrix[:, -1]
    u[np.isneginf(logits)] = -np.inf
    return x, u


def _matrix_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, matrix: Float64) -> None:
    """Add the slopes of the negative log-likelihood in (W, b), and itself to the first number below them."""
    used = weights > 0  # a row of weight 0 may hold anything, an infinite loss too
    if not used.all():
        logits, labels, weights = logits[used], labels[used], weights[used]
    x, u = _scores(logits, matrix)
    own = (np.arange(len(labels)), labels)
    sums[-1, 0] -= (weights * log_softmax(u)[own]).sum()
    off = softmax(u)
    off[own] -= 1
    off *= weights[:, None]
    sums[:-1, :-1] += off.T @ x
    sums[:-1, -1] += off.sum(axis=0)


def _moment_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, matrix: Float64) -> None:
    """Add the second moments of (log p, 1), each row by how unsure of its class the answers are."""
    used = weights > 0
    x, u = _scores(logits[used], matrix)
    p = softmax(u)
    bend = weights[used] * (p * (1 - p)).mean(axis=1)
    inputs = np.column_stack([x, np.ones(len(x))])
    sums += inputs.T @ (inputs * bend[:, None])


def _curvature_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, matrix: Float64) -> None:
    """Add the curvature of the negative log-likelihood in all pairs of entries of (W, b)."""
    used = weights > 0
    x, u = _scores(logits[used], matrix)
    p, inputs, n = softmax(u), np.column_stack([x, np.ones(len(x))]), matrix.shape[0]
    weighted = p * weights[used][:, None]
    pairs = (p[:, :, None] * inputs[:, None, :]).reshape(len(p), -1)
    sums -= pairs.T @ (pairs * weights[used][:, None])
    for c in range(n):
        own = slice(c * (n + 1), (c + 1) * (n + 1))
        sums[own, own] += inputs.T @ (inputs * weighted[:, c, None])
