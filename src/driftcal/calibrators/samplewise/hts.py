"""Entropy-based temperature scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.kernels.sample_scaling import scale_row
from driftcal.calibrators.scaling.temperature import certify, fit_nll
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_argmax
from driftcal.core.optimize import descend
from driftcal.core.validation import for_kernel
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: The log of an entropy that float64 has no number for any more.
LEAST_LOG_ENTROPY = -690.0
#: Keeps the slope finite where rows of low entropy are all right and the others at chance; far below any other slope's pull.
RIDGE = 1e-8
#: Softplus of this is 1e-26: rows so scaled are certain, and products of what follows still fit into float64.
LEAST_ARGUMENT = -60.0


class EntropyTemperatureScaling(Calibrator):
    """A temperature for each row from how unsure the model is: T = softplus(w·log H̄ + b), q = softmax(z / T).

    H̄ is the entropy of softmax(z) as a share of log C, and w and b minimise the negative log-likelihood, from the one
    best temperature (w = 0) downwards; a ridge of 1e-8·w², w relative to that temperature, keeps w finite. Two numbers
    more than no calibration, so a handful of rows is enough. Raises `NoFiniteOptimum` where temperature scaling does.
    Balanya, Maroñas and Ramos 2022 (Adaptive temperature scaling), section 3.3, "HTS".

    >>> import numpy as np
    >>> logits = np.array([[4.0, 0, 0], [4, 0, 0], [0, 4, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    >>> hts = EntropyTemperatureScaling().fit(logits, [0, 0, 2, 0, 1, 1, 2])
    >>> hts.temperatures(logits[[0, 3]]).round(2)  # the sure rows were right too rarely
    array([2.89, 1.44])
    """

    keeps_accuracy = True
    fitted = ("slope_", "intercept_")

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        beta, start = fit_nll(rows)
        temperature = 1 / beta
        log_c = math.log(math.log(rows.n_classes))
        ridge = RIDGE / max(1.0, temperature) ** 2

        def surface(line: Float64) -> tuple[float, Float64, Float64]:
            sums = rows.reduce_sum(_line_sums, 6, log_c, line[0], line[1]) / rows.weight
            value, slope, bend = float(sums[0]), sums[1:3].copy(), np.array([[sums[3], sums[4]], [sums[4], sums[5]]])
            value += ridge * line[0] ** 2
            slope[0] += 2 * ridge * line[0]
            bend[0, 0] += 2 * ridge
            return value, slope, bend

        # softplus(b) = T without overflow
        b = temperature + math.log(-math.expm1(-temperature))
        line, value, passes = descend(surface, np.array([0.0, max(b, LEAST_ARGUMENT)]), "entropy temperature scaling")
        self.slope_, self.intercept_ = float(line[0]), float(line[1])
        after = value - ridge * self.slope_**2
        certify("nll", start.before, after)
        return FitReport("nll", start.before, after, start.passes + passes)

    def _map(self, logits: Logits, out: Float64) -> None:
        _scaled(logits, _log_log(logits), self.slope_, self.intercept_, out, False)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        _scaled(logits, _log_log(logits), self.slope_, self.intercept_, out, True)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"slope_": (), "intercept_": ()}

    def temperatures(self, logits: AnyArray) -> Float64:
        """The temperature of each row."""
        scores, shape = self._checked(logits)
        out = np.empty(len(scores))
        _row_temperatures(for_kernel(scores), _log_log(scores), self.slope_, self.intercept_, out)
        return out.reshape(shape)


def _log_log(logits: Logits) -> float:
    return math.log(math.log(logits.shape[1]))


@kernel
def _log_entropy(row: Any) -> float:
    """log of the entropy of softmax(row), from sums of one sign each: exact for certain rows too."""
    best = row_argmax(row)
    top = np.float64(row[best])
    rest = 0.0
    pull = 0.0
    for c in range(row.shape[0]):
        if c != best:
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(d)
            rest += e
            pull -= e * d
    entropy = math.log1p(rest) + pull / (1.0 + rest)
    return max(math.log(entropy), LEAST_LOG_ENTROPY) if entropy > 0 else LEAST_LOG_ENTROPY


@kernel
def _softplus(a: float) -> float:
    return max(a, 0.0) + math.log1p(math.exp(-abs(a)))


@kernel
def _temperature(row: Any, log_c: float, slope: float, intercept: float) -> float:
    return _softplus(max(slope * (_log_entropy(row) - log_c) + intercept, LEAST_ARGUMENT))


@kernel
def _row_temperatures(logits: Logits, log_c: float, slope: float, intercept: float, out: Float64) -> None:
    for i in range(logits.shape[0]):
        out[i] = _temperature(logits[i], log_c, slope, intercept)


@kernel
def _line_sums(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, log_c: float, slope: float, intercept: float
) -> None:
    """Add the negative log-likelihood, its slopes in w and b, and its curvatures ww, wb, bb.

    With T = softplus(a), a = w·x + b and beta = 1/T: beta' = −σ(a)/T² and beta'' = 2σ²/T³ − σ(1 − σ)/T².
    """
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a row may hold anything, an infinite loss too
            continue
        row = logits[i]
        x = _log_entropy(row) - log_c
        a = slope * x + intercept
        held = a < LEAST_ARGUMENT
        a = max(a, LEAST_ARGUMENT)
        beta = 1.0 / _softplus(a)
        sigma = 1.0 / (1.0 + math.exp(-a))
        first = 0.0 if held else -sigma * beta * beta
        second = 0.0 if held else beta * beta * sigma * (2.0 * sigma * beta - (1.0 - sigma))
        top = np.float64(row[row_argmax(row)])
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        for c in range(row.shape[0]):
            d = max(np.float64(row[c]) - top, MASKED)
            e = exp(beta * d)
            s0 += e
            s1 += e * d
            s2 += e * d * d
        own = np.float64(row[labels[i]]) - top
        mean = s1 / s0
        off = mean - own  # slope of the loss in beta
        down = w * off * first
        bend = w * ((s2 / s0 - mean * mean) * first * first + off * second)
        sums[0] += w * (math.log(s0) - beta * own)
        sums[1] += down * x
        sums[2] += down
        sums[3] += bend * x * x
        sums[4] += bend * x
        sums[5] += bend


@kernel
def _scaled(logits: Logits, log_c: float, slope: float, intercept: float, out: Float64, as_log: bool) -> None:
    """Rows of softmax(z / T(z)), or their logarithms, into `out`."""
    for i in range(logits.shape[0]):
        row = logits[i]
        scale_row(row, 1.0 / _temperature(row, log_c, slope, intercept), out[i], as_log)
