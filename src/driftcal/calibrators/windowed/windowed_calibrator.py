"""The protocol of calibrators that follow a window of unlabelled logits.

They are fitted once, on labelled samples of several perturbation levels. Afterwards a window of unlabelled logits says how far
the data have shifted. `predict_proba` looks at each sample alone and uses the per-sample form; `windowed` follows the inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from driftcal.calibrators.base import Calibrator, FitInputs, FitReport, LogitCalibrator, refuse_features
from driftcal.calibrators.levels import split_by_level
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.core.dataset import LabelledLogits
from driftcal.types import AnyArray, Float64, Logits

if TYPE_CHECKING:
    from driftcal.calibrators.windowed.windowed_predictor import WindowedPredictor

#: Samples in a window by default.
WINDOW_SIZE = 100
#: The mean of fewer samples varies over several perturbation levels: such windows get the per-sample form.
MIN_WINDOW = 20


class WindowedCalibrator(Calibrator):
    """A calibrator that adapts to a window of unlabelled logits; it never changes the predicted class."""

    keeps_accuracy = True
    needs_levels = True
    needs_window = True

    @abstractmethod
    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        """Fit on the samples of each perturbation level, the clean ones first."""

    @abstractmethod
    def _adapted(self, window: Logits) -> LogitCalibrator:
        """The calibrator for a checked window of at least `MIN_WINDOW` samples."""

    @abstractmethod
    def per_sample(self) -> LogitCalibrator:
        """The calibrator for inputs without a window, fitted on all levels."""

    def adapt(self, window: AnyArray) -> LogitCalibrator:
        """A calibrator for data like this window of unlabelled logits. It no longer changes; it can be saved and exported."""
        logits, _ = self._checked(window)
        return self._adapted(logits) if len(logits) >= MIN_WINDOW else self.per_sample()

    def windowed(self, window_size: int = WINDOW_SIZE) -> WindowedPredictor:
        """An object that predicts batch after batch and follows the last `window_size` samples."""
        from driftcal.calibrators.windowed.windowed_predictor import WindowedPredictor

        return WindowedPredictor(self, window_size)

    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        refuse_features(self, inputs.features, inputs.reference)
        return self._fit_levels(split_by_level(data, inputs.levels))

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
