"""Calibration metrics with the interface of torchmetrics: `update`, `compute`, `reset`, merged across ranks.

The state is a handful of sums, whatever the number of samples (:class:`driftcal.metrics.Statistics`). The calibration error
of torchmetrics keeps every confidence instead.

>>> import torch
>>> metric = CalibrationError(n_bins=15)
>>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]))
>>> metric.update(torch.tensor([[3.0, 0.0]]), torch.tensor([1]))
>>> round(metric.compute().item(), 3)
0.447
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np

from driftcal.errors import InputError, need
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.bins import bin_edges

torch = need("torch", "torchmetrics")
_Metric: Any = need("torchmetrics", "torchmetrics").Metric

#: What `CalibrationMetrics` computes, all from the same sums.
NAMES = ("accuracy", "ece", "mce", "calibration_gap", "nll", "brier")


class _SumsMetric(_Metric):
    """A metric whose state is the sums of :class:`driftcal.metrics.Statistics`.

    Parameters
    ----------
    n_bins
        Number of equal-width bins.
    score_type
        What `update` gets: "logits" or "probabilities".
    **kwargs
        Those of ``torchmetrics.Metric``, such as `dist_sync_on_step`.
    """

    is_differentiable = False
    full_state_update = False

    def __init__(
        self, n_bins: int = 15, score_type: Literal["logits", "probabilities"] = "logits", **kwargs: Any
    ) -> None:
        if score_type not in ("logits", "probabilities"):
            raise InputError(
                f'score_type must be "logits" or "probabilities"; it is {score_type!r}. Values never decide what they are.'
            )
        super().__init__(**kwargs)
        self.n_bins, self.score_type = len(bin_edges(n_bins)) - 1, score_type
        empty = torch.zeros(Statistics.n_sums(self.n_bins), dtype=torch.float64)
        self.add_state("sums", default=empty, dist_reduce_fx="sum")

    def update(self, preds: Any, target: Any) -> None:
        """Add a batch: scores (n, C) and labels (n,). Computed on the CPU in float64."""
        scores = preds.detach().to("cpu", torch.float64).numpy()
        statistics = Statistics.of(
            target.detach().cpu().numpy(), scores, score_type=self.score_type, n_bins=self.n_bins
        )
        self.sums += torch.from_numpy(statistics.to_array()).to(self.sums.device)

    def statistics(self) -> Statistics:
        """The sums so far."""
        if not self.sums[0] > 0:
            raise InputError(
                f"update must be called with at least one sample before compute; {type(self).__name__} has seen none."
            )
        return Statistics.from_array(self.sums.cpu().numpy().astype(np.float64))


class _OneNumber(_SumsMetric):
    """A metric that is one attribute of the statistics."""

    value: ClassVar[str]
    higher_is_better: bool | None = False

    def compute(self) -> Any:
        """The metric over all samples so far, as a float64 scalar."""
        return torch.tensor(getattr(self.statistics(), self.value), dtype=torch.float64, device=self.sums.device)


class CalibrationError(_OneNumber):
    """ECE with equal-width bins, see :func:`driftcal.metrics.expected_calibration_error`."""

    value = "ece"


class MaximumCalibrationError(_OneNumber):
    """The largest difference of a bin, see :func:`driftcal.metrics.maximum_calibration_error`."""

    value = "mce"


class CalibrationGap(_OneNumber):
    """Mean confidence − accuracy: above 0 the model is over-confident."""

    value = "calibration_gap"
    higher_is_better = None


class BrierScore(_OneNumber):
    """Mean squared error of the probabilities, summed over classes."""

    value = "brier"


class NegativeLogLikelihood(_OneNumber):
    """Mean −log p(label)."""

    value = "nll"


class CalibrationMetrics(_SumsMetric):
    """Accuracy, ECE, MCE, calibration gap, NLL and Brier score from one pass, as a dictionary."""

    higher_is_better = None

    def compute(self) -> dict[str, Any]:
        """The metrics over all samples so far, as float64 scalars."""
        statistics = self.statistics()
        return {
            name: torch.tensor(getattr(statistics, name), dtype=torch.float64, device=self.sums.device)
            for name in NAMES
        }
