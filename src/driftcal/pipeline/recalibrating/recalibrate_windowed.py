"""Recalibration of the windowed form: one number, fitted on new labelled samples in windows of consecutive ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators import name_of
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE, WindowedCalibrator, sum_statistics
from driftcal.metrics import Evaluation, evaluate
from driftcal.pipeline.recalibrating.blend import LabelledColumns
from driftcal.pipeline.recalibrating.what_got_worse import what_got_worse
from driftcal.types import Array, Float64, Logits

#: Folds of consecutive samples: a window lies in one of them.
N_FOLDS = 5
#: The offset lies between minus and plus this: a factor of 20 in the odds of the accuracy, or in T.
MAX_OFFSET = 3.0


@dataclass(frozen=True, eq=False, repr=False)
class WindowedRecalibration:
    """The windowed form after a recalibration: refitted, or the old one.

    Parameters
    ----------
    calibrator
        The windowed calibrator to use from now on.
    refitted
        Whether it is a new one.
    offset
        The fitted number, see `WindowedCalibrator.with_offset`; 0 if the old one is kept.
    explanation
        What was done and why, in a sentence.
    before, after
        Evaluations of the old one and of refits on folds that these were not fitted on; None if nothing was fitted.
    """

    calibrator: WindowedCalibrator
    refitted: bool
    offset: float
    explanation: str
    before: Evaluation | None = None
    after: Evaluation | None = None

    def __repr__(self) -> str:
        return f"WindowedRecalibration({self.calibrator!r}, refitted={self.refitted}, offset {self.offset:.4g})"


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Consecutive samples in blocks, with the sums of each block's window, and the labels if they are known."""

    logits: Sequence[Logits]
    sums: Sequence[Float64]
    labels: Array

    @classmethod
    def of(cls, calibrator: WindowedCalibrator, samples: LabelledColumns) -> _Blocks:
        """As `WindowedPredictor` does it: a block joins the window first, so the last window reaches back into the block before."""
        statistics = calibrator.window_statistics(samples.logits)
        ends = [min(low + WINDOW_SIZE, len(samples)) for low in range(0, len(samples), WINDOW_SIZE)]
        return cls(
            [samples.logits[low:end] for low, end in zip(range(0, len(samples), WINDOW_SIZE), ends, strict=True)],
            [sum_statistics(statistics[max(0, end - WINDOW_SIZE) : end]) for end in ends],
            samples.labels,
        )

    def log_probs(self, calibrator: WindowedCalibrator) -> Float64:
        """(n, classes): the log-probabilities that the windowed form gives."""
        blocks = zip(self.logits, self.sums, strict=True)
        return np.concatenate(
            [calibrator.calibrator_for(sums).predict_log_proba(logits) for logits, sums in blocks], axis=0
        )


def recalibrate_windowed(
    old: WindowedCalibrator,
    new: LabelledColumns,
    weight: float,
    old_samples: LabelledColumns | None,
    options: Mapping[str, Any],
) -> WindowedRecalibration:
    """Refit one number of the windowed calibrator `old`, `WindowedCalibrator.with_offset`, on new samples in their order.

    The loss is the negative log-likelihood of windowed predictions. New samples have the share `weight`; the rest belongs to
    `old_samples`, or without them to the probabilities that `old` gives the new samples. The refit is kept if it is not worse,
    by the rule of `recalibrate`, on folds of consecutive samples that it was not fitted on. `options` are those of `evaluate`.
    """
    name = name_of(old).upper()
    if weight == 0:
        return WindowedRecalibration(old, False, 0.0, f"The windowed {name} is kept: the new samples have weight 0.")
    if old.with_offset(0.0) is None:
        reason = "labels alone do not refit it. Tune again to follow other shifts"
        return WindowedRecalibration(old, False, 0.0, f"The windowed {name} is kept as it was: {reason}.")
    folds = [_Blocks.of(old, new.take(part)) for part in np.array_split(np.arange(len(new)), N_FOLDS)]
    earlier = None if old_samples is None else _Blocks.of(old, old_samples)
    before = [fold.log_probs(old) for fold in folds]
    after = []
    for k, held_out in enumerate(folds):
        others = [i for i in range(N_FOLDS) if i != k]
        offset = _fit_offset(old, [folds[i] for i in others], [before[i] for i in others], weight, earlier)
        after.append(held_out.log_probs(_moved(old, offset)))
    old_figures = evaluate(new.labels, np.concatenate(before), **options)
    new_figures = evaluate(new.labels, np.concatenate(after), **options)
    if worse := what_got_worse(old_figures, new_figures):
        explanation = f"The windowed {name} is kept: with a refit, in windows of {WINDOW_SIZE}, {', '.join(worse)}."
        return WindowedRecalibration(old, False, 0.0, explanation, old_figures, new_figures)
    offset = _fit_offset(old, folds, before, weight, earlier)
    explanation = (
        f"The windowed {name} was refitted too: held-out ECE {old_figures.ece:.3f} before, {new_figures.ece:.3f} after, in windows "
        f"of {WINDOW_SIZE}."
    )
    return WindowedRecalibration(_moved(old, offset), True, offset, explanation, old_figures, new_figures)


def _fit_offset(
    old: WindowedCalibrator,
    folds: Sequence[_Blocks],
    old_log_probs: Sequence[Float64],
    weight: float,
    earlier: _Blocks | None,
) -> float:
    """The offset with the lowest blended loss."""
    from scipy.optimize import minimize_scalar

    labels = np.concatenate([fold.labels for fold in folds])
    targets = np.exp(np.concatenate(old_log_probs))

    def loss(offset: float) -> float:
        calibrator = _moved(old, offset)
        log_probs = _finite(np.concatenate([fold.log_probs(calibrator) for fold in folds]))
        new_loss = -log_probs[np.arange(len(labels)), labels].mean()
        if weight == 1:
            return float(new_loss)
        if earlier is None:
            old_loss = -(targets * log_probs).sum(axis=1).mean()
        else:
            earlier_log_probs = _finite(earlier.log_probs(calibrator))
            old_loss = -earlier_log_probs[np.arange(len(earlier.labels)), earlier.labels].mean()
        return float(weight * new_loss + (1 - weight) * old_loss)

    return float(minimize_scalar(loss, bounds=(-MAX_OFFSET, MAX_OFFSET), method="bounded", options={"xatol": 1e-3}).x)


def _finite(log_probs: Float64) -> Float64:
    """A masked class has probability 0 with every offset, so it says nothing about it."""
    return np.where(np.isneginf(log_probs), 0.0, log_probs)


def _moved(calibrator: WindowedCalibrator, offset: float) -> WindowedCalibrator:
    moved = calibrator.with_offset(offset)
    assert moved is not None  # checked before the first fit
    return moved
