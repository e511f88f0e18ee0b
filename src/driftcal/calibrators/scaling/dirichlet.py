"""Dirichlet calibration: a matrix on log-probabilities, with a penalty on its off-diagonal and intercepts (ODIR)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap, Mixed, ScaledPerClass
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.parameters import check_positive
from driftcal.calibrators.scaling.vector import fit_slopes, temperature_scaling_beta, uncalibrated_nll, vector_kernel
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import log_softmax, softmax, softmax_kernel
from driftcal.core.optimize import LBFGS_TOL, LossAndGradient, Minimum, minimise_lbfgs, minimise_newton
from driftcal.errors import DidNotConverge
from driftcal.types import Float64, Labels, Logits, Weights

#: The log of the smallest probability that float64 holds. Smaller log-probabilities are raised to it.
LEAST_LOG = -708.0
#: The default penalty on the off-diagonal and the intercepts is this times C²/n. On the diagonal it is C/n, as in SVS.
PENALTY = 10.0
#: With a `penalty` from the user, this share of it applies to the diagonal minus 1: classes without tuning samples need
#: it.
DIAGONAL_SHARE = 1e-2
#: Up to this many classes (420 parameters) Newton's method with the full curvature is faster than L-BFGS.
NEWTON_CLASSES = 20
#: Above this many classes L-BFGS stops at `COARSE_TOL`: the last digits of thousands of parameters take three times the
#: passes.
EXACT_CLASSES, COARSE_TOL = 50, 1e-13


class DirichletCalibration(LogitCalibrator):
    """Any linear map of log-probabilities: q = softmax(W·log p + b), with p = softmax(z).

    W and b minimise the negative log-likelihood plus off-diagonal and intercept regularisation (ODIR) towards the best
    single temperature: (10·C²/n)·(Σ w_ij² over i ≠ j + Σ b_i²) + (C/n)·Σ (w_ii − 1/T)². n is the sum of the weights.
    Fewer than C² samples cannot determine the off-diagonal. Then W is a diagonal, `matrix_` has C numbers, and the
    penalty on b is C/n too.

    A number λ as `penalty` gives the published form: λ·(mean of w_ij² + mean of b_i²), towards the identity. 1 % of λ
    applies to the mean of (w_ii − 1)², for classes without samples. The best λ differs by orders of magnitude between
    data sets.

    The loss is convex. Newton's method finds the one optimum, L-BFGS with more than 20 classes. With more than 50
    classes the fit stops at about 1e-9 of the loss (1e-8 with fewer samples than parameters). Each pass is a product of
    n×C and C×C matrices, so the method is meant for tens of classes. It can change the predicted class. Kull et al.
    2019 (Beyond temperature scaling), sections 3 and 4. The default penalty grows as samples get fewer, after Berta et
    al. 2025.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(9000, 3)) * 2
    >>> y = np.argmax(logits @ [[1, 0, 0.5], [0, 1, 0], [0, 0, 1]] + rng.gumbel(size=(9000, 3)), axis=1)
    >>> matrix = DirichletCalibration().fit(logits, y).matrix_
    >>> bool(abs(matrix[2, 0] - matrix[1, 0] - 0.5) < 0.2)  # the first class' score is evidence for the third
    True
    """

    keeps_accuracy = False
    uses_sample_count = True
    fitted = {"matrix_": FittedArray("classes", "classes?"), "intercepts_": FittedArray("classes")}

    def __init__(self, *, penalty: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.penalty = penalty
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        before = uncalibrated_nll(data)
        n = data.n_classes
        beta, passes = temperature_scaling_beta(data, None)
        start = beta * np.eye(n, n + 1)
        if self.penalty is None and data.effective_n_samples < n * n:
            return self._fit_diagonal(data, before, np.diag(start), passes)
        penalty, centre = self._penalty(data, start)

        def loss(matrix: Float64) -> tuple[float, Float64]:
            sums = data.reduce_sum(_matrix_sums, (n + 1, n + 1), matrix) / data.total_weight
            deviation = matrix - centre
            return float(sums[-1, 0] + (penalty * deviation**2).sum()), sums[:-1] + 2 * penalty * deviation

        try:
            best = (_minimise_newton if n <= NEWTON_CLASSES else _minimise_lbfgs)(data, loss, start, penalty)
        except DidNotConverge as error:
            if self.penalty is None:
                raise
            raise DidNotConverge(
                f"Dirichlet calibration has {n}² numbers to fit on {data.effective_n_samples:.0f} samples; with the penalty {self.penalty:g} "
                "it did not converge. Raise it, or leave it out: the default depends on the number of samples."
            ) from error
        self.matrix_, self.intercepts_ = best.x[:, :-1].copy(), best.x[:, -1].copy()
        after = best.value - float((penalty * (best.x - centre) ** 2).sum())
        certify("nll", before, after)
        return FitReport("nll", before, after, passes + best.n_calls + 2)

    def _penalty(self, data: LabelledLogits, start: Float64) -> tuple[Float64, Float64]:
        """The penalty on the squared deviation of each entry of (W, b), and the centre that they deviate from."""
        n = data.n_classes
        if self.penalty is None:
            off = intercept = PENALTY * n * n / data.effective_n_samples
            diagonal, centre = n / data.effective_n_samples, start
        else:
            off, intercept = self.penalty / (n * (n - 1)), self.penalty / n
            diagonal = DIAGONAL_SHARE * self.penalty / n
            centre = np.eye(n, n + 1)
        penalty = np.full((n, n + 1), off)
        penalty[:, -1] = intercept
        np.fill_diagonal(penalty, diagonal)
        return penalty, centre

    def _fit_diagonal(self, data: LabelledLogits, before: float, diagonal: Float64, passes: int) -> FitReport:
        n = data.n_classes
        start = np.concatenate([diagonal, np.zeros(n)])
        fitted = fit_slopes(data, 1.0, start, n / data.effective_n_samples, "Dirichlet calibration")
        self.matrix_, self.intercepts_ = fitted.slopes, fitted.intercepts
        certify("nll", before, fitted.nll)
        return FitReport("nll", before, fitted.nll, passes + fitted.passes + 1)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        if self.matrix_.ndim == 1:
            vector_kernel(logits, 1.0, self.matrix_, self.intercepts_, out)
            return
        softmax_kernel(_scores(logits, np.column_stack([self.matrix_, self.intercepts_]))[1], 1.0, out)

    def export_map(self) -> ExportMap:
        """softmax(W·log p + b); a diagonal W is vector scaling."""
        if self.matrix_.ndim == 1:
            return ExportMap(ScaledPerClass(1.0, self.matrix_, self.intercepts_))
        return ExportMap(Mixed(np.ascontiguousarray(self.matrix_.T), self.intercepts_, LEAST_LOG))

    def _check_params(self) -> None:
        if self.penalty is not None:
            check_positive("penalty", self.penalty, "None, which depends on the number of samples")


def _minimise_newton(data: LabelledLogits, loss: LossAndGradient, start: Float64, penalty: Float64) -> Minimum:
    """Newton's method: few passes, each with the curvature in all pairs of entries."""

    def with_curvature(flat: Float64) -> tuple[float, Float64, Float64]:
        matrix = flat.reshape(start.shape)
        value, gradient = loss(matrix)
        curvature = data.reduce_sum(_curvature_sums, (flat.size, flat.size), matrix) / data.total_weight
        return value, gradient.ravel(), curvature + np.diag(2 * penalty.ravel())

    # with logits close to each other, W is large and W·log p is rounded to this
    noise = 4 * float(np.finfo(float).eps * np.abs(start).max()) * math.log(len(start))
    best = minimise_newton(with_curvature, start.ravel(), "Dirichlet calibration", noise=noise)
    return Minimum(best.x.reshape(start.shape), best.value, 2 * best.n_calls)


