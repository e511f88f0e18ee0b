"""Multi-domain temperature scaling: the temperature of each domain, foretold from the model's features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import solve

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.levels import split_by_level
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator, row_losses
from driftcal.calibrators.scaling.temperature import fit_nll
from driftcal.calibrators.scaling.vector import positive
from driftcal.core.dataset import LabelledLogits
from driftcal.errors import NoFiniteOptimum
from driftcal.types import AnyArray, Array, Float64, Logits


class MultiDomainTemperatureScaling(FeatureCalibrator):
    """A temperature for each row, learnt from the temperatures of whole domains: log T = w·φ + b, q = softmax(z / T).

    Each domain, here each level of the noise ladder (`levels`), has its own best temperature by likelihood. w and b are
    the ridge regression of its logarithm on the features φ of the domain's rows, with `ridge` on ‖w‖²; T is kept within
    what the domains showed. Domains without a best temperature are left out, and the report says so; `t_max` caps theirs.
    Raises `NoFiniteOptimum` where none has one. Weights count rows.
    Yu, Bates, Ma and Jordan 2022 (Robust calibration with multi-domain temperature scaling), section 3.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> features = np.vstack([rng.normal([5, 0], 1, (300, 2)), rng.normal([0, 5], 1, (300, 2))])
    >>> logits, levels = rng.normal(size=(600, 3)) * 3, np.repeat([0, 1], 300)
    >>> y = np.where(rng.random(600) < np.where(levels, 0.3, 0.9), logits.argmax(axis=1), rng.integers(0, 3, 600))
    >>> md = MultiDomainTemperatureScaling().fit(logits, y, features=features, levels=levels)
    >>> bool(md.temperatures([[0.0, 5.0]])[0] > 2 * md.temperatures([[5.0, 0.0]])[0])
    True
    """

    counts_rows = True
    fitted = ("coefficients_", "intercept_", "range_", "widths_")

    def __init__(self, *, ridge: float = 1.0, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.ridge = ridge
        self.t_max = t_max
        self.classes = classes

    def _fit_features(
        self, rows: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        ridge = positive(self.ridge, "ridge", 1.0)
        before = row_losses(rows, np.ones(rows.n))
        weights = before[:, 0]
        by_level = split_by_level(rows, levels)
        numbers = np.zeros(rows.n) if levels is None else np.asarray(levels).reshape(-1)
        targets, passes, left_out = np.full(rows.n, np.nan), 1, []
        for number, level_data in zip(np.unique(numbers[weights > 0]), by_level, strict=True):
            try:
                beta, report = fit_nll(level_data, self.t_max)
            except NoFiniteOptimum:
                left_out.append(f"{number:g}")
                if len(left_out) == len(by_level):
                    raise
                continue
            targets[numbers == number] = -math.log(beta)
            passes += report.passes
        taken = ~np.isnan(targets) & (weights > 0)
        self.coefficients_, self.intercept_ = _ridge(
            features[taken], targets[taken], weights[taken], ridge * rows.weight / rows.count
        )
        self.range_ = np.array([targets[taken].min(), targets[taken].max()])
        after = row_losses(rows, self._row_temperatures(features, None))
        warnings = (f"levels without a best temperature were left out: {', '.join(left_out)}",) if left_out else ()
        first, last = (float(weights @ found[:, 1]) / rows.weight for found in (before, after))
        return FitReport("nll", first, last, passes + 1, warnings=warnings)

    def _row_temperatures(self, features: Array, logits: Logits | None) -> Float64:
        wanted = features.astype(np.float64) @ self.coefficients_ + self.intercept_
        temperatures: Float64 = np.exp(np.clip(wanted, *self.range_))
        return temperatures

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"coefficients_": (sum(self.widths),), "intercept_": (), "range_": (2,)}


def _ridge(features: Array, targets: Float64, weights: Float64, ridge: float) -> tuple[Float64, float]:
    """Weighted ridge regression; the constant is free."""
    mean, middle = np.average(features, axis=0, weights=weights), float(np.average(targets, weights=weights))
    centred = features - mean
    gram = centred.T @ (centred * weights[:, None]) + ridge * np.eye(centred.shape[1])
    slopes: Float64 = solve(gram, centred.T @ (weights * (targets - middle)), assume_a="pos")
    return slopes, middle - float(mean @ slopes)
