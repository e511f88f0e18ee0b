"""Parameterized temperature scaling: a small network gives every row its temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.kernels.margins import Inputs
from driftcal.calibrators.kernels.network import (
    GROUP,
    add_squares,
    check_settings,
    first_betas,
    network_size,
    network_slopes,
    network_start,
    network_value,
)
from driftcal.calibrators.kernels.sample_scaling import moments, scale_rows
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.temperature import certify, survey
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, bits_of_float, exp, kernel, row_argmax, row_max
from driftcal.core.optimize import descend
from driftcal.core.validation import for_kernel
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: So many rows are enough to find where a good network lies.
FEW = 6_000
#: Steps that training may take: with few samples it may creep along a valley for a thousand.
ATTEMPTS = 5_000


class ParameterizedTemperatureScaling(Calibrator):
    """A temperature for each row from its largest logits: T(z) = T₀·exp(g(z)), q = softmax(z / T(z)).

    g is a network with two hidden layers of `hidden` tanh units on the `top` largest logits, taken relative to the very
    largest, in logarithms of their distance, and clipped to what the tuning rows showed. T₀ is the one best temperature by
    squared error. The network minimises the mean squared error against the labels plus
    (`decay`/n)·‖weights − start‖², from a start (drawn from `seed`) at which g = 0: so it never does worse than T₀ on its
    tuning rows. Where T₀ makes all rows so sure that nothing can be learnt there, it starts from the likeliest temperature as well. Passes add up slope and Gauss-Newton curvature in all weights; training ends where a step promises to
    lower the loss by less than the share `tol`. Weights count rows: n is their sum. Raises `NoFiniteOptimum` where no
    temperature is best.
    Tomani, Cremers and Buettner 2022 (Parameterized temperature scaling), section 3.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(500, 4)) * 3
    >>> y = np.where(rng.random(500) < 0.6, logits.argmax(axis=1), rng.integers(0, 4, 500))
    >>> pts = ParameterizedTemperatureScaling().fit(logits, y)
    >>> pts.fit_report_.after < pts.fit_report_.before
    True
    """

    keeps_accuracy = True
    counts_rows = True
    fitted = ("temperature_", "feature_scale_", "feature_low_", "feature_high_", "feature_mean_", "feature_spread_",
              "network_")  # fmt: skip

    def __init__(
        self,
        *,
        top: int = 10,
        hidden: int = 5,
        decay: float = 1.0,
        tol: float = 1e-4,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.top = top
        self.hidden = hidden
        self.decay = decay
        self.tol = tol
        self.seed = seed
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        check_settings(self.top, self.hidden, self.decay, self.tol)
        seen = survey(rows, None)
        beta, _, passes = fit_brier(rows, seen, None)
        inputs = Inputs.of(rows, min(self.top, rows.n_classes) - 1)
        start = network_start(inputs.width, int(self.hidden), self.seed)
        betas, more = first_betas(rows, beta)
        best, passes = np.inf, passes + more
        for sharp in betas:
            network, value, asked = self._train(rows, inputs, start, sharp)
            passes += asked
            if value < best:
                best, self.network_, self.temperature_ = value, network, 1 / sharp
        self.feature_scale_, self.feature_low_, self.feature_high_ = inputs.scale, inputs.low, inputs.high
        self.feature_mean_, self.feature_spread_ = inputs.mean, inputs.spread
        away = self.network_ - start
        after = best - self.decay / rows.count * float(away @ away)
        certify("squared error", seen.brier, after)
        return FitReport("brier", seen.brier, after, passes + 3)

    def _train(self, rows: LabelledLogits, inputs: Inputs, start: Float64, beta: float) -> tuple[Float64, float, int]:
        """The network that starts from the temperature 1/beta, its loss, and the passes it took."""
        size = len(start)
        decay = self.decay * rows.weight / rows.count

        def surface(network: Float64, share: int = 1) -> tuple[float, Float64, Float64]:
            sums = rows.reduce_sum(
                _network_sums, (size + 1, size + 1), beta, *inputs.arrays, int(self.hidden), network, share
            )
            weight = max(float(sums[1, 0]), 1e-300)
            away = network - start
            bend = (sums[1:, 1:] + np.triu(sums[1:, 1:], 1).T) / weight
            bend[np.diag_indices(size)] += 2 * decay / weight
            value = (float(sums[0, 0]) + decay * float(away @ away)) / weight
            return value, (sums[0, 1:] + 2 * decay * away) / weight, bend

        what, first, asked = "parameterized temperature scaling", start, 0
        for share in (rows.n // FEW, rows.n // (4 * FEW)):  # some rows show where to look, all of them settle it
            if share > 1:
                first, _, more = descend(partial(surface, share=share), first, what, promise=10 * self.tol)
                asked += -(-more // share)
        if asked and surface(first)[0] > surface(start)[0]:
            first = start
        found, value, more = descend(surface, first, what, promise=self.tol, attempts=ATTEMPTS)
        return found, value, asked + more

    def _map(self, logits: Logits, out: Float64) -> None:
        scale_rows(logits, self._betas(logits), out, False)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        scale_rows(logits, self._betas(logits), out, True)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        width = min(int(self.top), self.n_features_in_) - 1
        inputs = dict.fromkeys(("feature_low_", "feature_high_", "feature_mean_", "feature_spread_"), (width,))
        return {**inputs, "feature_scale_": (), "network_": (network_size(width, int(self.hidden)),)}

    def _betas(self, logits: Logits) -> Float64:
        betas = np.empty(len(logits))
        _row_betas(
            logits, 1 / self.temperature_, self.feature_scale_, self.feature_low_, self.feature_high_, self.feature_mean_,
            self.feature_spread_, int(self.hidden), self.network_, betas,
        )  # fmt: skip
        return betas

    def temperatures(self, logits: AnyArray) -> Float64:
        """The temperature of each row."""
        scores, shape = self._checked(logits)
        return (1 / self._betas(for_kernel(scores))).reshape(shape)


@kernel
def _network_sums(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    sums: Float64,
    beta: float,
    scale: float,
    low: Float64,
    high: Float64,
    mean: Float64,
    spread: Float64,
    hidden: int,
    network: Float64,
    share: int,
) -> None:
    """Add the squared error to `sums[0, 0]`, its slope to the rest of the first row, its curvature below (upper half).

    With p = softmax(x), x = e^s·beta·d, s = −g and m = Σp·x: dp/ds = p(x − m). The curvature is Gauss's and Newton's,
    2·|dp|², which is never negative.

    With `share` > 1 only about so manieth row counts. A row's own numbers decide whether it does, not its place: the
    order of the rows changes nothing. The weight of those that count is added to `sums[1, 0]`.
    """
    size = network.shape[0]
    x = np.empty(low.shape[0])
    first = np.empty(hidden)
    second = np.empty(hidden)
    slopes = np.zeros((GROUP, size))
    bends = np.zeros(GROUP)
    held = 0
    for i in range(logits.shape[0]):
        w = weights[i]
        row = logits[i]
        if w == 0 or (share > 1 and not _drawn(row, share)):
            continue
        g = network_value(row, scale, low, high, mean, spread, hidden, network, x, first, second)
        sharp = beta * math.exp(-g)
        s0, s1, q0, q1, q2 = moments(row, sharp)
        m = s1 / s0
        a = q0 / (s0 * s0)
        b = q1 / (s0 * s0)
        own = max(sharp * (np.float64(row[labels[i]]) - row_max(row)), MASKED)
        p = exp(own) / s0
        down = -2.0 * w * (b - m * a - p * (own - m))
        bends[held] = 2.0 * w * max(q2 / (s0 * s0) - 2.0 * m * b + m * m * a, 0.0)
        network_slopes(hidden, network, x, first, second, slopes[held])
        sums[0, 0] += w * (a - 2.0 * p + 1.0)
        sums[1, 0] += w
        for r in range(size):
            sums[0, 1 + r] += down * slopes[held, r]
        held += 1
        if held == GROUP:
            add_squares(slopes, bends, sums)
            held = 0
    bends[held:] = 0.0
    add_squares(slopes, bends, sums)


@kernel
def _drawn(row: Any, share: int) -> bool:
    """A lot that one row in `share` wins, from the bits of its spread."""
    total = 0.0
    top = np.float64(row[row_argmax(row)])
    for c in range(row.shape[0]):
        total += max(np.float64(row[c]) - top, MASKED)
    mixed = bits_of_float(total) * 0x9E3779B97F4A7C1
    return bool(((mixed >> 33) ^ (mixed >> 21)) % share == 0)


@kernel
def _row_betas(
    logits: Logits,
    beta: float,
    scale: float,
    low: Float64,
    high: Float64,
    mean: Float64,
    spread: Float64,
    hidden: int,
    network: Float64,
    out: Float64,
) -> None:
    """1/T of every row."""
    x = np.empty(low.shape[0])
    first = np.empty(hidden)
    second = np.empty(hidden)
    for i in range(logits.shape[0]):
        g = network_value(logits[i], scale, low, high, mean, spread, hidden, network, x, first, second)
        out[i] = beta * math.exp(-g)
