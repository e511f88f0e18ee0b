"""Vector scaling, and structured vector scaling, which corrects temperature scaling for each class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap, ScaledPerClass
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.parameters import check_positive
from driftcal.calibrators.scaling.first_pass import first_pass
from driftcal.calibrators.scaling.temperature import fit_nll, min_beta
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max
from driftcal.core.optimize import minimise_lbfgs
from driftcal.errors import NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights


class VectorScaling(LogitCalibrator):
    """A factor and a constant for each class: q = softmax(a ⊙ log p + b), with p = softmax(z).

    a and b minimise the negative log-likelihood plus (`decay`/n)·(‖a − 1/T‖² + ‖b‖²). T is that of temperature scaling,
    or 1 if no T is best. This prior has the weight of about one sample; it matters for classes without tuning samples.
    n is the sum of the weights. The map uses log p, not z, so that a constant added to a sample's logits changes
    nothing. The loss is convex, so L-BFGS finds the one optimum. The map can change the predicted class. Guo et al.
    2017, section 4.2.

    >>> import numpy as np
    >>> logits = np.log([[0.8, 0.2]] * 5 + [[0.2, 0.8]] * 5)  # correct 3 times out of 5, then 5 times out of 5
    >>> VectorScaling(decay=1e-3).fit(logits, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]).predict_proba(logits[[0, 5]]).round(2)
    array([[0.6, 0.4],
           [0. , 1. ]])
    """

    keeps_accuracy = False
    uses_sample_count = True
    fitted = {"slopes_": FittedArray("classes"), "intercepts_": FittedArray("classes")}

    def __init__(self, *, decay: float = 1.0, classes: Sequence[Any] | None = None) -> None:
        self.decay = decay
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        before = uncalibrated_nll(data)
        beta, passes = temperature_scaling_beta(data, None)
        start = np.concatenate([np.full(data.n_classes, beta), np.zeros(data.n_classes)])
        penalty = self.decay / data.effective_n_samples
        fitted = fit_slopes(data, 1.0, start, penalty, "vector scaling")
        self.slopes_, self.intercepts_ = fitted.slopes, fitted.intercepts
        certify("nll", before, fitted.nll)
        return FitReport("nll", before, fitted.nll, passes + fitted.passes + 1)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        vector_kernel(logits, 1.0, self.slopes_, self.intercepts_, out)

    def export_map(self) -> ExportMap:
        """softmax(a ⊙ log p + b)."""
        return ExportMap(ScaledPerClass(1.0, self.slopes_, self.intercepts_))

    def _check_params(self) -> None:
        check_positive("decay", self.decay, 1.0)


class StructuredVectorScaling(LogitCalibrator):
    """Temperature scaling with a correction for each class: q = softmax((1 + v) ⊙ log p + b), p = softmax(z / T).

    T is the best single temperature. v and b then minimise the negative log-likelihood plus (C/n)·(‖v‖² + ‖b‖²), where
    n is the sum of the weights. With few samples the result is close to temperature scaling, with many to vector
    scaling. If no temperature is best, T is 1 and the report has a warning. `t_max` is as in temperature scaling. The
    map can change the predicted class. Berta, Holzmüller, Jordan and Bach 2025 (Structured matrix scaling), "SVS".

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(900, 3)) * 4
    >>> y = np.argmax(logits / 4 + [0, 0, 1] + rng.gumbel(size=(900, 3)), axis=1)  # the third class is underrated
    >>> svs = StructuredVectorScaling().fit(logits, y)
    >>> bool(svs.temperature_ > 3), bool(svs.intercepts_[2] > svs.intercepts_[:2].max() + 0.5)
    (True, True)
    """

    keeps_accuracy = False
    uses_sample_count = True
    fitted = {"temperature_": FittedArray(positive=True), **VectorScaling.fitted}

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        before = uncalibrated_nll(data)
        warnings: tuple[str, ...] = ()
        beta, passes = temperature_scaling_beta(data, self.t_max)
        if passes == 0:
            warnings = ("no temperature is best for these samples: the correction for each class starts from T = 1",)
        self.temperature_ = 1 / beta
        start = np.concatenate([np.ones(data.n_classes), np.zeros(data.n_classes)])
        penalty = data.n_classes / data.effective_n_samples
        fitted = fit_slopes(data, beta, start, penalty, "structured vector scaling")
        self.slopes_, self.intercepts_ = fitted.slopes, fitted.intercepts
        if self.t_max is None:  # a cap may exclude the uncalibrated model
            certify("nll", before, fitted.nll)
        return FitReport("nll", before, fitted.nll, passes + fitted.passes + 1, warnings=warnings)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        vector_kernel(logits, 1 / self.temperature_, self.slopes_, self.intercepts_, out)

    def export_map(self) -> ExportMap:
        """softmax((1 + v) ⊙ log p + b) with p = softmax(z / T)."""
        return ExportMap(ScaledPerClass(1 / self.temperature_, self.slopes_, self.intercepts_))

    def _check_params(self) -> None:
        min_beta(self.t_max)


def uncalibrated_nll(data: LabelledLogits) -> float:
    """The negative log-likelihood of the uncalibrated model; raises `NoFiniteOptimum` if a true class is masked."""
    nll = first_pass(data).nll
    if not math.isfinite(nll):
        raise NoFiniteOptimum(
            "tuning needs a finite logit for every true class; the true class of a sample is masked with -inf, so its loss "
            "is infinite whatever the calibrator does. Drop such samples or give them weight 0."
        )
    return nll


def temperature_scaling_beta(data: LabelledLogits, t_max: float | None) -> tuple[float, int]:
    """1/T of temperature scaling and its passes; (1, 0) if no T is best."""
    try:
        beta, report = fit_nll(data, t_max)
    except NoFiniteOptimum:
        return 1.0, 0
    return beta, report.passes


@dataclass(frozen=True, eq=False)
class SlopesFit:
    """A slope and an intercept for each class, their negative log-likelihood, and the passes taken."""

    slopes: Float64
    intercepts: Float64
    nll: float
    passes: int


def fit_slopes(data: LabelledLogits, beta: float, start: Float64, penalty: float, name: str) -> SlopesFit:
    """Minimise the negative log-likelihood of softmax(a ⊙ log softmax(beta·z) + b) plus `penalty`·‖(a, b) − start‖².

    `start` holds the slopes, then the intercepts. An error mentions `name`.
    """
    n = data.n_classes

    def sums(x: Float64) -> Float64:
        return data.reduce_sum(_vector_sums, 4 * n + 1, beta, x[:n], x[n:]) / data.total_weight

    def loss(x: Float64) -> tuple[float, Float64]:
        at_x, deviation = sums(x), x - start
        nll, gradient = at_x[-1], at_x[: 2 * n]
        return float(nll + penalty * deviation @ deviation), gradient + 2 * penalty * deviation

    curvature = sums(start)[2 * n : -1]
    best = minimise_lbfgs(loss, start, curvature + 2 * penalty, name)
    deviation = best.x - start
    slopes, intercepts = np.split(best.x, 2)
    return SlopesFit(slopes, intercepts, best.value - penalty * float(deviation @ deviation), best.n_calls + 1)


@kernel
def _scores(row: Any, beta: float, slopes: Float64, intercepts: Float64, x: Float64, u: Float64) -> float:
    """Write x = log softmax(beta·row) and u = a·x + b, which is MASKED for a masked class; return the largest u."""
    top = row_max(row)
    total = 0.0
    for c in range(row.shape[0]):
        x[c] = max(beta * (np.float64(row[c]) - top), MASKED)
        total += exp(x[c])
    log_total = math.log(total)
    best = -np.inf
    for c in range(row.shape[0]):
        if row[c] == -np.inf:
            u[c] = MASKED
        else:
            x[c] -= log_total
            u[c] = slopes[c] * x[c] + intercepts[c]
            best = max(best, u[c])
    return best


@kernel
def _vector_sums(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    sums: Float64,
    beta: float,
    slopes: Float64,
    intercepts: Float64,
) -> None:
    """Add the gradient of the negative log-likelihood in a and b, its curvatures in a and b, and its value."""
    n = logits.shape[1]
    x = np.empty(n)
    u = np.empty(n)
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a sample may hold anything, even an infinite loss
            continue
        row = logits[i]
        best = _scores(row, beta, slopes, intercepts, x, u)
        u_true = u[labels[i]] - best
        total = 0.0
        for c in range(n):
            u[c] = exp(max(u[c] - best, MASKED))
            total += u[c]
        sums[4 * n] += w * (math.log(total) - u_true)
        for c in range(n):
            if row[c] > -np.inf:
                p = u[c] / total
                gradient = w * (p - 1.0) if c == labels[i] else w * p
                curvature = w * p * (1.0 - p)
                sums[c] += gradient * x[c]
                sums[n + c] += gradient
                sums[2 * n + c] += curvature * x[c] * x[c]
                sums[3 * n + c] += curvature


@kernel
def vector_kernel(logits: Logits, beta: float, slopes: Float64, intercepts: Float64, out: Float64) -> None:
    """Write softmax(a ⊙ log softmax(beta·z) + b) of each sample into `out`; a masked class gets exactly 0."""
    x = np.empty(logits.shape[1])
    for i in range(logits.shape[0]):
        row = out[i]
        best = _scores(logits[i], beta, slopes, intercepts, x, row)
        total = 0.0
        for c in range(row.shape[0]):
            row[c] = exp(max(row[c] - best, MASKED))
            total += row[c]
        for c in range(row.shape[0]):
            row[c] /= total
