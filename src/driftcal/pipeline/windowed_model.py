"""A calibrated model that follows the shift of recent inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from driftcal.calibrators.windowed.windowed_predictor import WindowedPredictor
from driftcal.types import AnyArray, Array, LogProbs, Probs

if TYPE_CHECKING:
    from driftcal.pipeline.calibrated_model import CalibratedModel


class WindowedModel:
    """A calibrated model whose confidence depends on a window: the last samples, with those of the current batch.

    :meth:`CalibratedModel.windowed` makes one.
    """

    def __init__(self, calibrated: CalibratedModel, predictor: WindowedPredictor) -> None:
        self._calibrated, self._predictor = calibrated, predictor

    def __repr__(self) -> str:
        return f"WindowedModel({self._calibrated.model!r}, {self._predictor!r})"

    @property
    def window_size(self) -> int:
        """Samples in the window."""
        return self._predictor.window_size

    def predict_proba(self, X: AnyArray) -> Probs:
        """Calibrated probabilities of the next batch, after it was added to the window."""
        return self._predictor.predict_proba(self._calibrated.logits(X))

    def predict_log_proba(self, X: AnyArray) -> LogProbs:
        """Calibrated log-probabilities of the next batch, after it was added to the window."""
        return self._predictor.predict_log_proba(self._calibrated.logits(X))

    def predict(self, X: AnyArray) -> Array:
        """The most likely class of each input, as in `CalibratedModel.predict`: a window never changes it."""
        logits = self._calibrated.logits(X)
        self._predictor.predict_proba(logits)  # adds the batch to the window
        return self._calibrated.as_labels(logits.argmax(axis=1))
