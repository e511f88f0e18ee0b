"""Level matching: the perturbation level that a window resembles picks the temperature, the accuracy or the isotonic curve.

Each perturbation level has its own temperature (or accuracy, or curve) and its own mean of a label-free statistic. At use, the
mean over a window is looked up between those of the levels. Where the levels reach chance, as Gaussian noise does, the look-up
ends where accuracy has fallen 60 % of the way. At chance temperatures are infinite, and noise is among the worst shifts: lower
levels would ask for less confidence than other shifts deserve. benchmarks/notebook/beyond.md has the measurements.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from driftcal.calibrators.base import FitInputs, FitReport, LogitCalibrator, refuse_features
from driftcal.calibrators.export_maps.windowed_map import InterpolatedTemperature, WindowedMap
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.levels import split_by_level
from driftcal.calibrators.nonparametric.isotonic import IsotonicRegressionMulticlass, check_starts
from driftcal.calibrators.nonparametric.kernels.isotonic_fit import fit_curves
from driftcal.calibrators.scaling.first_pass import check_nll_optimum, first_pass, mean_first_pass
from driftcal.calibrators.scaling.minimise_in_beta import minimise_in_beta
from driftcal.calibrators.scaling.temperature import fit_nll, min_beta, nll_sums
from driftcal.calibrators.windowed.expectation_consistency import (
    consistent_temperature,
    scaled_confidences,
    temperature_grid,
)
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_max
from driftcal.drift.label_free_statistics import check_statistic, data_statistic, sample_statistic
from driftcal.drift.level_scale import LevelScale, interpolate_levels
from driftcal.errors import NoFiniteOptimum
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: A window is matched at most with the level where accuracy has fallen this share of the way from clean to chance.
MAX_FALL = 0.6
#: Levels reach chance if accuracy falls at least this share of the way.
REACHES_CHANCE = 0.9
#: The mean of fewer samples varies over several perturbation levels: such windows get the per-sample form.
MIN_WINDOW = 20
#: The weight of the clean level in the per-sample form; the others up to the last used one share the rest.
CLEAN_WEIGHT = 0.5

_SCALE = {
    "statistics_": FittedArray("levels"),
    "accuracies_": FittedArray("levels"),
    "last_level_": FittedArray(),
}


class LevelMatchingCalibrator(WindowedCalibrator):
    """What level-matching calibrators share: the mean statistic of each level, and the position of a window between them."""

    min_window = MIN_WINDOW
    statistic: str
    statistics_: Float64
    accuracies_: Float64
    last_level_: float

    @abstractmethod
    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        """Fit on the samples of each perturbation level, the clean ones first."""

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """The count and the statistic that places a window between the levels."""
        return ("count", check_statistic(self.statistic))

    def window_statistics(self, logits: Logits) -> Float64:
        """(n, 2): 1 and the statistic of each sample."""
        return np.stack([np.ones(len(logits)), sample_statistic(self.statistic, logits)], axis=1)

    def extrapolates(self, sums: Float64) -> bool:
        """Whether the window lies beyond the last level that is used."""
        return self._position(sums) >= self.last_level_

    def position(self, window: Logits) -> float:
        """The position of a window of unlabelled logits between the levels: 0 is clean."""
        return self._position(self.window_sums(window))

    def _position(self, sums: Float64) -> float:
        return min(LevelScale.of(self.statistics_).position(float(sums[1] / sums[0])), self.last_level_)

    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        refuse_features(self, inputs.features, inputs.reference)
        return self._fit_levels(split_by_level(data, inputs.levels))

    def _check_params(self) -> None:
        check_statistic(self.statistic)

    def _check_fitted(self) -> None:
        if not 0 <= self.last_level_ <= len(self.statistics_) - 1:
            raise ValueError("last_level_ must lie between the levels")

    def _measure_levels(self, by_level: Sequence[LabelledLogits]) -> None:
        self.statistics_ = np.array([data_statistic(self.statistic, data) for data in by_level])
        self.accuracies_ = np.array([tied_accuracy(data) for data in by_level])
        self.last_level_ = last_used_level(self.accuracies_, 1 / by_level[0].n_classes)

    def _level_weights(self) -> Float64:
        """The weight of each level in the per-sample form."""
        used = math.ceil(self.last_level_) + 1
        weights = np.zeros(len(self.statistics_))
        weights[1:used] = (1 - CLEAN_WEIGHT) / max(1, used - 1)
        weights[0] = 1 - weights.sum()
        return weights


def tied_accuracy(data: LabelledLogits) -> float:
    """The accuracy if each of k tied largest logits is predicted with probability 1/k: the order of columns does not matter.

    >>> tied_accuracy(LabelledLogits([[0.0, 0.0, -1.0], [2.0, 0.0, 1.0]], [1, 0]))
    0.75
    """
    return float(data.reduce_sum(_tied_correct, 1)[0] / data.total_weight)


@kernel
def _tied_correct(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
    for i in range(logits.shape[0]):
        row = logits[i]
        top = row_max(row)
        if row[labels[i]] == top:
            n_tied = 0
            for c in range(row.shape[0]):
                n_tied += row[c] == top
            sums[0] += weights[i] / n_tied


def last_used_level(accuracies: Float64, chance: float) -> float:
    """The position where accuracy has fallen `MAX_FALL` of the way to chance; the last level if they stop before chance.

    >>> round(last_used_level(np.array([0.6, 0.5, 0.4, 0.3, 0.2, 0.1]), 0.1), 6)
    3.0
    >>> last_used_level(np.array([0.6, 0.5, 0.4, 0.3, 0.2]), 0.1)
    4.0
    """
    falling = np.minimum.accumulate(accuracies)
    last = float(len(accuracies) - 1)
    if falling[-1] > accuracies[0] - REACHES_CHANCE * (accuracies[0] - chance):
        return last
    target = accuracies[0] - MAX_FALL * (accuracies[0] - chance)
    below = np.flatnonzero(falling <= target)
    if not len(below) or below[0] == 0:
        return last
    k = int(below[0])
    return float(k - 1 + (falling[k - 1] - target) / (falling[k - 1] - falling[k]))


class _LevelTemperatures(LevelMatchingCalibrator):
    """A temperature for each level, and one for the per-sample form."""

    fitted = {
        "temperature_": FittedArray(positive=True),
        "temperatures_": FittedArray("levels", positive=True),
        **_SCALE,
    }

    def __init__(
        self, *, statistic: str = "margin", t_max: float | None = None, classes: Sequence[Any] | None = None
    ) -> None:
        self.statistic = statistic
        self.t_max = t_max
        self.classes = classes

    def _check_params(self) -> None:
        super()._check_params()
        min_beta(self.t_max)

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        self._measure_levels(by_level)
        betas, reports = _betas(by_level, self.t_max)
        self.temperatures_ = 1 / betas
        if len(by_level) == 1:
            self.temperature_ = float(self.temperatures_[0])
            return reports[0]
        weights = self._level_weights()
        # each level alone may have an optimum, or take its neighbour's, while all levels together have none
        check_nll_optimum(mean_first_pass(weights, [first_pass(data) for data in by_level]), self.t_max)

        def loss(beta: float) -> Sequence[float]:
            parts = [
                w * data.reduce_sum(nll_sums, 3, beta) / data.total_weight
                for w, data in zip(weights, by_level, strict=True)
                if w > 0
            ]
            return [float(part) for part in np.sum(parts, axis=0)]

        start = float(np.exp(weights @ np.log(betas)))
        best = minimise_in_beta(loss, start, min_beta(self.t_max))
        self.temperature_ = float(1 / best.beta)
        return FitReport("nll", loss(1.0)[0], best.value, best.passes + 2 + max(r.passes for r in reports))

    def per_sample(self) -> LogitCalibrator:
        """Temperature scaling with one temperature for all levels."""
        return self._temperature_scaling(self.temperature_)


class LevelTemperatureScaling(_LevelTemperatures):
    """A temperature for each perturbation level; log T is interpolated where a window lies between the levels.

    Level i has T_i (by NLL) and s_i, the mean over its samples of a label-free `statistic` (default: top logit minus second).
    A window with mean s lies where s lies between the running minima of s_i, at most 60 % of the way down to chance. The
    per-sample form is one temperature, fitted to all levels down to there, the clean one weighing as much as the others
    together. Fitted without `levels` it is temperature scaling.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean, noisy = rng.normal(size=(800, 4)) * 6, rng.normal(size=(800, 4)) * 3
    >>> y = (clean + rng.normal(size=(800, 4)) * 2).argmax(axis=1)
    >>> levels = np.repeat([0, 1], 800)
    >>> fitted = LevelTemperatureScaling().fit(np.vstack([clean, noisy + clean / 6]), np.tile(y, 2), levels=levels)
    >>> fitted.adapt(clean[:100]).temperature_ < fitted.adapt(noisy[:100]).temperature_
    True
    """

    def calibrator_at(self, sums: Float64) -> LogitCalibrator:
        """Temperature scaling with the window's temperature."""
        log_t = interpolate_levels(np.log(self.temperatures_), self._position(sums))
        return self._temperature_scaling(math.exp(log_t))

    def with_offset(self, offset: float) -> Self:
        """All temperatures, that of the per-sample form too, multiplied by exp(offset)."""
        moved = copy.copy(self)
        moved.temperature_ = self.temperature_ * math.exp(offset)
        moved.temperatures_ = self.temperatures_ * math.exp(offset)
        return moved

    def windowed_map(self) -> WindowedMap:
        """log T as a piecewise linear function of the mean statistic."""
        scale = LevelScale.of(self.statistics_)
        points, positions = scale.points
        # where the position passes a level, and where it stops, the function bends too
        bends = [b for b in (*range(len(self.statistics_)), self.last_level_) if positions[0] < b < positions[-1]]
        points = np.unique([*points, *np.interp(bends, positions, points)])
        if positions[0] > 0:  # a statistic that rises at first: the position jumps to 0 beyond the clean mean
            points = np.array([np.nextafter(points[0], -np.inf), *points])
        used = [min(scale.position(-point), self.last_level_) for point in points]
        log_t = np.interp(used, np.arange(len(self.temperatures_)), np.log(self.temperatures_))
        temperature = InterpolatedTemperature(check_statistic(self.statistic), points, log_t)
        return WindowedMap(temperature, self.temperature_, self.min_window, 2, self.n_features_in_)


