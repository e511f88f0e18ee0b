"""Parameterized temperature scaling that also knows how far a row lies from the training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.kernels.network import LARGEST, check_settings, first_betas, network_size, network_start
from driftcal.calibrators.samplewise.dac import NeighbourCalibrator
from driftcal.calibrators.samplewise.feature_calibrator import row_losses
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.temperature import certify, survey
from driftcal.core.dataset import LabelledLogits
from driftcal.core.optimize import Surface, descend
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights

#: Rows whose slopes are held at once.
CHUNK = 1 << 15


class DensityAwareNetwork(NeighbourCalibrator):
    """A temperature for each row from its largest logits and its distance to the training data: T = T₀·exp(g(z, s)).

    g is the network of parameterized temperature scaling (two hidden layers of `hidden` tanh units). Beside the gaps between
    the `top` largest logits it sees s_l, the distance from the row's features in layer l to those of the `k`-th nearest
    row of `reference`, as density-aware calibration does. What it sees is clipped to what the tuning rows showed. Gaps tell
    how sure the model is, distances whether it has reason to be; neither tells the other. The network minimises the mean
    squared error against the labels plus (`decay`/n)·‖weights − start‖², from a start (drawn from `seed`) at which g = 0: so
    it never does worse than T₀, the one best temperature, on its tuning rows. Where T₀ makes all rows so sure that nothing can be
    learnt there, it starts from the likeliest temperature as well. Training ends where a step promises to lower
    the loss by less than the share `tol`. Weights count rows: n is their sum. The reference is kept, at most 256 MB.
    Raises `NoFiniteOptimum` where no temperature is best. Inputs after Tomani et al. 2022 (section 3) and 2023 (section 3).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> training, near, far = (rng.normal(centre, 1, (300, 2)) for centre in ([5, 0], [5, 0], [0, 5]))
    >>> logits = rng.normal(size=(600, 3)) * 3
    >>> y = np.where(np.arange(600) < 270, logits.argmax(axis=1), rng.integers(0, 3, 600))  # wrong far away
    >>> both = DensityAwareNetwork(k=10).fit(logits, y, features=np.vstack([near, far]), reference=training)
    >>> close, distant = both.temperatures([[5.0, 0.0], [0.0, 5.0]], logits[:1].repeat(2, axis=0))
    >>> bool(distant > 2 * close)
    True
    """

    counts_rows = True
    fitted = ("temperature_", "gap_scale_", "input_low_", "input_high_", "input_mean_", "input_spread_", "network_",
              "widths_", "reference_")  # fmt: skip

    def __init__(
        self,
        *,
        k: int = 50,
        top: int = 10,
        hidden: int = 5,
        decay: float = 1.0,
        tol: float = 1e-4,
        seed: int = 0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.k = k
        self.top = top
        self.hidden = hidden
        self.decay = decay
        self.tol = tol
        self.seed = seed
        self.classes = classes

    def _fit_features(
        self, rows: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        check_settings(self.top, self.hidden, self.decay, self.tol)
        self._keep(reference)
        seen = survey(rows, None)
        beta, _, passes = fit_brier(rows, seen, None)
        inputs = self._learn_inputs(rows, features)
        start = network_start(inputs.shape[1], int(self.hidden), self.seed)
        betas, more = first_betas(rows, beta)
        best, passes = np.inf, passes + more
        for sharp in betas:
            what = "density-aware network"
            network, value, asked = descend(self._surface(rows, inputs, start, sharp), start, what, promise=self.tol)
            passes += asked
            if value < best:
                best, self.network_, self.temperature_ = value, network, 1 / sharp
        away = self.network_ - start
        after = best - self.decay / rows.count * float(away @ away)
        certify("squared error", seen.brier, after)
        return FitReport("brier", seen.brier, after, passes + 3)

    def _surface(self, rows: LabelledLogits, inputs: Float64, start: Float64, beta: float) -> Surface:
        """The loss of a network, its slope and its curvature, Gauss's and Newton's."""
        return lambda network: self._loss(rows, inputs, network, network - start, beta)

    def _loss(
        self, rows: LabelledLogits, inputs: Float64, network: Float64, away: Float64, beta: float
    ) -> tuple[float, Float64, Float64]:
        g = np.concatenate([network_values(part, network, int(self.hidden)) for part in _parts(inputs)])
        weight, _, error, down, bend = row_losses(rows, np.exp(g) / beta).T
        size, total, decay = len(network), rows.weight, self.decay * rows.weight / rows.count
        slope, curvature = 2 * decay * away, 2 * decay * np.eye(size)
        for k, part in enumerate(_parts(inputs)):
            here = slice(k * CHUNK, k * CHUNK + len(part))
            slopes = network_gradients(part, network, int(self.hidden))
            slope += (weight * down)[here] @ slopes
            curvature += slopes.T @ ((weight * bend)[here, None] * slopes)
        value = float(weight @ error) + decay * float(away @ away)
        return value / total, slope / total, curvature / total

    def _learn_inputs(self, rows: LabelledLogits, features: Array) -> Float64:
        """What the network sees of the tuning rows; their range, means and spreads are kept."""
        width = min(int(self.top), rows.n_classes) - 1
        gaps, weights = np.zeros((rows.n, width)), np.zeros(rows.n)

        def visit(logits: Logits, labels: Labels, weight: Weights, start: int) -> None:
            here = slice(start, start + len(labels))
            weights[here] = weight
            gaps[here] = np.where(weight[:, None] > 0, top_gaps(np.where(weight[:, None] > 0, logits, 0), width), 0)

        rows.for_each_block(visit)
        finite = np.where(np.isfinite(gaps[:, 0]), weights, 0)
        total = float(finite @ np.where(finite > 0, gaps[:, 0], 0))
        self.gap_scale_ = total / float(finite.sum()) if total > 0 else 1.0
        raw = np.column_stack([np.log1p(gaps / self.gap_scale_), self._distances(features)])
        counts = (weights[:, None] > 0) & np.isfinite(raw)  # masked classes do not count
        low, high = np.where(counts, raw, np.inf).min(axis=0), np.where(counts, raw, -np.inf).max(axis=0)
        self.input_low_, self.input_high_ = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
        clipped = np.clip(raw, self.input_low_, self.input_high_)
        self.input_mean_ = np.average(clipped, axis=0, weights=weights)
        spread = np.sqrt(np.average((clipped - self.input_mean_) ** 2, axis=0, weights=weights))
        self.input_spread_ = np.where(spread > 1e-9, spread, 1.0)
        standard: Float64 = (clipped - self.input_mean_) / self.input_spread_
        return standard

    def _row_temperatures(self, features: Array, logits: Logits | None) -> Float64:
        if logits is None:
            raise InputError(
                "DensityAwareNetwork looks at logits beside features; there are none. Pass logits= of the same rows."
            )
        width = min(int(self.top), self.n_features_in_) - 1
        raw = np.column_stack([np.log1p(top_gaps(logits, width) / self.gap_scale_), self._distances(features)])
        inputs = (np.clip(raw, self.input_low_, self.input_high_) - self.input_mean_) / self.input_spread_
        temperatures: Float64 = self.temperature_ * np.exp(network_values(inputs, self.network_, int(self.hidden)))
        return temperatures

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        width = min(int(self.top), self.n_features_in_) - 1 + len(self.widths)
        inputs = dict.fromkeys(("input_low_", "input_high_", "input_mean_", "input_spread_"), (width,))
        network = (network_size(width, int(self.hidden)),)
        return {**super()._shapes(), **inputs, "gap_scale_": (), "network_": network}


def top_gaps(logits: Logits, width: int) -> Float64:
    """How far the next `width` largest logits of each row lie below its largest, in order.

    >>> top_gaps(np.array([[1.0, 5.0, 3.0, -np.inf]]), 3)
    array([[ 2.,  4., inf]])
    """
    ordered = -np.sort(-np.asarray(logits, np.float64), axis=1)[:, : width + 1]
    gaps: Float64 = ordered[:, :1] - ordered[:, 1:]
    return gaps


def network_layers(network: Float64, width: int, hidden: int) -> tuple[Float64, Float64, Float64]:
    """Both hidden layers, a unit per row with its constant last, and the output."""
    one, two = (width + 1) * hidden, (width + 1) * hidden + (hidden + 1) * hidden
    return network[:one].reshape(hidden, width + 1), network[one:two].reshape(hidden, hidden + 1), network[two:]


def network_values(inputs: Float64, network: Float64, hidden: int) -> Float64:
    """g of every row."""
    first, second, last = network_layers(network, inputs.shape[1], hidden)
    units = np.tanh(np.tanh(inputs @ first[:, :-1].T + first[:, -1]) @ second[:, :-1].T + second[:, -1])
    values: Float64 = np.clip(units @ last[:-1] + last[-1], -LARGEST, LARGEST)
    return values


def network_gradients(inputs: Float64, network: Float64, hidden: int) -> Float64:
    """The slope of g in every weight, row by row."""
    first, second, last = network_layers(network, inputs.shape[1], hidden)
    one = np.tanh(inputs @ first[:, :-1].T + first[:, -1])
    two = np.tanh(one @ second[:, :-1].T + second[:, -1])
    ones = np.ones((len(inputs), 1))
    back = last[:-1] * (1 - two**2)
    further = (back @ second[:, :-1]) * (1 - one**2)
    layers = ((further, np.hstack([inputs, ones])), (back, np.hstack([one, ones])))
    hidden_slopes = [(left[:, :, None] * right[:, None]).reshape(len(inputs), -1) for left, right in layers]
    return np.hstack([*hidden_slopes, two, ones])


def _parts(rows: Float64) -> list[Float64]:
    return [rows[low : low + CHUNK] for low in range(0, len(rows), CHUNK)]