def _minimise_lbfgs(data: LabelledLogits, loss: LossAndGradient, start: Float64, penalty: Float64) -> Minimum:
    """L-BFGS in uncorrelated units of log-probabilities, so that all directions have a similar curvature."""
    from scipy.linalg import cholesky, solve_triangular

    size = start.shape[1]
    moments = data.reduce_sum(_moment_sums, (size, size), start) / data.total_weight
    moments[np.diag_indices(size)] += 2 * penalty.mean(axis=0) + 1e-14 * np.trace(moments)
    lower = cholesky(moments, lower=True)

    def matrix_of(flat: Float64) -> Float64:
        matrix: Float64 = solve_triangular(lower, flat.reshape(start.shape).T, trans=1, lower=True).T
        return matrix

    def scaled_loss(flat: Float64) -> tuple[float, Float64]:
        value, gradient = loss(matrix_of(flat))
        return value, solve_triangular(lower, gradient.T, lower=True).T.ravel()

    tol = LBFGS_TOL if size <= EXACT_CLASSES else COARSE_TOL
    best = minimise_lbfgs(scaled_loss, (start @ lower).ravel(), np.ones(start.size), "Dirichlet calibration", tol=tol)
    return Minimum(matrix_of(best.x), best.value, best.n_calls + 1)


