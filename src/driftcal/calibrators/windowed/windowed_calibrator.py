"""The protocol of calibrators that follow a window of unlabelled logits.

They are fitted once, on labelled samples of several shifts. Afterwards the sums of a few label-free statistics over a window of
unlabelled logits say how far the data have shifted. `predict_proba` looks at each sample alone and uses the per-sample form;
`windowed` follows the inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from driftcal.calibrators.base import Calibrator, LogitCalibrator
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.errors import InputError
from driftcal.types import AnyArray, Float64, Logits

if TYPE_CHECKING:
    from driftcal.calibrators.export_maps.windowed_map import WindowedMap
    from driftcal.calibrators.windowed.windowed_predictor import WindowedPredictor

#: Samples in a window by default.
WINDOW_SIZE = 100
#: Windows that are kept by default, one per key; the least recently used one is dropped.
MAX_KEYS = 1000


class WindowedCalibrator(Calibrator):
    """A calibrator that adapts to a window of unlabelled logits; it never changes the predicted class.

    All that it reads of a window are the sums of `window_statistics` over its samples. So windows add, merge and slide, and an
    exported graph needs the sums only.
    """

    keeps_accuracy = True
    needs_levels = True
    needs_window = True
    #: A window of fewer samples gets the per-sample form.
    min_window: ClassVar[int]

    @property
    @abstractmethod
    def statistic_names(self) -> tuple[str, ...]:
        """The names of the columns of `window_statistics`; the first is "count"."""

    @abstractmethod
    def window_statistics(self, logits: Logits) -> Float64:
        """(n, k): statistics of each sample of checked logits (n, C). Column 0 is 1, so its sum is the number of samples."""

    @abstractmethod
    def calibrator_at(self, sums: Float64) -> LogitCalibrator:
        """The calibrator for a window of at least `min_window` samples with these sums (k,) of `window_statistics`."""

    @abstractmethod
    def per_sample(self) -> LogitCalibrator:
        """The calibrator for inputs without a window, fitted on all levels."""

    def extrapolates(self, sums: Float64) -> bool | None:
        """Whether a window with these sums lies outside the shifts of the fit; None if the calibrator cannot tell."""
        return None

    @property
    def follows_windows(self) -> bool:
        """Whether windows change the calibration; False for a fit that saw no shift, which gives each the per-sample form."""
        return True

    def with_offset(self, offset: float) -> Self | None:
        """This calibrator with one number moved by `offset`, which recalibration fits; None if it has no such number.

        The statistics of samples must not depend on that number, and 0 must change nothing.
        """
        return None

    def windowed_map(self) -> WindowedMap | None:
        """The fitted map from a window's sums to a temperature, in plain numbers; None if it cannot be exported."""
        return None

    def calibrator_for(self, sums: Float64) -> LogitCalibrator:
        """As `calibrator_at`, for any number of samples: the per-sample form below `min_window`."""
        return self.calibrator_at(sums) if sums[0] >= self.min_window else self.per_sample()

    def window_sums(self, window: AnyArray) -> Float64:
        """(k,): the sums of `window_statistics` over a window of unlabelled logits."""
        logits, _ = self._checked(window)
        return sum_statistics(self.window_statistics(logits))

    def adapt(self, window: AnyArray) -> LogitCalibrator:
        """A calibrator for data like this window of unlabelled logits. It no longer changes; it can be saved and exported."""
        return self.calibrator_for(self.window_sums(window))

    def windowed(self, window_size: int = WINDOW_SIZE, *, max_keys: int = MAX_KEYS) -> WindowedPredictor:
        """An object that predicts batch after batch and follows the last `window_size` samples, per key if keys are passed."""
        from driftcal.calibrators.windowed.windowed_predictor import WindowedPredictor

        return WindowedPredictor(self, window_size, max_keys=max_keys)

    def _predict(self, logits: Logits, features: AnyArray, *, log: bool) -> Float64:
        return self.per_sample()._predict(logits, features, log=log)

    def _as_fitted(self, calibrator: LogitCalibrator) -> LogitCalibrator:
        """A calibrator made from numbers, with the attributes that a fit would have left on it."""
        calibrator.classes_, calibrator.n_features_in_ = self.classes_, self.n_features_in_
        calibrator.fit_report_, calibrator.score_type_ = self.fit_report_, self.score_type_
        return calibrator

    def _temperature_scaling(self, temperature: float) -> LogitCalibrator:
        calibrator = TemperatureScaling()
        calibrator.temperature_ = float(temperature)
        return self._as_fitted(calibrator)


def sum_statistics(statistics: Float64) -> Float64:
    """The sums of each column, sample after sample: the order is fixed, so the same samples give the same bits.

    >>> sum_statistics(np.array([[1.0, 0.5], [1.0, 0.25]]))
    array([2.  , 0.75])
    """
    if not len(statistics):
        raise InputError("a window must hold at least one sample; it is empty. Wait for the first inputs.")
    sums: Float64 = np.add.reduce(np.ascontiguousarray(statistics), axis=0)
    return sums
