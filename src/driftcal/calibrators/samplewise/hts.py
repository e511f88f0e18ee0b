"""Entropy-based temperature scaling (HTS): a temperature per sample from the entropy of its prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.sample_temperatures import ScaledByEntropy
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.samplewise.sample_scaling import scale_row
from driftcal.calibrators.scaling.temperature import exponential_moments, fit_nll
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_argmax
from driftcal.core.optimize import minimise_newton
from driftcal.core.validation import for_kernel
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: The log of the smallest entropy that float64 can hold.
LEAST_LOG_ENTROPY = -690.0
#: The penalty on w². It keeps w finite if samples of low entropy are all correct and the others at chance.
RIDGE = 1e-8
#: Softplus of this is 1e-26: such a temperature gives confidence 1, and products of 1/T do not overflow.
LEAST_ARGUMENT = -60.0


class EntropyTemperatureScaling(LogitCalibrator):
    """A temperature per sample from the entropy of its prediction: T = softplus(w·log H̄ + b), q = softmax(z / T).

    H̄ is the entropy of softmax(z) as a share of log C. w and b minimise the negative log-likelihood, starting from the
    best single temperature (w = 0). A penalty of 1e-8·w², with w relative to that temperature, keeps w finite. There
    are two parameters, so a few samples are enough. The fit raises `NoFiniteOptimum` if temperature scaling does.
    Balanya, Maroñas and Ramos 2022 (Adaptive temperature scaling), section 3.3, "HTS".

    >>> import numpy as np
    >>> logits = np.array([[4.0, 0, 0], [4, 0, 0], [0, 4, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    >>> hts = EntropyTemperatureScaling().fit(logits, [0, 0, 2, 0, 1, 1, 2])
    >>> hts.temperatures(logits[[0, 3]]).round(2)  # confident samples were incorrect too often
    array([2.89, 1.44])
    """

    keeps_accuracy = True
    fitted = {"slope_": FittedArray(), "intercept_": FittedArray()}

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        beta, start = fit_nll(data)
        temperature = 1 / beta
        log_log_c = math.log(math.log(data.n_classes))
        ridge = RIDGE / max(1.0, temperature) ** 2

        def loss(line: Float64) -> tuple[float, Float64, Float64]:
            sums = data.reduce_sum(_line_sums, 6, log_log_c, line[0], line[1]) / data.total_weight
            gradient, curvature = sums[1:3].copy(), np.array([[sums[3], sums[4]], [sums[4], sums[5]]])
            gradient[0] += 2 * ridge * line[0]
            curvature[0, 0] += 2 * ridge
            return float(sums[0]) + ridge * line[0] ** 2, gradient, curvature

        # softplus(b) = T without overflow
        b = temperature + math.log(-math.expm1(-temperature))
        best = minimise_newton(loss, np.array([0.0, max(b, LEAST_ARGUMENT)]), "entropy temperature scaling")
        self.slope_, self.intercept_ = float(best.x[0]), float(best.x[1])
        after = best.value - ridge * self.slope_**2
        certify("nll", start.before, after)
        return FitReport("nll", start.before, after, start.passes + best.n_calls)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        _scaled(logits, _log_log(logits), self.slope_, self.intercept_, out, False)

    def _log_proba_into(self, logits: Logits, out: Float64) -> None:
        _scaled(logits, _log_log(logits), self.slope_, self.intercept_, out, True)

    def export_map(self) -> ExportMap:
        """softmax(z / T) with T from the entropy of the sample."""
        shift = self.slope_ * math.log(math.log(self.n_features_in_))  # the fit uses entropies as shares of log C
        return ExportMap(ScaledByEntropy(self.slope_, self.intercept_ - shift, self.n_features_in_))

    def temperatures(self, logits: AnyArray) -> Float64:
        """The temperature of each sample."""
        scores, shape = self._checked(logits)
        out = np.empty(len(scores))
        _sample_temperatures(for_kernel(scores), _log_log(scores), self.slope_, self.intercept_, out)
        return out.reshape(shape)


def _log_log(logits: Logits) -> float:
    return math.log(math.log(logits.shape[1]))


@kernel
def _log_entropy(row: Any) -> float:
    """The log of the entropy of softmax(row). All terms have one sign, so it is exact even at a confidence of 1."""
    best = row_argmax(row)
    top = np.float64(row[best])
    rest = 0.0
    weighted = 0.0
    for c in range(row.shape[0]):
        if c != best:
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(d)
            rest += e
            weighted -= e * d
    entropy = math.log1p(rest) + weighted / (1.0 + rest)
    return max(math.log(entropy), LEAST_LOG_ENTROPY) if entropy > 0 else LEAST_LOG_ENTROPY


@kernel
def _softplus(a: float) -> float:
    return max(a, 0.0) + math.log1p(math.exp(-abs(a)))


@kernel
def _temperature(row: Any, log_log_c: float, slope: float, intercept: float) -> float:
    return _softplus(max(slope * (_log_entropy(row) - log_log_c) + intercept, LEAST_ARGUMENT))


@kernel
def _sample_temperatures(logits: Logits, log_log_c: float, slope: float, intercept: float, out: Float64) -> None:
    for i in range(logits.shape[0]):
        out[i] = _temperature(logits[i], log_log_c, slope, intercept)


@kernel
def _line_sums(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, log_log_c: float, slope: float, intercept: float
) -> None:
    """Add the negative log-likelihood, its gradient in w and b, and its curvatures ww, wb, bb.

    With T = softplus(a), a = w·x + b and beta = 1/T: beta' = −σ(a)/T² and beta'' = 2σ²/T³ − σ(1 − σ)/T².
    """
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a sample may hold anything, even an infinite loss
            continue
        row = logits[i]
        x = _log_entropy(row) - log_log_c
        a = slope * x + intercept
        clipped = a < LEAST_ARGUMENT
        a = max(a, LEAST_ARGUMENT)
        beta = 1.0 / _softplus(a)
        sigma = 1.0 / (1.0 + math.exp(-a))
        first = 0.0 if clipped else -sigma * beta * beta
        second = 0.0 if clipped else beta * beta * sigma * (2.0 * sigma * beta - (1.0 - sigma))
        top = np.float64(row[row_argmax(row)])
        s0, s1, s2 = exponential_moments(row, top, beta)
        d_true = np.float64(row[labels[i]]) - top
        mean = s1 / s0
        loss_in_beta = mean - d_true  # derivative of the loss in beta
        gradient = w * loss_in_beta * first
        curvature = w * ((s2 / s0 - mean * mean) * first * first + loss_in_beta * second)
        sums[0] += w * (math.log(s0) - beta * d_true)
        sums[1] += gradient * x
        sums[2] += gradient
        sums[3] += curvature * x * x
        sums[4] += curvature * x
        sums[5] += curvature


@kernel
def _scaled(logits: Logits, log_log_c: float, slope: float, intercept: float, out: Float64, as_log: bool) -> None:
    """Write softmax(z / T(z)) of every sample, or its logarithm, into `out`."""
    for i in range(logits.shape[0]):
        row = logits[i]
        scale_row(row, 1.0 / _temperature(row, log_log_c, slope, intercept), out[i], as_log)
