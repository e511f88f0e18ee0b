"""Base: the model as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.scaling.temperature import look
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import log_softmax_kernel, softmax_kernel
from driftcal.types import Float64, Logits


class Identity(Calibrator):
    """The model's own confidence: q = softmax(z). The yardstick for all others.

    >>> import numpy as np
    >>> Identity().fit(np.array([[0.0, 1.0], [2.0, 0.0]]), [1, 1]).predict_proba([[0.0, 0.0]])
    array([[0.5, 0.5]])
    """

    keeps_accuracy = True

    def __init__(self, *, classes: Sequence[Any] | None = None) -> None:
        self.classes = classes

    def _fit(self, rows: LabelledLogits) -> FitReport:
        loss = look(rows).nll
        return FitReport("nll", loss, loss, passes=1)

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1.0, out)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        log_softmax_kernel(logits, 1.0, out)
