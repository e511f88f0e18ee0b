"""Density-aware calibration: the further from the training data, the less sure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator, row_losses
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.temperature import certify, survey
from driftcal.core.dataset import LabelledLogits
from driftcal.errors import DidNotConverge, InputError
from driftcal.types import AnyArray, Array, Float64, Logits

#: The temperature is no smaller than this share of the one best temperature.
FLOOR = 1e-3
#: Numbers in the reference that an artefact may hold: 256 MB of float32.
MOST_NUMBERS = 1 << 26
#: Rows times reference rows compared at once: 64 MB of float64.
CHUNK = 1 << 23
#: What may be left of the slope of the squared error in weights whose size is about 1.
SLOPE = 1e-6


class NeighbourCalibrator(FeatureCalibrator):
    """A calibrator that knows how far a row lies from training rows: to the `k`-th nearest, layer by layer."""

    needs_reference = True

    k: int
    reference_: Array

    def _keep(self, reference: Array | None) -> None:
        assert reference is not None
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or not 1 <= self.k <= len(reference):
            raise InputError(
                f"k must be a whole number from 1 to the {len(reference)} rows of reference; it is {self.k!r}. "
                "50 suits all of CIFAR-10, 10 one percent of ImageNet."
            )
        if reference.size > MOST_NUMBERS:
            raise InputError(
                f"reference may hold {MOST_NUMBERS:,} numbers, because the calibrator keeps it; it holds "
                f"{reference.size:,}. Take a random part of the training rows (1 % of ImageNet is enough), or fewer layers."
            )
        self.reference_ = np.ascontiguousarray(reference)

    def _distances(self, features: Array) -> Float64:
        edges = np.cumsum(self.widths)[:-1]
        layers = zip(np.split(features, edges, axis=1), np.split(self.reference_, edges, axis=1), strict=True)
        return np.stack([kth_distances(own, training, int(self.k)) for own, training in layers], axis=1)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        rows = len(self.reference_)
        if self.k > rows:
            raise ValueError("k must not be beyond the rows of reference_")
        return {"reference_": (rows, sum(self.widths))}


class DensityAwareCalibration(NeighbourCalibrator):
    """A temperature for each row by how far it lies from the training data: T = w₀ + Σ_l w_l·s_l, q = softmax(z / T).

    s_l is the distance from the row's features in layer l to those of the `k`-th nearest row of `reference`, features of
    training rows, all of length 1. The weights, none of them negative, minimise the squared error, starting from the one
    best temperature: it never does worse on its tuning rows. T is at least a thousandth of that temperature. Tuned on the
    levels of a noise ladder it is DAC-P. Log-probabilities are logits again: fit any other calibrator on them to stack it on
    top. The reference is kept, at most 256 MB. Raises `NoFiniteOptimum` where no temperature is best.
    Tomani et al. 2023 (Beyond in-domain scenarios: robust density-aware calibration), section 3.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> training, near, far = (rng.normal(centre, 1, (300, 2)) for centre in ([5, 0], [5, 0], [0, 5]))
    >>> logits = rng.normal(size=(600, 3)) * 3
    >>> y = np.where(np.arange(600) < 270, logits.argmax(axis=1), rng.integers(0, 3, 600))  # wrong far away
    >>> dac = DensityAwareCalibration(k=10).fit(logits, y, features=np.vstack([near, far]), reference=training)
    >>> close, distant = dac.temperatures([[5.0, 0.0], [0.0, 5.0]])
    >>> bool(distant > 3 * close)
    True
    """

    fitted = ("temperature_", "layer_weights_", "mean_distances_", "widths_", "reference_")

    def __init__(self, *, k: int = 50, classes: Sequence[Any] | None = None) -> None:
        self.k = k
        self.classes = classes

    def _fit_features(
        self, rows: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        self._keep(reference)
        seen = survey(rows, None)
        beta, _, passes = fit_brier(rows, seen, None)
        self.temperature_ = float(1 / beta)
        distances = self._distances(features)
        means = np.average(distances, axis=0, weights=row_losses(rows, np.ones(rows.n))[:, 0])
        self.mean_distances_ = np.where(means > 0, means, 1.0)
        self.layer_weights_, after, asked = _fit_weights(rows, self._inputs(distances), self.temperature_)
        certify("squared error", seen.brier, after)
        return FitReport("brier", seen.brier, after, passes + asked + 2)

    def _row_temperatures(self, features: Array, logits: Logits | None) -> Float64:
        temperatures: Float64 = self._inputs(self._distances(features)) @ self.layer_weights_
        return self.temperature_ * (FLOOR + temperatures)

    def _inputs(self, distances: Float64) -> Float64:
        """1 and the distances, relative to their means over the tuning rows, so that all weights are alike in size."""
        return np.column_stack([np.ones(len(distances)), distances / self.mean_distances_])

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        layers = len(self.widths)
        if (self.layer_weights_ < 0).any():
            raise ValueError("layer_weights_ must not be negative")
        return {**super()._shapes(), "layer_weights_": (layers + 1,), "mean_distances_": (layers,)}


def kth_distances(rows: Array, reference: Array, k: int) -> Float64:
    """The distance from each row to the `k`-th nearest reference row, all of length 1 or 0.

    >>> kth_distances(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]]), 2).round(3)
    array([1.414])
    """
    found = np.empty(len(rows))
    step = max(1, CHUNK // len(reference))
    training = reference.astype(np.float64)  # in float32 rounding would choose among near rows, everywhere differently
    halves = half_squares(training)
    for low in range(0, len(rows), step):
        part = rows[low : low + step].astype(np.float64)
        nearness = part @ training.T - halves
        kth = np.argpartition(nearness, len(reference) - k, axis=1)[:, len(reference) - k]
        # from the difference, because |a|² − 2·nearness has no digits left for near rows
        found[low : low + step] = np.linalg.norm(part - training[kth], axis=1)
    return found


def half_squares(reference: Array) -> Float64:
    """|b|²/2 of each reference row: |a − b|² = |a|² − 2·(a·b − |b|²/2), so the largest a·b − |b|²/2 is the nearest.

    Lengths are not quite 1 in float32, and those of rows without any feature are 0.
    """
    halves: Float64 = (reference.astype(np.float64) ** 2).sum(axis=1) / 2
    return halves


def _fit_weights(rows: LabelledLogits, inputs: Float64, temperature: float) -> tuple[Float64, float, int]:
    """Weights relative to `temperature`, none negative; the squared error they reach, and the passes."""

    def loss(weights: Float64) -> tuple[float, Float64]:
        share = FLOOR + inputs @ weights
        weight, _, error, slope, _ = row_losses(rows, temperature * share).T
        return float(weight @ error) / rows.weight, inputs.T @ (weight * slope / share) / rows.weight

    start = np.zeros(inputs.shape[1])
    start[0] = 1 - FLOOR
    bounds = [(0.0, None)] * len(start)
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 500, "maxfun": 1000}
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    left = np.abs(np.where(best.x > 0, best.jac, np.minimum(best.jac, 0.0))).max()
    if not left <= SLOPE:
        raise DidNotConverge(
            f"density-aware calibration did not settle in {best.nfev} passes; its slope stood at {left:.3g}. "
            "Are some logits or weights many orders of magnitude larger than the rest?"
        )
    return best.x, float(best.fun), int(best.nfev)
