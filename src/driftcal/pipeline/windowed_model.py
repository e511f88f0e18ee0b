"""A calibrated model that follows the shift of recent inputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftcal.calibrators.windowed.windowed_predictor import Key, WindowedPredictor, WindowState
from driftcal.core.display import Displayed
from driftcal.decisions import Threshold, masked_labels
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, LogProbs, Probs

if TYPE_CHECKING:
    from driftcal.pipeline.calibrated_model import CalibratedModel


class WindowedModel(Displayed):
    """A calibrated model whose confidence depends on a window: the last samples, with those of the current batch.

    :meth:`CalibratedModel.windowed` makes one. Pass ``key=camera_id`` for one window per key, so that the inputs of one client do
    not change the confidence of another. Threads may share the object if the model allows it.
    """

    def __init__(self, calibrated: CalibratedModel, predictor: WindowedPredictor) -> None:
        self._calibrated, self._predictor = calibrated, predictor

    def __repr__(self) -> str:
        return f"WindowedModel({self._calibrated.model!r}, {self._predictor!r})"

    @property
    def window_size(self) -> int:
        """Samples in the window."""
        return self._predictor.window_size

    @property
    def keys(self) -> list[Key]:
        """The keys that have a window, the least recently used first."""
        return self._predictor.keys

    def predict_proba(self, X: AnyArray, *, key: Key = None) -> Probs:
        """Calibrated probabilities of the next batch, after it was added to the window of `key`."""
        return self._predictor.predict_proba(self._calibrated.logits(X), key=key)

    def predict_log_proba(self, X: AnyArray, *, key: Key = None) -> LogProbs:
        """Calibrated log-probabilities of the next batch, after it was added to the window of `key`."""
        return self._predictor.predict_log_proba(self._calibrated.logits(X), key=key)

    def predict(self, X: AnyArray, *, key: Key = None) -> Array:
        """The most likely class of each input, as in `CalibratedModel.predict`: a window never changes it."""
        logits = self._calibrated.logits(X)
        self._predictor.observe(logits, key=key)
        return self._calibrated.as_labels(logits.argmax(axis=1))

    def predict_or_abstain(
        self, X: AnyArray, *, key: Key = None, threshold: Threshold | None = None
    ) -> np.ma.MaskedArray[Any, Any]:
        """As `CalibratedModel.predict_or_abstain`, with the confidence of this window."""
        probabilities = self.predict_proba(X, key=key)
        labels = self._calibrated.as_labels(probabilities.argmax(axis=1))
        return masked_labels(
            labels, probabilities, self._calibrated.decision_threshold if threshold is None else threshold
        )

    def window_state(self, key: Key = None) -> WindowState:
        """How full the window of `key` is, and whether it lies outside the shifts of the fit."""
        return self._predictor.window_state(key)

    def drop(self, key: Key = None) -> None:
        """Forget the window of `key`; its next batch starts an empty one."""
        self._predictor.drop(key)

    def merge(self, other: WindowedModel, *, later: bool = False) -> None:
        """Take over the windows of another object, as `WindowedPredictor.merge`: each key must be in one of them only.

        With `later`, `other` saw all its samples after this one; then a window may be continued.
        """
        if not isinstance(other, WindowedModel):
            raise InputError(f"other must be another WindowedModel; it is {other!r}. Pass the one of another worker.")
        self._predictor.merge(other._predictor, later=later)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the windows of all keys to `path`, atomically."""
        return self._predictor.save(path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Replace all windows by those that `save` wrote; refuse a file of another calibrator or window size."""
        self._predictor.restore(path)
