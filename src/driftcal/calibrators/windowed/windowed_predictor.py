"""The windowed object: predictions for batches of any size, calibrated by the last samples."""

from __future__ import annotations

import numpy as np

from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE, WindowedCalibrator, sum_statistics
from driftcal.errors import InputError
from driftcal.types import AnyArray, Float64, LogProbs, Probs


class WindowedPredictor:
    """A windowed calibrator and its window: the last `window_size` samples, those of the present batch included.

    A larger batch is cut into blocks of `window_size`, each calibrated by itself. While the window has fewer samples than the
    calibrator's `min_window`, the per-sample form predicts.

    >>> import numpy as np
    >>> from driftcal.calibrators import make_calibrator
    >>> rng = np.random.default_rng(0)
    >>> clean, noisy = rng.normal(size=(500, 4)) * 6, rng.normal(size=(500, 4)) * 2
    >>> y = (clean + rng.normal(size=(500, 4))).argmax(axis=1)
    >>> fitted = make_calibrator("level-ts").fit(np.vstack([clean, noisy]), np.tile(y, 2), levels=[0] * 500 + [1] * 500)
    >>> live = fitted.windowed(100)
    >>> first = live.predict_proba(noisy[:1])  # one sample says nothing about the shift
    >>> bool(np.array_equal(first, fitted.predict_proba(noisy[:1])))
    True
    """

    def __init__(self, calibrator: WindowedCalibrator, window_size: int = WINDOW_SIZE) -> None:
        if (
            isinstance(window_size, bool)
            or not isinstance(window_size, int | np.integer)
            or window_size < calibrator.min_window
        ):
            raise InputError(
                f"window_size must be a whole number of samples, {calibrator.min_window} or more; it is {window_size!r}. "
                f"Smaller windows say too little about a shift; {WINDOW_SIZE} is usual."
            )
        self.calibrator, self.window_size = calibrator, int(window_size)
        self._window: Float64 | None = None

    def __repr__(self) -> str:
        filled = 0 if self._window is None else len(self._window)
        return f"WindowedPredictor({self.calibrator!r}, window_size={self.window_size}), {filled} samples in the window"

    def predict_proba(self, logits: AnyArray) -> Probs:
        """Calibrated probabilities of the next batch, which joins the window first."""
        return self._predict(logits, log=False)

    def predict_log_proba(self, logits: AnyArray) -> LogProbs:
        """Calibrated log-probabilities of the next batch, which joins the window first."""
        return self._predict(logits, log=True)

    def _predict(self, logits: AnyArray, *, log: bool) -> Float64:
        scores, shape = self.calibrator._checked(logits)
        out = np.empty(scores.shape)
        for low in range(0, len(scores), self.window_size):
            block = scores[low : low + self.window_size]
            statistics = self.calibrator.window_statistics(block)
            window = statistics if self._window is None else np.concatenate([self._window, statistics])
            self._window = window[-self.window_size :].copy()
            calibrator = self.calibrator.calibrator_for(sum_statistics(self._window))
            out[low : low + self.window_size] = calibrator._predict(block, None, log=log)
        return out.reshape(*shape, scores.shape[1])
