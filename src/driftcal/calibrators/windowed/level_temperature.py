"""Level matching: the perturbation level that a window resembles picks the temperature.

Each perturbation level has its own temperature and its own mean of a label-free statistic. At use, the mean over a window is
looked up between those of the levels. Where the levels reach chance, as Gaussian noise does, the look-up ends where accuracy
has fallen 60 % of the way. At chance temperatures are infinite, and noise is among the worst shifts: lower levels would ask for
less confidence than other shifts deserve. benchmarks/notebook/beyond.md has the measurements.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from driftcal.calibrators.base import FitInputs, FitReport, LogitCalibrator, refuse_features
from driftcal.calibrators.export_maps.windowed_map import InterpolatedTemperature, WindowedMap
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.levels import split_by_level
from driftcal.calibrators.scaling.first_pass import check_nll_optimum, first_pass, mean_first_pass
from driftcal.calibrators.scaling.minimise_in_beta import minimise_in_beta
from driftcal.calibrators.scaling.temperature import fit_nll, min_beta, nll_sums
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel, row_max
from driftcal.drift.label_free_statistics import check_statistic, data_statistic, sample_statistic
from driftcal.drift.level_scale import LevelScale, interpolate_levels
from driftcal.errors import NoFiniteOptimum
from driftcal.types import Float64, Labels, Logits, Weights

#: A window is matched at most with the level where accuracy has fallen this share of the way from clean to chance.
MAX_FALL = 0.6
#: Levels reach chance if accuracy falls at least this share of the way.
REACHES_CHANCE = 0.9
#: The mean of fewer samples varies over several perturbation levels: such windows get the per-sample form.
MIN_WINDOW = 20
#: The weight of the clean level in the per-sample form; the others up to the last used one share the rest.
CLEAN_WEIGHT = 0.5


class LevelTemperatureScaling(WindowedCalibrator):
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

    min_window = MIN_WINDOW
    fitted = {
        "temperature_": FittedArray(positive=True),
        "temperatures_": FittedArray("levels", positive=True),
        "statistics_": FittedArray("levels"),
        "accuracies_": FittedArray("levels"),
        "last_level_": FittedArray(),
    }
    statistics_: Float64
    accuracies_: Float64
    last_level_: float

    def __init__(
        self, *, statistic: str = "margin", t_max: float | None = None, classes: Sequence[Any] | None = None
    ) -> None:
        self.statistic = statistic
        self.t_max = t_max
        self.classes = classes

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

    def _check_params(self) -> None:
        check_statistic(self.statistic)
        min_beta(self.t_max)

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

    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        refuse_features(self, inputs.features, inputs.reference)
        by_level = split_by_level(data, inputs.levels)
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
