"""Windowed temperature scaling: a window's accuracy is estimated without labels and sets its temperature."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from driftcal.calibrators.base import FitInputs, FitReport, LogitCalibrator, refuse_features
from driftcal.calibrators.export_maps.windowed_map import RegressedTemperature, WindowedMap
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.levels import number_levels
from driftcal.calibrators.scaling.temperature import fit_nll, min_beta
from driftcal.calibrators.windowed.level_temperature import tied_accuracy
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator, sum_statistics
from driftcal.core.dataset import LabelledLogits
from driftcal.core.passes import map_blocks
from driftcal.drift.accuracy_regression import AccuracyRegression
from driftcal.drift.training_windows import ConditionSamples, draw_windows
from driftcal.drift.window_statistics import FEATURES, WindowStatistics, sample_scores
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64, Logits

#: At most this many samples of a condition are drawn into training windows; evenly over labels and confidence.
MAX_SAMPLES = 4000
#: log T moves half-way from the per-sample form to the window's when the window has this many samples more than one.
HALF_SIZE = 4.0
#: It moves back half-way where the features lie this far outside the range of training, in training standard deviations.
HALF_EXCESS = 1.0
#: It moves half-way where the estimated log-odds are this many standard errors from those of clean samples, so that
#: sampling error alone hardly moves it.
HALF_DISTANCE = 1.0
#: No more than this counts as the accuracy on clean samples: its log-odds stay finite.
MAX_ACCURACY = 0.999

#: Scores of samples that agree in so many digits after the point are equal up to rounding.
_DIGITS = 9
#: What a masked class has as its difference to the top logit.
_LARGEST = 745.0

_REGRESSION = ("centre", "scale", "coefficients", "low", "high", "noise")


@dataclass(frozen=True)
class AccuracyEstimate:
    """The estimated accuracy of a window, its 90 % interval, and whether the window is unlike all simulated shifts.

    Parameters
    ----------
    accuracy
        The estimated share of correct predictions.
    low, high
        The 90 % interval of that share.
    excess
        How far the features of the window lie outside the range of training, in standard deviations of training. Above 1
        the estimate extrapolates, and the confidence is closer to that of the per-sample form.
    """

    accuracy: float
    low: float
    high: float
    excess: float

    @property
    def extrapolates(self) -> bool:
        """Whether the window lies outside the range of training."""
        return self.excess > HALF_EXCESS


class WindowedTemperatureScaling(WindowedCalibrator):
    """A temperature for each window, such that mean confidence equals the accuracy that label-free statistics suggest.

    Fitted on clean samples and on simulated shifts, level by level. Windows of labelled samples are drawn from each level
    under changed class shares. Ridge regression of logit(accuracy) on the statistics of the windows estimates the accuracy of
    an unlabelled window (Deng & Zheng 2021); T follows by expectation consistency (Clarté et al. 2023). log T stays near the
    per-sample form, temperature scaling on the clean samples, for windows of few samples, for windows whose estimate is
    within its error of the accuracy on clean samples, and outside the range of training. Fitted without `levels` it is temperature scaling.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> def logits_and_labels(signal):
    ...     y, z = rng.integers(0, 4, 800), rng.normal(size=(800, 4))
    ...     z[np.arange(800), y] += signal
    ...     return 3 * z, y
    >>> parts = [logits_and_labels(signal) for signal in (4, 3, 2, 1)]
    >>> z, y = (np.concatenate(part) for part in zip(*parts))
    >>> fitted = WindowedTemperatureScaling().fit(z, y, levels=np.repeat([0, 1, 2, 3], 800))
    >>> fitted.adapt(z[:100]).temperature_ < fitted.adapt(z[-100:]).temperature_
    True
    """

    min_window = 1
    uses_families = True
    fitted = {
        "temperature_": FittedArray(positive=True),
        "odds_threshold_": FittedArray(),
        "entropy_threshold_": FittedArray(),
        "class_shares_": FittedArray("classes", low=0, high=1),
        **{f"{name}_": FittedArray("features") for name in _REGRESSION},
        "coefficients_": FittedArray("terms"),
        "error_": FittedArray(low=0),
        "clean_log_odds_": FittedArray(),
        "follows_": FittedArray(low=0, high=1),
    }

    temperature_: float
    odds_threshold_: float
    entropy_threshold_: float
    class_shares_: Float64
    centre_: Float64
    scale_: Float64
    coefficients_: Float64
    low_: Float64
    high_: Float64
    noise_: Float64
    error_: float
    #: The log-odds of the accuracy on clean samples.
    clean_log_odds_: float
    #: 1 if the calibrator was fitted on shifted samples, else 0: then every window gets the per-sample form.
    follows_: float

    def __init__(self, *, t_max: float | None = None, classes: Sequence[Any] | None = None) -> None:
        self.t_max = t_max
        self.classes = classes

    def _check_params(self) -> None:
        min_beta(self.t_max)

    def _check_fitted(self) -> None:
        n_features = len(FEATURES)
        if len(self.centre_) != n_features or len(self.coefficients_) != 1 + n_features * (n_features + 3) // 2:
            raise ValueError(f"centre_ must have {n_features} features, and coefficients_ all their products")
        if not (self.scale_ > 0).all() or not (self.class_shares_ > 0).any():
            raise ValueError("scale_ must be positive, and class_shares_ must not all be 0")

    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        refuse_features(self, inputs.features, inputs.reference)
        by_level = number_levels(data, inputs.levels)
        beta, report = fit_nll(by_level[0], self.t_max)
        self.temperature_ = float(1 / beta)
        logits, _, weights = by_level[0].arrays()
        accuracy = tied_accuracy(by_level[0])
        statistics = WindowStatistics.of_clean(
            logits, self.temperature_, accuracy, np.ones(len(logits)) if weights is None else weights
        )
        self.odds_threshold_, self.entropy_threshold_ = statistics.odds_threshold, statistics.entropy_threshold
        self.class_shares_ = statistics.class_shares
        regression = self._regression(statistics, by_level, inputs.families)
        self.follows_ = float(len(by_level) > 1)
        for name in _REGRESSION:
            setattr(self, f"{name}_", getattr(regression, name))
        self.error_ = regression.error
        clean_accuracy = min(max(accuracy, 1 - MAX_ACCURACY), MAX_ACCURACY)
        self.clean_log_odds_ = math.log(clean_accuracy / (1 - clean_accuracy))
        return report

    def _regression(
        self, statistics: WindowStatistics, by_level: dict[int, LabelledLogits], families: Sequence[str] | None
    ) -> AccuracyRegression:
        names = [str(level) for level in by_level] if families is None else _names(families, by_level)
        names[0] = "\0clean"  # clean samples are in every fold, whatever their family is called
        numbers = {name: k for k, name in enumerate(dict.fromkeys(names))}
        order = _class_order(statistics.class_shares, by_level[0])
        conditions = [_samples(statistics, data, order) for data in by_level.values()]
        windows = draw_windows(conditions, [numbers[name] for name in names])
        features = statistics.features(windows.sums)
        return AccuracyRegression.fit(features, windows.sizes, windows.accuracies, windows.conditions, windows.families)

    @property
    def statistic_names(self) -> tuple[str, ...]:
        """The names of the columns of `window_statistics`."""
        return self.statistics.names

    def window_statistics(self, logits: Logits) -> Float64:
        """(n, k): statistics of each sample; only their sums over a window matter."""
        return self.statistics.of_samples(logits)

    def calibrator_at(self, sums: Float64) -> LogitCalibrator:
        """Temperature scaling with the temperature of a window with these sums."""
        return self._temperature_scaling(float(self.temperature_at(sums)))

    def per_sample(self) -> LogitCalibrator:
        """Temperature scaling, fitted on the clean samples."""
        return self._temperature_scaling(self.temperature_)

    @property
    def follows_windows(self) -> bool:
        """Whether the calibrator was fitted on shifted samples."""
        return bool(self.follows_)

    def extrapolates(self, sums: Float64) -> bool:
        """Whether a window with these sums lies outside the shifts of the fit."""
        return bool(self.follows_windows and self._excess(sums) > HALF_EXCESS)

    def temperature_at(self, sums: Float64) -> Float64:
        """(...): the temperatures of windows with these sums (..., k)."""
        features = self.statistics.features(sums)
        accuracy = self._fitted_regression.accuracy(features)
        log_window = np.log(self.statistics.consistent_temperature(sums, accuracy))
        log_clean = np.log(self.temperature_)
        return np.asarray(np.exp(log_clean + self._weight(features, sums[..., 0]) * (log_window - log_clean)))

    def _weight(self, features: Float64, n_samples: Float64) -> Float64:
        """(...): how far log T moves from the clean temperature to the window's, 0 to 1."""
        regression = self._fitted_regression
        excess = regression.excess(features, n_samples) / HALF_EXCESS
        distance = regression.distance(features, n_samples, self.clean_log_odds_) / HALF_DISTANCE
        size = (n_samples - 1) / (n_samples - 1 + HALF_SIZE)
        return np.asarray(self.follows_ * size / (1 + excess**2) * (1 - 1 / (1 + distance**4)))

    def with_offset(self, offset: float) -> Self | None:
        """The intercept of the regression, log-odds of the accuracy, raised by `offset`; None if no window is followed."""
        if not self.follows_windows:
            return None
        moved = copy.copy(self)
        moved.coefficients_ = self.coefficients_.copy()
        moved.coefficients_[0] += offset
        return moved

    def windowed_map(self) -> WindowedMap:
        """The regression and its statistics, for the export."""
        temperature = RegressedTemperature(
            self.statistics,
            self._fitted_regression,
            self.clean_log_odds_,
            self.follows_,
            HALF_SIZE,
            HALF_EXCESS,
            HALF_DISTANCE,
        )
        return WindowedMap(
            temperature, self.temperature_, self.min_window, self.statistics.n_statistics, self.n_features_in_
        )

    def estimate_accuracy(self, window: AnyArray) -> AccuracyEstimate:
        """The estimated accuracy of a window of unlabelled logits, with its 90 % interval."""
        logits, _ = self._checked(window)
        return self.accuracy_at(sum_statistics(self.window_statistics(logits)))

    def accuracy_at(self, sums: Float64) -> AccuracyEstimate:
        """As `estimate_accuracy`, from the sums of a window.

        It is that of the regression. Log-odds that move away from the clean ones only with evidence, as log T does, have larger errors
        on simulated shifts that were left out: they are nearer to the clean accuracy where it is lost, on two of three networks.
        """
        regression = self._fitted_regression
        accuracy = regression.accuracy(self.statistics.features(sums))
        half_width = float(regression.half_width(accuracy, sums[..., 0]))
        value = float(accuracy)
        return AccuracyEstimate(
            value, max(0.0, value - half_width), min(1.0, value + half_width), float(self._excess(sums))
        )

    def _excess(self, sums: Float64) -> Float64:
        return self._fitted_regression.excess(self.statistics.features(sums), sums[..., 0])

    @property
    def statistics(self) -> WindowStatistics:
        """The statistics of samples, relative to the clean samples of the fit."""
        return WindowStatistics(self.temperature_, self.odds_threshold_, self.entropy_threshold_, self.class_shares_)

    @property
    def _fitted_regression(self) -> AccuracyRegression:
        return AccuracyRegression(**{name: getattr(self, f"{name}_") for name in _REGRESSION}, error=self.error_)


