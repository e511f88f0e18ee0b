"""From the scores of samples to the rows of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftcal.decisions import Threshold
from driftcal.metrics.additive_statistics import Statistics
from driftcal.metrics.all_metrics import DEBIASED_BINS
from driftcal.metrics.sample_scores import SampleScores
from driftcal.metrics.sorted_samples import SortedSamples
from driftcal.pipeline.evaluating.results import POOLED, ResultRow

#: Points of a coverage curve.
N_COVERAGES = 20


@dataclass(frozen=True, eq=False)
class Case:
    """What one row describes: the scores of a level or of all levels pooled, level by level in `parts`."""

    level: float | str
    scores: SampleScores
    parts: Sequence[SampleScores]
    statistics: Statistics


def cases_of(levels: Sequence[float], by_level: Sequence[SampleScores], n_bins: int) -> list[Case]:
    """A case for each level, and the pooled one last."""
    cases = [
        Case(level, scores, [scores], Statistics.of_samples(scores, n_bins=n_bins))
        for level, scores in zip(levels, by_level, strict=True)
    ]
    pooled = SampleScores.of_columns(np.concatenate([scores.columns for scores in by_level]))
    return [*cases, Case(POOLED, pooled, by_level, Statistics.of_samples(pooled, n_bins=n_bins))]


def row_of(
    case: Case,
    *,
    calibrator: str,
    shift: str,
    group: str | None,
    intervals: Mapping[str, Sequence[float]],
    threshold: Threshold | None = None,
) -> ResultRow:
    """The row of a case: every metric, its null value, its bins, and what the threshold keeps."""
    statistics, scores = case.statistics, case.scores
    return ResultRow(
        calibrator=calibrator,
        shift=shift,
        level=case.level,
        n_samples=statistics.n_samples,
        ece=statistics.ece,
        null_ece=statistics.null_ece,
        accuracy=statistics.accuracy,
        confidence=statistics.confidence,
        calibration_gap=statistics.calibration_gap,
        entropy=statistics.entropy,
        nll=statistics.nll,
        brier=statistics.brier,
        mce=statistics.mce,
        debiased_ece=math.sqrt(SortedSamples.by_confidence(scores).debiased(scores.weights, DEBIASED_BINS)),
        clipped=statistics.n_clipped,
        bins={
            "weight": statistics.bin_weight.tolist(),
            "confidence": statistics.bin_confidence.tolist(),
            "outcome": statistics.bin_outcome.tolist(),
        },
        intervals=intervals,
        group=group,
        decision=None if threshold is None else _decision(scores, threshold),
        accuracy_at_coverage=_accuracy_at_coverage(scores) if case.level in (0, POOLED) and group is None else (),
    )


def _decision(scores: SampleScores, threshold: Threshold) -> dict[str, float | int | None]:
    """The share of samples that the threshold keeps, and the accuracy of these."""
    accepted = threshold.accepts(scores.confidence)
    n_accepted = int(accepted.sum())
    return {
        "coverage": n_accepted / len(scores),
        "accuracy": float(scores.correct[accepted].mean()) if n_accepted else None,
        "n_accepted": n_accepted,
    }


def _accuracy_at_coverage(scores: SampleScores) -> list[float]:
    """The accuracy of the most confident 5 %, 10 %, …, 100 % of the samples."""
    n = len(scores)
    n_correct = np.cumsum(scores.correct[np.argsort(-scores.confidence, kind="stable")])
    kept = np.ceil(np.arange(1, N_COVERAGES + 1) / N_COVERAGES * n).astype(np.int64)
    accuracies: list[float] = (n_correct[kept - 1] / kept).tolist()
    return accuracies