class LevelExpectationConsistency(_LevelTemperatures):
    """The accuracy of the levels where a window lies; T makes the window's mean confidence equal to it.

    As `LevelTemperatureScaling`, but accuracy is interpolated between the levels, not log T. The temperature follows from the
    window itself (expectation consistency, Clarté et al. 2023), so logits of another scale than the levels' get the
    temperature they need. It is read from the window's mean confidences at fixed temperatures. Fitted without `levels` every
    window is given the clean accuracy.
    """

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """The count, the statistic that places a window between the levels, and the confidences at fixed temperatures."""
        grid = temperature_grid(self.temperature_)
        return (*super().statistic_names, *(f"confidence at temperature {t:.4g}" for t in grid))

    def window_statistics(self, logits: Logits) -> Float64:
        """(n, 2 + N_TEMPERATURES): 1, the statistic, and the confidences of each sample."""
        confidences = scaled_confidences(logits, temperature_grid(self.temperature_))
        return np.concatenate([super().window_statistics(logits), confidences], axis=1)

    def estimate_accuracy(self, window: Logits) -> float:
        """The estimated accuracy of a window of unlabelled logits."""
        return interpolate_levels(self.accuracies_, self.position(window))

    def calibrator_at(self, sums: Float64) -> LogitCalibrator:
        """Temperature scaling whose mean confidence on the window is the estimated accuracy."""
        accuracy = interpolate_levels(self.accuracies_, self._position(sums))
        grid = temperature_grid(self.temperature_)
        return self._temperature_scaling(consistent_temperature(sums[2:] / sums[0], accuracy, grid))