def _class_order(class_shares: Float64, clean: LabelledLogits) -> Array:
    """The classes from rare to frequent ones among the predictions: an order that does not depend on that of the columns."""
    _, labels, weights = clean.arrays()
    return np.lexsort((np.bincount(labels, weights, len(class_shares)), class_shares.round(_DIGITS)))


def _samples(statistics: WindowStatistics, data: LabelledLogits, class_order: Array) -> ConditionSamples:
    """The samples of a condition, at most `MAX_SAMPLES`, in an order that does not depend on theirs or on that of the columns.

    A label is the position of the class in `class_order`.
    """
    logits, columns, weights = data.arrays()
    labels = np.argsort(class_order)[columns]
    weights = np.ones(len(labels)) if weights is None else weights
    scores = sample_scores(logits, statistics.temperature).round(_DIGITS)  # equal up to rounding is equal
    tie_break = _tie_break(logits, statistics.temperature, class_order).round(_DIGITS)
    order = np.lexsort((tie_break, *scores.T, labels))
    if len(order) > MAX_SAMPLES:
        cumulative = np.cumsum(weights[order])
        middles = (np.arange(MAX_SAMPLES) + 0.5) / MAX_SAMPLES * cumulative[-1]
        order = order[np.searchsorted(cumulative, middles)]
        weights = np.ones(len(weights))  # drawn evenly by weight
    chosen, chosen_columns = logits[order], columns[order]
    is_top = chosen == chosen.max(axis=1, keepdims=True)
    correct = is_top[np.arange(len(order)), chosen_columns] / is_top.sum(axis=1)  # as in `tied_accuracy`
    return ConditionSamples(statistics.of_samples(chosen), labels[order], correct, weights[order])


def _tie_break(logits: Logits, temperature: float, class_order: Array) -> Float64:
    """A number that tells samples with the same scores in other columns apart."""
    factors = np.random.default_rng(0).random(len(class_order))[np.argsort(class_order)]

    def write(block: Logits, out: Float64) -> None:
        with np.errstate(over="ignore"):
            differences = (block - block.max(axis=1, keepdims=True)) / temperature
        out[:, 0] = np.maximum(differences, -_LARGEST) @ factors

    return map_blocks(write, logits, 1)[:, 0]


def _names(families: Sequence[str], by_level: dict[int, LabelledLogits]) -> list[str]:
    if isinstance(families, str) or not hasattr(families, "__len__") or len(families) <= max(by_level):
        raise InputError(
            f"families must name the shift of each of the levels 0..{max(by_level)}; it is {families!r}. "
            "Pass one name per level, or leave it out."
        )
    return [str(families[level]) for level in by_level]
