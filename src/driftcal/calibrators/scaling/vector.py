"""Vector scaling, and structured vector scaling, which starts from one temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.scaling.temperature import certify, fit_nll, look
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max
from driftcal.core.optimize import descend_convex
from driftcal.errors import InputError, NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights


class VectorScaling(Calibrator):
    """A factor and a constant for each class: q = softmax(a ⊙ log p + b), with p = softmax(z).

    a and b minimise the negative log-likelihood plus (`decay`/n)·(‖a − 1/T‖² + ‖b‖²), with the T of temperature scaling, or 1
    where no T is best: a prior worth about a row, which decides for classes without tuning rows. On log p and not on z, so
    that a constant added to a row changes nothing. Convex, so L-BFGS finds the one optimum. Can change which class is on
    top. Weights count rows: n is their sum. Guo et al. 2017, section 4.2.

    >>> import numpy as np
    >>> logits = np.log([[0.8, 0.2]] * 5 + [[0.2, 0.8]] * 5)  # right 3 times out of 5, then 5 times out of 5
    >>> VectorScaling(decay=1e-3).fit(logits, [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]).predict_proba(logits[[0, 5]]).round(2)
    array([[0.6, 0.4],
           [0. , 1. ]])
    """

    keeps_accuracy = False
    counts_rows = True
    fitted = ("slopes_", "intercepts_")

    def __init__(self, *, decay: float = 1.0, classes: Sequence[Any] | None = None) -> None:
        self.decay = decay
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        before = nll_before(rows)
        pull = positive(self.decay, "decay", 1.0) / rows.count
        beta, passes = temperature_or_not(rows, None)
        start = np.concatenate([np.full(rows.n_classes, beta if passes else 1.0), np.zeros(rows.n_classes)])
        found, after, asked = fit_line(rows, 1.0, start, pull, "vector scaling")
        self.slopes_, self.intercepts_ = np.split(found, 2)
        certify("nll", before, after)
        return FitReport("nll", before, after, passes + asked + 1)

    def _map(self, logits: Logits, out: Float64) -> None:
        vector_kernel(logits, 1.0, self.slopes_, self.intercepts_, out)


class StructuredVectorScaling(Calibrator):
    """Temperature scaling with a correction for each class: q = softmax((1 + v) ⊙ log p + b), p = softmax(z / T).

    T is the one best temperature; v and b then minimise the negative log-likelihood plus (C/n)·(‖v‖² + ‖b‖²), so that
    classes differ only as far as the rows can tell: with few rows it is temperature scaling, with many vector scaling.
    Where no temperature is best it starts from T = 1 and the report says so; `t_max` as in temperature scaling. Can
    change which class is on top. Weights count rows: n is their sum.
    Berta, Holzmüller, Jordan and Bach 2025 (Structured matrix scaling), "SVS".

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(900, 3)) * 4
    >>> y = np.argmax(logits / 4 + [0, 0, 1] + rng.gumbel(size=(900, 3)), axis=1)  # the third class is underrated
    >>> svs = StructuredVectorScaling().fit(logits, y)
    >>> bool(svs.temperature_ > 3), bool(svs.intercepts_[2] > svs.intercepts_[:2].max() + 0.5)
    (True, True)
    """

    keeps_accuracy = False
    counts_rows = True
    fitted = ("temperature_", "slopes_", "intercepts_")

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        before = nll_before(rows)
        warnings: tuple[str, ...] = ()
        beta, passes = temperature_or_not(rows, self.t_max)
        if passes == 0 or beta == 0:
            beta = 1.0
            warnings = ("no temperature is best for these rows: the correction for each class starts from T = 1",)
        self.temperature_ = 1 / beta
        start = np.concatenate([np.ones(rows.n_classes), np.zeros(rows.n_classes)])
        pull = rows.n_classes / rows.count
        found, after, asked = fit_line(rows, beta, start, pull, "structured vector scaling")
        self.slopes_, self.intercepts_ = np.split(found, 2)
        certify("nll", before, after, bound=self.t_max is None)
        return FitReport("nll", before, after, passes + asked + 1, warnings=warnings)

    def _map(self, logits: Logits, out: Float64) -> None:
        vector_kernel(logits, 1 / self.temperature_, self.slopes_, self.intercepts_, out)


def nll_before(rows: LabelledLogits) -> float:
    """The negative log-likelihood of the model as it is; raises where a true class is masked."""
    found = look(rows).nll
    if not math.isfinite(found):
        raise NoFiniteOptimum(
            "tuning needs a finite logit for every true class; a row's true class is masked with -inf, so its loss is "
            "infinite whatever the calibrator does. Drop such rows or give them weight 0."
        )
    return found


def positive(value: Any, name: str, usual: float | str) -> float:
    """A parameter that must be a positive number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number; it is {value!r}. The default is {usual}.")
    return float(value)


def temperature_or_not(rows: LabelledLogits, t_max: float | None) -> tuple[float, int]:
    """1/T of temperature scaling and its passes; where no T is best, the better of 1 and 0, and 0 passes."""
    try:
        beta, report = fit_nll(rows, t_max)
    except NoFiniteOptimum:
        return (1.0 if look(rows).wrong == 0 else 0.0), 0
    return beta, report.passes


def fit_line(rows: LabelledLogits, beta: float, start: Float64, pull: float, what: str) -> tuple[Float64, float, int]:
    """Slopes and intercepts side by side, the negative log-likelihood they reach without the pull to `start`, and the passes."""
    n = rows.n_classes

    def sums(line: Float64) -> Float64:
        return rows.reduce_sum(_vector_sums, 4 * n + 1, beta, line[:n], line[n:]) / rows.weight

    def slope_of(line: Float64) -> tuple[float, Float64]:
        found, away = sums(line), line - start
        return float(found[-1] + pull * away @ away), found[: 2 * n] + 2 * pull * away

    found, value, asked = descend_convex(slope_of, start, sums(start)[2 * n : -1] + 2 * pull, what)
    away = found - start
    return found, value - pull * float(away @ away), asked + 1


@kernel
def _scores(row: Any, beta: float, slopes: Float64, intercepts: Float64, x: Float64, u: Float64) -> float:
    """Write x = log softmax(beta·row) and u = a·x + b, MASKED where the class is; returns the largest u."""
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
    """Add the slopes of the negative log-likelihood in a and in b, its curvatures in each of them, and itself."""
    n = logits.shape[1]
    x = np.empty(n)
    u = np.empty(n)
    for i in range(logits.shape[0]):
        w = weights[i]
        if w == 0:  # such a row may hold anything, an infinite loss too
            continue
        row = logits[i]
        best = _scores(row, beta, slopes, intercepts, x, u)
        own = u[labels[i]] - best
        total = 0.0
        for c in range(n):
            u[c] = exp(max(u[c] - best, MASKED))
            total += u[c]
        sums[4 * n] += w * (math.log(total) - own)
        for c in range(n):
            if row[c] > -np.inf:
                p = u[c] / total
                off = w * (p - 1.0) if c == labels[i] else w * p
                bend = w * p * (1.0 - p)
                sums[c] += off * x[c]
                sums[n + c] += off
                sums[2 * n + c] += bend * x[c] * x[c]
                sums[3 * n + c] += bend


@kernel
def vector_kernel(logits: Logits, beta: float, slopes: Float64, intercepts: Float64, out: Float64) -> None:
    """Rows of softmax(a ⊙ log softmax(beta·z) + b); a masked class gets exactly 0."""
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
