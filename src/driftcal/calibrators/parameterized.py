"""Parameterized temperature scaling: a small network gives every row its temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.descent import descend
from driftcal.calibrators.ensemble import fit_brier
from driftcal.calibrators.per_row import moments, scale_rows
from driftcal.calibrators.temperature import certify, survey
from driftcal.checks import for_kernel
from driftcal.errors import InputError
from driftcal.numerics import MASKED, bits_of_float, exp, kernel, row_argmax, row_max
from driftcal.rows import Rows
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: The network may change the temperature by this power of e at most; what it really needs stays far below.
LARGEST = 50.0
#: Rows whose curvature is added at once: the matrix of sums is larger than a core's first cache.
GROUP = 8
#: So many rows are enough to find where a good network lies.
FEW = 6_000


class ParameterizedTemperatureScaling(Calibrator):
    """A temperature for each row from its largest logits: T(z) = T₀·exp(g(z)), q = softmax(z / T(z)).

    g is a network with two hidden layers of `hidden` tanh units on the `top` largest logits, taken relative to the very
    largest, in logarithms of their distance, and clipped to what the tuning rows showed. T₀ is the one best temperature by
    squared error. The network minimises the mean squared error against the labels plus
    (`decay`/n)·‖weights − start‖², from a start (drawn from `seed`) at which g = 0: so it never does worse than T₀ on its
    tuning rows. Passes add up slope and Gauss-Newton curvature in all weights; training ends where a step promises to
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

    def _fit(self, rows: Rows) -> FitReport:
        for name, least in (("top", 2), ("hidden", 1)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}; it is {value!r}.")
        for name, usual in (("decay", 1), ("tol", 1e-4)):
            value = getattr(self, name)
            if not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
                raise InputError(f"{name} must be a positive number; it is {value!r}. The default is {usual}.")
        seen = survey(rows, None)
        beta, _, passes = fit_brier(rows, seen, None)
        self.temperature_ = float(1 / beta)
        inputs = _Inputs.of(rows, min(self.top, rows.n_classes) - 1)
        shape = (inputs.width, int(self.hidden))
        start = _start(*shape, self.seed)
        size = len(start)

        def surface(network: Float64, share: int = 1) -> tuple[float, Float64, Float64]:
            sums = rows.sums(_network_sums, (size + 1, size + 1), beta, *inputs.arrays, shape[1], network, share)
            weight = max(float(sums[1, 0]), 1e-300)
            away = network - start
            bend = (sums[1:, 1:] + np.triu(sums[1:, 1:], 1).T) / weight
            bend[np.diag_indices(size)] += 2 * self.decay / weight
            value = (float(sums[0, 0]) + self.decay * float(away @ away)) / weight
            return value, (sums[0, 1:] + 2 * self.decay * away) / weight, bend

        what, first, asked = "parameterized temperature scaling", start, 0
        for share in (rows.n // FEW, rows.n // (4 * FEW)):  # some rows show where to look, all of them settle it
            if share > 1:
                first, _, more = descend(partial(surface, share=share), first, what, promise=10 * self.tol)
                asked += -(-more // share)
        if asked and surface(first)[0] > surface(start)[0]:
            first = start
        self.network_, value, more = descend(surface, first, what, promise=self.tol)
        asked += more
        self.feature_scale_, self.feature_low_, self.feature_high_ = inputs.scale, inputs.low, inputs.high
        self.feature_mean_, self.feature_spread_ = inputs.mean, inputs.spread
        away = self.network_ - start
        after = value - self.decay / rows.weight * float(away @ away)
        certify("squared error", seen.brier, after)
        return FitReport("brier", seen.brier, after, passes + asked + 3)

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


def network_size(width: int, hidden: int) -> int:
    """How many weights the network has: two layers of `hidden` units and the output, each with its constants."""
    return (width + 1) * hidden + (hidden + 1) * hidden + hidden + 1


def _start(width: int, hidden: int, seed: int) -> Float64:
    """Random directions in both hidden layers, nothing in the output: the network starts as the constant 0."""
    rng = np.random.default_rng(seed)
    first = np.concatenate([rng.normal(size=(hidden, width)) / math.sqrt(width), rng.normal(size=(hidden, 1))], axis=1)
    second = np.concatenate(
        [rng.normal(size=(hidden, hidden)) / math.sqrt(hidden), rng.normal(size=(hidden, 1))], axis=1
    )
    return np.concatenate([first.ravel(), second.ravel(), np.zeros(hidden + 1)])


@dataclass(frozen=True)
class _Inputs:
    """How distances from the largest logit become inputs of the network: log(1 + d/scale), clipped, standardised."""

    scale: float
    low: Float64
    high: Float64
    mean: Float64
    spread: Float64

    @property
    def width(self) -> int:
        return len(self.low)

    @property
    def arrays(self) -> tuple[float, Float64, Float64, Float64, Float64]:
        return self.scale, self.low, self.high, self.mean, self.spread

    @classmethod
    def of(cls, rows: Rows, width: int) -> _Inputs:
        """Three passes: their mean size, their range, their mean and spread."""
        total, weight = rows.sums(_gap_sums, 2)
        scale = float(total / weight) if total > 0 else 1.0
        empty = np.stack([np.full(width, np.inf), np.full(width, -np.inf)])
        low, high = rows.fold(_gap_range, empty, _widen, scale)
        low, high = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
        sums = rows.sums(_gap_moments, (2, width), scale, low, high) / rows.weight
        # second moments around the range's middle, so that a nearly constant input loses no digits
        middle = (low + high) / 2
        spread = np.sqrt(np.maximum(sums[1] - sums[0] ** 2, 0.0))
        return cls(scale, low, high, middle + sums[0], np.where(spread > 1e-9, spread, 1.0))


def _widen(into: Float64, other: Float64) -> None:
    np.minimum(into[0], other[0], out=into[0])
    np.maximum(into[1], other[1], out=into[1])


@kernel
def _gaps(row: Any, gaps: Float64) -> int:
    """Write how far the next largest logits lie below the largest, in order; returns where the largest stands."""
    best = row_argmax(row)
    top = np.float64(row[best])
    width = gaps.shape[0]
    for j in range(width):
        gaps[j] = np.inf
    for c in range(row.shape[0]):
        gap = top - np.float64(row[c])
        if c != best and gap < gaps[width - 1]:
            j = width - 1
            while j > 0 and gaps[j - 1] > gap:
                gaps[j] = gaps[j - 1]
                j -= 1
            gaps[j] = gap
    return best


@kernel
def _gap_sums(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    """Add the gap to the second largest logit, and the weight of the rows that have one."""
    gaps = np.empty(1)
    for i in range(logits.shape[0]):
        _gaps(logits[i], gaps)
        if weights[i] > 0 and gaps[0] < np.inf:
            sums[0] += weights[i] * gaps[0]
            sums[1] += weights[i]


@kernel
def _gap_range(logits: Logits, labels: Labels, weights: Weights, bounds: Float64, scale: float) -> None:
    """Least and greatest log(1 + gap/scale); masked classes do not count."""
    gaps = np.empty(bounds.shape[1])
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            _gaps(logits[i], gaps)
            for j in range(gaps.shape[0]):
                if gaps[j] < np.inf:
                    x = math.log1p(gaps[j] / scale)
                    bounds[0, j] = min(bounds[0, j], x)
                    bounds[1, j] = max(bounds[1, j], x)


@kernel
def _gap_moments(
    logits: Logits, labels: Labels, weights: Weights, sums: Float64, scale: float, low: Float64, high: Float64
) -> None:
    gaps = np.empty(low.shape[0])
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            _gaps(logits[i], gaps)
            for j in range(gaps.shape[0]):
                x = min(max(math.log1p(gaps[j] / scale), low[j]), high[j]) - (low[j] + high[j]) / 2.0
                sums[0, j] += weights[i] * x
                sums[1, j] += weights[i] * x * x


@kernel
def _network(
    row: Any,
    scale: float,
    low: Float64,
    high: Float64,
    mean: Float64,
    spread: Float64,
    hidden: int,
    network: Float64,
    x: Float64,
    first: Float64,
    second: Float64,
) -> float:
    """g of one row; leaves its inputs and the values of both hidden layers in `x`, `first` and `second`."""
    width = x.shape[0]
    _gaps(row, x)
    for j in range(width):
        x[j] = (min(max(math.log1p(x[j] / scale), low[j]), high[j]) - mean[j]) / spread[j]
    at = 0
    for h in range(hidden):
        a = network[at + width]
        for j in range(width):
            a += network[at + j] * x[j]
        first[h] = math.tanh(a)
        at += width + 1
    for h in range(hidden):
        a = network[at + hidden]
        for j in range(hidden):
            a += network[at + j] * first[j]
        second[h] = math.tanh(a)
        at += hidden + 1
    g = network[at + hidden]
    for h in range(hidden):
        g += network[at + h] * second[h]
    return float(min(max(g, -LARGEST), LARGEST))


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
        g = _network(row, scale, low, high, mean, spread, hidden, network, x, first, second)
        sharp = beta * math.exp(-g)
        s0, s1, q0, q1, q2 = moments(row, sharp)
        m = s1 / s0
        a = q0 / (s0 * s0)
        b = q1 / (s0 * s0)
        own = max(sharp * (np.float64(row[labels[i]]) - row_max(row)), MASKED)
        p = exp(own) / s0
        down = -2.0 * w * (b - m * a - p * (own - m))
        bends[held] = 2.0 * w * max(q2 / (s0 * s0) - 2.0 * m * b + m * m * a, 0.0)
        _slopes(hidden, network, x, first, second, slopes[held])
        sums[0, 0] += w * (a - 2.0 * p + 1.0)
        sums[1, 0] += w
        for r in range(size):
            sums[0, 1 + r] += down * slopes[held, r]
        held += 1
        if held == GROUP:
            _add_squares(slopes, bends, sums)
            held = 0
    bends[held:] = 0.0
    _add_squares(slopes, bends, sums)


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
def _slopes(hidden: int, network: Float64, x: Float64, first: Float64, second: Float64, slope: Float64) -> None:
    """The slope of g in every weight."""
    width, size = x.shape[0], network.shape[0]
    last = size - hidden - 1
    middle = last - hidden * (hidden + 1)
    slope[size - 1] = 1.0
    for j in range(hidden):
        slope[last + j] = second[j]
        back = network[last + j] * (1.0 - second[j] * second[j])
        at = middle + j * (hidden + 1)
        for i in range(hidden):
            slope[at + i] = back * first[i]
        slope[at + hidden] = back
    for i in range(hidden):
        back = 0.0
        for j in range(hidden):
            back += network[middle + j * (hidden + 1) + i] * slope[middle + j * (hidden + 1) + hidden]
        back *= 1.0 - first[i] * first[i]
        at = i * (width + 1)
        for k in range(width):
            slope[at + k] = back * x[k]
        slope[at + width] = back


@kernel
def _add_squares(slopes: Float64, bends: Float64, sums: Float64) -> None:
    """Add bend·slope·slopeᵀ of a group of rows to the upper half of the curvature."""
    size = slopes.shape[1]
    for r in range(size):
        v0, v1 = bends[0] * slopes[0, r], bends[1] * slopes[1, r]
        v2, v3 = bends[2] * slopes[2, r], bends[3] * slopes[3, r]
        v4, v5 = bends[4] * slopes[4, r], bends[5] * slopes[5, r]
        v6, v7 = bends[6] * slopes[6, r], bends[7] * slopes[7, r]
        for c in range(r, size):
            sums[1 + r, 1 + c] += (
                v0 * slopes[0, c]
                + v1 * slopes[1, c]
                + v2 * slopes[2, c]
                + v3 * slopes[3, c]
                + v4 * slopes[4, c]
                + v5 * slopes[5, c]
                + v6 * slopes[6, c]
                + v7 * slopes[7, c]
            )


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
        g = _network(logits[i], scale, low, high, mean, spread, hidden, network, x, first, second)
        out[i] = beta * math.exp(-g)
