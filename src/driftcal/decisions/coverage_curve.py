"""The coverage curve: how many predictions a threshold of the confidence keeps, and how many of these are correct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64

#: The most points that a curve keeps: a step is then at most 0.2 % of the samples.
MAX_POINTS = 500
#: Confidences that differ by less are equal up to rounding: no threshold fits between them.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class CoverageCurve:
    """For falling thresholds, the number of predictions with at least this confidence, and how many are correct.

    A threshold lies in the middle between two neighbouring confidences, so that rounding cannot change a decision. The
    last one is 0: it keeps all `n_samples`. Confidences that are equal up to rounding are kept or left out together.

    >>> curve = CoverageCurve.of([0.9, 0.6, 0.8, 0.6], [True, False, True, True])
    >>> curve.thresholds.round(2).tolist(), curve.kept.tolist(), curve.correct.tolist()
    ([0.85, 0.7, 0.0], [1, 2, 4], [1, 2, 3])
    """

    n_samples: int
    thresholds: Float64
    kept: Array
    correct: Array

    def __repr__(self) -> str:
        return f"CoverageCurve({self.n_samples} samples, accuracy {self.correct[-1] / self.n_samples:.3f})"

    @classmethod
    def of(cls, confidence: AnyArray, is_correct: AnyArray, *, max_points: int = MAX_POINTS) -> CoverageCurve:
        """The curve of these predictions, thinned to `max_points`."""
        values, outcomes = np.asarray(confidence, np.float64), np.asarray(is_correct, bool)
        if values.ndim != 1 or values.shape != outcomes.shape or not len(values):
            raise InputError(
                f"confidence and is_correct must hold one number per sample, at least one; their shapes are {values.shape} and "
                f"{outcomes.shape}."
            )
        order = np.argsort(-values, kind="stable")
        values, n_correct = values[order], np.cumsum(outcomes[order])
        last = np.append(
            np.flatnonzero(values[:-1] - values[1:] > _ROUNDING), len(values) - 1
        )  # of each group of equal confidences
        if len(last) > max_points:
            last = last[np.unique(np.linspace(0, len(last) - 1, max_points).round().astype(np.int64))]
        below = np.append(values[last[:-1] + 1], -values[-1])
        return cls(len(values), (values[last] + below) / 2, last + 1, n_correct[last])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "n_samples": self.n_samples,
            "thresholds": self.thresholds.tolist(),
            "kept": self.kept.tolist(),
            "correct": self.correct.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CoverageCurve:
        """The curve that `to_dict` wrote, checked."""
        thresholds = np.array(values["thresholds"], np.float64)
        kept, correct = np.array(values["kept"], np.int64), np.array(values["correct"], np.int64)
        n_samples = int(values["n_samples"])
        if not (
            thresholds.ndim == 1
            and thresholds.shape == kept.shape == correct.shape
            and len(kept)
            and kept[-1] == n_samples
            and ((thresholds >= 0) & (thresholds <= 1)).all()
            and (np.diff(thresholds) < 0).all()
            and kept[0] > 0
            and (np.diff(kept) > 0).all()
            and (np.diff(correct) >= 0).all()
            and ((correct >= 0) & (correct <= kept)).all()
        ):
            raise ValueError("a coverage curve does not fit together")
        return cls(n_samples, thresholds, kept, correct)