def _scores(logits: Logits, matrix: Float64) -> tuple[Float64, Float64]:
    """log p, no less than `LEAST_LOG`, and W·log p + b; masked classes stay masked."""
    x = np.maximum(log_softmax(logits), LEAST_LOG)
    u = x @ matrix[:, :-1].T + matrix[:, -1]
    u[np.isneginf(logits)] = -np.inf
    return x, u


def _matrix_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, matrix: Float64) -> None:
    """Add the gradient of the negative log-likelihood in (W, b), and below it the negative log-likelihood."""
    used = weights > 0  # a sample of weight 0 may hold anything, even an infinite loss
    if not used.all():
        logits, labels, weights = logits[used], labels[used], weights[used]
    x, u = _scores(logits, matrix)
    true_class = (np.arange(len(labels)), labels)
    sums[-1, 0] += (weights * _losses(u, true_class)).sum()
    gradient = softmax(u)
    gradient[true_class] = 0
    gradient[true_class] = -gradient.sum(axis=1)  # p − 1 would have no digits left for a confident and correct sample
    gradient *= weights[:, None]
    sums[:-1, :-1] += gradient.T @ x
    sums[:-1, -1] += gradient.sum(axis=0)


def _losses(u: Float64, true_class: tuple[Labels, Labels]) -> Float64:
    """−log softmax(u) of the true classes: log(1 + odds of the others), which keeps its digits down to 0."""
    u_true, others = u[true_class], u.copy()
    others[true_class] = -np.inf
    is_only_class = others.max(axis=1) == -np.inf
    others[is_only_class] = 0
    top = others.argmax(axis=1)
    samples = true_class[0]
    log_sum = others[samples, top] - log_softmax(others)[samples, top]
    losses: Float64 = np.where(is_only_class, 0.0, np.logaddexp(0, log_sum - u_true))
    return losses


def _moment_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, matrix: Float64) -> None:
    """Add the second moments of (log p, 1), each sample weighted by the mean of q·(1 − q) over the classes."""
    used = weights > 0
    x, u = _scores(logits[used], matrix)
    p = softmax(u)
    curvature = weights[used] * (p * (1 - p)).mean(axis=1)
    inputs = np.column_stack([x, np.ones(len(x))])
    sums += inputs.T @ (inputs * curvature[:, None])


def _curvature_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64, matrix: Float64) -> None:
    """Add the curvature of the negative log-likelihood in all pairs of entries of (W, b)."""
    used = weights > 0
    if not used.any():
        return
    x, u = _scores(logits[used], matrix)
    p, inputs, n = softmax(u), np.column_stack([x, np.ones(len(x))]), matrix.shape[0]
    weighted = p * weights[used][:, None]
    pairs = (p[:, :, None] * inputs[:, None, :]).reshape(len(p), -1)
    sums -= pairs.T @ (pairs * weights[used][:, None])
    for c in range(n):
        block = slice(c * (n + 1), (c + 1) * (n + 1))
        sums[block, block] += inputs.T @ (inputs * weighted[:, c, None])
