"""Density-aware calibration: the farther a sample is from the training data, the lower is its confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.sample_temperatures import Neighbours, ScaledByDistance
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.samplewise.feature_calibrator import sample_losses
from driftcal.calibrators.samplewise.neighbours import NeighbourCalibrator
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.first_pass import checked_first_pass
from driftcal.core.dataset import LabelledLogits
from driftcal.core.optimize import Minimum
from driftcal.errors import DidNotConverge
from driftcal.types import AnyArray, Array, Float64, Logits

#: The temperature is at least this share of the best single temperature.
MIN_SHARE = 1e-3
#: The largest gradient of the squared error at the end of a fit. Weights are of the order of 1.
MAX_GRADIENT = 1e-6


class DensityAwareCalibration(NeighbourCalibrator):
    """A temperature per sample by its distance to the training data: T = w₀ + Σ_l w_l·s_l, q = softmax(z / T).

    s_l is the distance from the sample's features in layer l to those of the `k`-th nearest sample of `reference`, the
    features of training samples. All features have length 1. The weights are not negative and minimise the squared
    error. The fit begins at the best single temperature, so on its tuning samples it is never worse. T is at least a
    thousandth of that temperature. Tuned on perturbed samples the method is DAC-P. To combine it with another
    calibrator, fit that one on its log-probabilities. The reference is stored, at most 256 MB. The fit raises
    `NoFiniteOptimum` if no temperature is best. Tomani et al. 2023 (Beyond in-domain scenarios: robust density-aware
    calibration), section 3.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> training, near, far = (rng.normal(centre, 1, (300, 2)) for centre in ([5, 0], [5, 0], [0, 5]))
    >>> logits = rng.normal(size=(600, 3)) * 3
    >>> y = np.where(np.arange(600) < 270, logits.argmax(axis=1), rng.integers(0, 3, 600))  # incorrect far away
    >>> dac = DensityAwareCalibration(k=10).fit(logits, y, features=np.vstack([near, far]), reference=training)
    >>> close, distant = dac.temperatures([[5.0, 0.0], [0.0, 5.0]])
    >>> bool(distant > 3 * close)
    True
    """

    fitted = {
        "temperature_": FittedArray(positive=True),
        "layer_weights_": FittedArray("weights"),
        "mean_distances_": FittedArray("layers", positive=True),
        "widths_": FittedArray("layers", positive=True),
        "reference_": FittedArray("training", "features", dtype=np.float32),
    }

    def __init__(self, *, k: int = 50, classes: Sequence[Any] | None = None) -> None:
        self.k = k
        self.classes = classes

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if len(self.layer_weights_) != len(self.widths) + 1 or (self.layer_weights_ < 0).any():
            raise ValueError("layer_weights_ must hold one number per layer and one more, none negative")

    def _fit_features(
        self, data: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        self._set_reference(reference)
        first = checked_first_pass(data, None)
        single = fit_brier(data, first, None)
        self.temperature_ = float(1 / single.beta)
        distances = self._distances(features)
        weights = sample_losses(data, np.ones(data.n_samples)).weights
        means = np.average(distances, axis=0, weights=weights)
        self.mean_distances_ = np.where(means > 0, means, 1.0)
        best = _fit_weights(data, self._inputs(distances), self.temperature_)
        self.layer_weights_ = best.x
        certify("squared error", first.brier, best.value)
        return FitReport("brier", first.brier, best.value, single.passes + best.n_calls + 2)

    def _temperatures(self, features: Array, logits: Logits | None) -> Float64:
        relative: Float64 = self._inputs(self._distances(features)) @ self.layer_weights_
        return self.temperature_ * (MIN_SHARE + relative)

    def _inputs(self, distances: Float64) -> Float64:
        """1, and the distances divided by their means over the tuning samples: all weights then have a similar size."""
        return np.column_stack([np.ones(len(distances)), distances / self.mean_distances_])

    def export_map(self) -> ExportMap:
        """softmax(z / T) with T linear in the distances to neighbours."""
        constant, *slopes = self.temperature_ * self.layer_weights_
        scores = ScaledByDistance(
            Neighbours(self._references(), int(self.k)),
            np.array(slopes) / self.mean_distances_,
            float(constant + MIN_SHARE * self.temperature_),
        )
        return ExportMap(scores, layer_widths=self.widths)


def _fit_weights(data: LabelledLogits, inputs: Float64, temperature: float) -> Minimum:
    """The non-negative weights, relative to `temperature`, with the lowest squared error."""
    from scipy.optimize import minimize

    def loss(weights: Float64) -> tuple[float, Float64]:
        relative = MIN_SHARE + inputs @ weights
        losses = sample_losses(data, temperature * relative)
        gradient = inputs.T @ (losses.weights * losses.derivative / relative)
        return float(losses.weights @ losses.squared_error) / data.total_weight, gradient / data.total_weight

    start = np.zeros(inputs.shape[1])
    start[0] = 1 - MIN_SHARE
    bounds = [(0.0, None)] * len(start)
    options = {"ftol": 0.0, "gtol": 1e-10, "maxiter": 500, "maxfun": 1000}
    # scipy's L-BFGS-B, because `minimise_lbfgs` has no bounds
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    largest = np.abs(np.where(best.x > 0, best.jac, np.minimum(best.jac, 0.0))).max()
    if not largest <= MAX_GRADIENT:
        raise DidNotConverge(
            f"density-aware calibration did not converge in {best.nfev} passes; its gradient was {largest:.3g}. "
            "Are some logits or weights many orders of magnitude larger than the rest?"
        )
    return Minimum(best.x, float(best.fun), int(best.nfev))
