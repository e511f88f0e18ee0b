"""A candidate: a fitted calibrator that an evaluation compares, under its name in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from driftcal.calibrators import Calibrator, make_calibrator
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.pipeline.evaluating.results import CLEAN_SAMPLES, NOTHING, PER_SAMPLE, WINDOWED, CalibratorInfo
from driftcal.types import Array, Logits, Probs


@dataclass(frozen=True)
class Candidate:
    """A fitted calibrator, its name in tables, its form, and what it was tuned on.

    Parameters
    ----------
    name
        Its name in tables, such as "irm-p".
    method
        The short name of the calibrator.
    calibrator
        A fitted calibrator.
    tuned_on
        "clean samples", or the name of a shift.
    warnings
        Sentences that results keep.
    window_size
        The size of the window that the candidate follows under each condition. None: it treats each sample alone.
    """

    name: str
    method: str
    calibrator: Calibrator
    tuned_on: str = CLEAN_SAMPLES
    warnings: Sequence[str] = field(default=())
    window_size: int | None = None

    def predict_proba(self, logits: Logits, features: Mapping[str, Array] | None = None) -> Probs:
        """Calibrated probabilities of the samples of one condition, in their order."""
        if self.window_size is not None and isinstance(self.calibrator, WindowedCalibrator):
            return self.calibrator.windowed(self.window_size).predict_proba(logits)
        return self.calibrator.predict_proba(logits, features=features if self.calibrator.needs_features else None)

    @property
    def info(self) -> CalibratorInfo:
        """The entry of this candidate in the results."""
        return CalibratorInfo(
            name=self.name,
            label=self.name.upper() if self.name != "base" else "Base",
            method=self.method,
            tuned_on=self.tuned_on,
            keeps_accuracy=self.calibrator.keeps_accuracy,
            temperature=getattr(self.calibrator, "temperature_", None),
            warnings=[*self.warnings, *self.calibrator.fit_report_.warnings],
            form=PER_SAMPLE if self.window_size is None else WINDOWED,
            window_size=self.window_size,
        )


def uncalibrated(n_classes: int) -> Candidate:
    """The uncalibrated model."""
    return Candidate("base", "base", make_calibrator("base").fit(np.zeros((1, n_classes)), [0]), NOTHING)
