"""Calibrators that follow the traffic: a window of unlabelled logits says how far the data has drifted.

Fitted once, on labelled rows of a noise ladder. Afterwards they need no labels: `adapt` looks at a window and gives a
static calibrator for it; `predict_proba(logits, context=window)` does both; `stream` keeps the window itself. Without a
window, or with one too short to tell anything, the static map fitted on all rungs answers.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.scaling.temperature import TemperatureScaling
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.errors import InputError
from driftcal.types import AnyArray, Logits, LogProbs, Probs

#: Rows in a window unless told otherwise.
WINDOW = 100
#: Windows shorter than this say too little: the mean of so few rows strays over several rungs of a ladder.
LEAST_ROWS = 20


class WindowedCalibrator(Calibrator):
    """A calibrator that can be moved to where the data is, by logits alone."""

    keeps_accuracy = True
    needs_levels = True
    adaptive = True

    @abstractmethod
    def _adapted(self, window: Logits) -> Calibrator:
        """The static calibrator for a checked window of at least `LEAST_ROWS` rows."""

    @abstractmethod
    def _static(self) -> Calibrator:
        """The static calibrator for inputs nothing is known about."""

    def _fit(self, rows: LabelledLogits) -> FitReport:
        return self._fit_levels([rows])

    def adapt(self, window: AnyArray) -> Calibrator:
        """A static calibrator for data like this window of unlabelled logits, frozen: it can be saved and exported."""
        scores, _ = self._checked(window)
        return self._adapted(scores) if len(scores) >= LEAST_ROWS else self._static()

    def predict_proba(self, logits: AnyArray, context: AnyArray = None) -> Probs:
        """Calibrated probabilities for data that looks like `context`, unlabelled logits; static without it."""
        return super().predict_proba(logits) if context is None else self.adapt(context).predict_proba(logits)

    def predict_log_proba(self, logits: AnyArray, context: AnyArray = None) -> LogProbs:
        """The same as log-probabilities."""
        return super().predict_log_proba(logits) if context is None else self.adapt(context).predict_log_proba(logits)

    def stream(self, window: int = WINDOW) -> Stream:
        """Something that predicts batch after batch and remembers the last `window` rows."""
        return Stream(self, window)

    def _frozen(self, calibrator: Calibrator) -> Calibrator:
        """Give a calibrator made from numbers what a fit would have left on it."""
        calibrator.classes_, calibrator.n_features_in_ = self.classes_, self.n_features_in_
        calibrator.fit_report_ = self.fit_report_
        return calibrator

    def _temperature(self, temperature: float) -> Calibrator:
        frozen = TemperatureScaling()
        frozen.temperature_ = float(temperature)
        return self._frozen(frozen)


class Stream:
    """A calibrator and its memory of the last rows, for traffic that arrives in batches of any size.

    >>> import numpy as np
    >>> from driftcal.calibrators import make_calibrator
    >>> rng = np.random.default_rng(0)
    >>> clean, noisy = rng.normal(size=(500, 4)) * 6, rng.normal(size=(500, 4)) * 2
    >>> y = (clean + rng.normal(size=(500, 4))).argmax(axis=1)
    >>> ladder = make_calibrator("ladder-ts").fit(np.vstack([clean, noisy]), np.tile(y, 2), levels=[0] * 500 + [1] * 500)
    >>> stream = ladder.stream(window=100)
    >>> p = stream.predict_proba(noisy[:1])  # nothing is known yet: the static calibrator
    >>> bool(np.array_equal(p, ladder.predict_proba(noisy[:1])))
    True
    """

    def __init__(self, calibrator: WindowedCalibrator, window: int = WINDOW) -> None:
        if isinstance(window, bool) or not isinstance(window, int | np.integer) or window < LEAST_ROWS:
            raise InputError(
                f"window must be a whole number of rows, {LEAST_ROWS} or more; it is {window!r}. "
                f"Shorter windows say too little about drift; {WINDOW} is usual."
            )
        self.calibrator, self.window = calibrator, int(window)
        self._last: Logits | None = None

    def predict_proba(self, logits: AnyArray) -> Probs:
        """Calibrated probabilities of the next batch, which joins the window before it is answered."""
        return self.calibrator.predict_proba(logits, context=self._remember(logits))

    def predict_log_proba(self, logits: AnyArray) -> LogProbs:
        """The same as log-probabilities."""
        return self.calibrator.predict_log_proba(logits, context=self._remember(logits))

    def _remember(self, logits: AnyArray) -> Logits:
        scores, _ = self.calibrator._checked(logits)
        seen = scores if self._last is None else np.concatenate([self._last, scores])
        self._last = seen[-self.window :].copy()
        return self._last


def predict_windows(calibrator: Calibrator, logits: AnyArray, window: int = WINDOW) -> Probs:
    """Probabilities of rows in their order, each window of an adaptive calibrator calibrated by itself.

    What is left over at the end is calibrated by the last `window` rows. A static calibrator needs no windows.
    """
    if not isinstance(calibrator, WindowedCalibrator):
        return calibrator.predict_proba(logits)
    scores, _ = validation.as_logits(logits)
    parts = []
    for low in range(0, max(1, len(scores)), window):
        high = min(low + window, len(scores))
        parts.append(calibrator.predict_proba(scores[low:high], context=scores[max(0, high - window) : high]))
    return np.concatenate(parts)