def _betas(by_level: Sequence[LabelledLogits], t_max: float | None) -> tuple[Float64, list[FitReport]]:
    """1/T of each level; a level without a finite optimum takes that of its nearest neighbour."""
    betas: dict[int, float] = {}
    reports, reasons = [], []
    for level, data in enumerate(by_level):
        try:
            betas[level], report = fit_nll(data, t_max)
            reports.append(report)
        except NoFiniteOptimum as reason:
            reasons.append(reason)
    if not betas:
        raise reasons[0]
    fitted_levels = np.array(list(betas))
    nearest = fitted_levels[np.abs(np.arange(len(by_level))[:, None] - fitted_levels).argmin(axis=1)]
    return np.array([betas[int(level)] for level in nearest]), reports


class LevelIsotonicRegression(LevelMatchingCalibrator):
    """An isotonic curve for all classes (IRM) per perturbation level, averaged where a window lies between two levels.

    As `LevelTemperatureScaling`, with curves in place of temperatures. The per-sample form is the mean of the curves down to the
    last used level, the clean one weighing as much as the others together. Fitted without `levels` it is IRM.
    """

    fitted = {
        "level_scores_": FittedArray("points"),
        "level_values_": FittedArray("points", low=0, high=1),
        "level_starts_": FittedArray("bounds", dtype=np.int64),
        **_SCALE,
    }

    def __init__(self, *, statistic: str = "margin", classes: Sequence[Any] | None = None) -> None:
        self.statistic = statistic
        self.classes = classes

    def _check_fitted(self) -> None:
        super()._check_fitted()
        check_starts("level_starts_", self.level_starts_, len(self.statistics_), len(self.level_scores_))

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        self._measure_levels(by_level)
        fits = [fit_curves(data, 1) for data in by_level]
        self.level_scores_ = np.concatenate([curve.scores for curve, _ in fits])
        self.level_values_ = np.concatenate([curve.values for curve, _ in fits])
        self.level_starts_: Array = np.cumsum([0, *(len(curve.scores) for curve, _ in fits)])
        weights = self._level_weights()
        before = sum(w * report.before for w, (_, report) in zip(weights, fits, strict=True))
        after = sum(w * report.after for w, (_, report) in zip(weights, fits, strict=True))
        return FitReport(fits[0][1].loss, float(before), float(after), fits[0][1].passes)

    def calibrator_at(self, sums: Float64) -> LogitCalibrator:
        """IRM with the curve of the window's place between the levels."""
        position = self._position(sums)
        low = min(int(position), len(self.statistics_) - 1)
        weights = np.zeros(len(self.statistics_))
        weights[low] = 1 - (position - low)
        if position > low:
            weights[low + 1] = position - low
        return self._mean_curve(weights)

    def per_sample(self) -> LogitCalibrator:
        """IRM with the mean curve of the used levels."""
        return self._mean_curve(self._level_weights())

    def _mean_curve(self, weights: Float64) -> LogitCalibrator:
        """IRM with the weighted mean of the levels' curves: linear between all their points, so exact."""
        parts = [
            (weight, slice(self.level_starts_[k], self.level_starts_[k + 1]))
            for k, weight in enumerate(weights)
            if weight > 0
        ]
        scores = np.unique(np.concatenate([self.level_scores_[part] for _, part in parts]))
        curves = [w * _interpolate(scores, self.level_scores_[part], self.level_values_[part]) for w, part in parts]
        calibrator = IsotonicRegressionMulticlass()
        calibrator.curve_scores_ = scores
        calibrator.curve_values_ = np.maximum.accumulate(np.sum(curves, axis=0))  # rounding must not let it fall
        calibrator.curve_starts_ = np.array([0, len(scores)])
        return self._as_fitted(calibrator)


def _interpolate(scores: Float64, points: Float64, values: Float64) -> Float64:
    """A curve at `scores`. Between denormal points the slope of ``np.interp`` overflows; a share of the step does not."""
    if len(points) == 1:
        return np.full(len(scores), values[0])
    above = np.clip(np.searchsorted(points, scores), 1, len(points) - 1)
    low, high = points[above - 1], points[above]
    share = np.clip((scores - low) / (high - low), 0, 1)
    interpolated: Float64 = values[above - 1] + share * (values[above] - values[above - 1])
    return interpolated
