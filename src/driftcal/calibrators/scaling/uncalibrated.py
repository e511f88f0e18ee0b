"""The uncalibrated model as a calibrator, with the short name "base"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.scaling.first_pass import first_pass
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import log_softmax_into, softmax_into
from driftcal.types import Float64, Logits


class Uncalibrated(LogitCalibrator):
    """The uncalibrated model: q = softmax(z). The baseline of all others.

    >>> import numpy as np
    >>> Uncalibrated().fit(np.array([[0.0, 1.0], [2.0, 0.0]]), [1, 1]).predict_proba([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    keeps_accuracy = True

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, data: LabelledLogits) -> FitReport:
        loss = first_pass(data).nll
        return FitReport("nll", loss, loss, passes=1)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        softmax_into(logits, 1.0, out)

    def _log_proba_into(self, logits: Logits, out: Float64) -> None:
        log_softmax_into(logits, 1.0, out)

    def export_map(self) -> ExportMap:
        """softmax(z)."""
        return ExportMap()
