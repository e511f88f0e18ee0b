"""Multi-domain temperature scaling: a temperature predicted from layer features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.sample_temperatures import ScaledByRegression
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.levels import split_by_level
from driftcal.calibrators.parameters import check_positive
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator, sample_losses
from driftcal.calibrators.scaling.temperature import fit_nll, min_beta
from driftcal.core.dataset import LabelledLogits
from driftcal.errors import NoFiniteOptimum
from driftcal.types import AnyArray, Array, Float64, Logits


class MultiDomainTemperatureScaling(FeatureCalibrator):
    """A temperature per sample, learnt from the temperatures of whole domains: log T = w·φ + b, q = softmax(z / T).

    A domain is a perturbation level (`levels`). Temperature scaling on each domain gives its temperature. w and b are
    the ridge regression of its logarithm on the features φ of the samples, with the penalty `ridge`·‖w‖², which counts
    as samples. T is clipped to the range of the domains. Domains without a best temperature are left out, and the
    report has a warning; `t_max` caps temperatures instead. The fit raises `NoFiniteOptimum` if no domain has a best
    temperature. Yu, Bates, Ma and Jordan 2022 (Robust calibration with multi-domain temperature scaling), section 3.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> features = np.vstack([rng.normal([5, 0], 1, (300, 2)), rng.normal([0, 5], 1, (300, 2))])
    >>> logits, levels = rng.normal(size=(600, 3)) * 3, np.repeat([0, 1], 300)
    >>> y = np.where(rng.random(600) < np.where(levels, 0.3, 0.9), logits.argmax(axis=1), rng.integers(0, 3, 600))
    >>> md = MultiDomainTemperatureScaling().fit(logits, y, features=features, levels=levels)
    >>> bool(md.temperatures([[0.0, 5.0]])[0] > 2 * md.temperatures([[5.0, 0.0]])[0])
    True
    """

    needs_levels = True
    uses_sample_count = True
    fitted = {
        "coefficients_": FittedArray("features"),
        "intercept_": FittedArray(),
        "range_": FittedArray(2),
        "widths_": FittedArray("layers", positive=True),
    }

    def __init__(self, *, ridge: float = 1.0, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.ridge = ridge
        self.t_max = t_max
        self.classes = classes

    def _check_params(self) -> None:
        check_positive("ridge", self.ridge, 1.0)
        min_beta(self.t_max)

    def _check_fitted(self) -> None:
        if len(self.coefficients_) != sum(self.widths):
            raise ValueError("coefficients_ must hold one number per feature")

    def _fit_features(
        self, data: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        before = sample_losses(data, np.ones(data.n_samples))
        weights = before.weights
        by_level = split_by_level(data, levels)
        level_of_sample = np.zeros(data.n_samples) if levels is None else np.asarray(levels).reshape(-1)
        log_temperatures, passes, left_out = np.full(data.n_samples, np.nan), 1, []
        for level, level_data in zip(np.unique(level_of_sample[weights > 0]), by_level, strict=True):
            try:
                beta, report = fit_nll(level_data, self.t_max)
            except NoFiniteOptimum:
                left_out.append(f"{level:g}")
                if len(left_out) == len(by_level):
                    raise
                continue
            log_temperatures[level_of_sample == level] = -math.log(beta)
            passes += report.passes
        used = ~np.isnan(log_temperatures) & (weights > 0)
        ridge = self.ridge * data.total_weight / data.effective_n_samples
        self.coefficients_, self.intercept_ = _ridge(features[used], log_temperatures[used], weights[used], ridge)
        self.range_ = np.array([log_temperatures[used].min(), log_temperatures[used].max()])
        after = sample_losses(data, self._temperatures(features, None))
        warnings = (f"levels without a best temperature were left out: {', '.join(left_out)}",) if left_out else ()
        nll_before, nll_after = (float(weights @ losses.nll) / data.total_weight for losses in (before, after))
        return FitReport("nll", nll_before, nll_after, passes + 1, warnings=warnings)

    def _temperatures(self, features: Array, logits: Logits | None) -> Float64:
        log_t = features.astype(np.float64) @ self.coefficients_ + self.intercept_
        temperatures: Float64 = np.exp(np.clip(log_t, *self.range_))
        return temperatures

    def export_map(self) -> ExportMap:
        """softmax(z / T) with log T linear in the features."""
        low, high = (float(limit) for limit in self.range_)
        scores = ScaledByRegression(self.coefficients_, float(self.intercept_), low, high)
        return ExportMap(scores, layer_widths=self.widths)


def _ridge(features: Array, targets: Float64, weights: Float64, ridge: float) -> tuple[Float64, float]:
    """Weighted ridge regression; the constant has no penalty."""
    from scipy.linalg import solve

    mean, middle = np.average(features, axis=0, weights=weights), float(np.average(targets, weights=weights))
    centred = features - mean
    gram = centred.T @ (centred * weights[:, None]) + ridge * np.eye(centred.shape[1])
    slopes: Float64 = solve(gram, centred.T @ (weights * (targets - middle)), assume_a="pos")
    return slopes, middle - float(mean @ slopes)
