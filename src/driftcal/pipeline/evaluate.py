"""Calibrators on shifted test data: rows of metrics, in domain and under drift."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.samplewise.feature_calibrator import FeatureCalibrator
from driftcal.calibrators.windowed.windowed_calibrator import predict_windows
from driftcal.engines.remote_passes import map_logits
from driftcal.metrics.all_metrics import DEBIASED_BINS
from driftcal.metrics.bins import bin_edges, bin_indices
from driftcal.metrics.bootstrap import resample_counts
from driftcal.metrics.intervals import bootstrap_interval
from driftcal.metrics.sample_scores import WORST_NLL, SampleScores
from driftcal.metrics.sorted_samples import SortedSamples
from driftcal.metrics.statistics import Statistics
from driftcal.pipeline.collect import Collector
from driftcal.pipeline.results import CLEAN_SAMPLES, POOLED, CalibratorInfo, ResultRow, Results, ShiftInfo
from driftcal.shifts.shift import Shift
from driftcal.types import Array, Float64, Labels

#: Metrics that carry an interval; they are sums over images, so that a replicate is one matrix product.
_SUMS = ("accuracy", "nll", "brier", "entropy")

#: Called with the names of a contender and a shift, and its metrics, pooled over the levels, in each bootstrap world.
OnWorlds = Callable[[str, str, Mapping[str, Float64]], None]


@dataclass(frozen=True)
class Candidate:
    """A fitted calibrator under the name it has in tables, e.g. ``irm-p``, and what it was tuned on."""

    name: str
    method: str
    calibrator: Calibrator
    tuned_on: str = CLEAN_SAMPLES
    warnings: Sequence[str] = field(default=())

    @property
    def info(self) -> CalibratorInfo:
        """How it is listed beside the results."""
        return CalibratorInfo(
            name=self.name,
            label=self.name.upper() if self.name != "base" else "Base",
            method=self.method,
            tuned_on=self.tuned_on,
            keeps_accuracy=self.calibrator.keeps_accuracy,
            temperature=getattr(self.calibrator, "temperature_", None),
            warnings=[*self.warnings, *self.calibrator.fit_report_.warnings],
        )


def evaluate_candidates(
    collector: Collector,
    candidates: Sequence[Candidate],
    shifts: Sequence[Shift],
    *,
    suite: str,
    n_bins: int = 15,
    intervals: bool = True,
    draws: int = 200,
    groups: Array | None = None,
    ladder: Mapping[str, Any] | None = None,
    about: Mapping[str, Any] | None = None,
    on_worlds: OnWorlds | None = None,
    layers: Sequence[str] = (),
) -> Results:
    """Every contender on every shift and level, on each shift pooled over its levels, and the same by group.

    Intervals resample images: one image with all its levels and all candidates is one unit. `on_worlds` sees the
    replicates behind the intervals of each shift: worlds are the same for all of them, so means and differences have theirs.
    `layers` are those of the model that a contender looks at which needs its features.
    """
    labels = collector.labels
    resampler = _Resampler(len(labels), draws, n_bins) if intervals else None
    parts: list[tuple[str | None, Array]] = [(None, np.arange(len(labels)))]
    if groups is not None:
        names = [str(g) for g in groups.tolist()]
        parts += [(name, np.flatnonzero([n == name for n in names])) for name in dict.fromkeys(sorted(names))]
    rows: list[ResultRow] = []
    collector.gather((shift, level) for shift in shifts for level in shift.levels or (0,))
    for shift in shifts:
        levels = shift.levels or (0,)
        seen: dict[str, list[SampleScores]] = {candidate.name: [] for candidate in candidates}
        given: dict[str, Any] = {"labels": labels, "calibrators": [candidate.calibrator for candidate in candidates]}
        conditions = [collector.part(shift, level) for level in levels]
        if any(candidate.calibrator.needs_features for candidate in candidates):  # features are made here, not stored
            found = [
                _scores(np.asarray(part), **given, features=collector.features(shift, level, layers))
                for level, part in zip(levels, conditions, strict=True)
            ]
        else:
            found = map_logits(_scores, conditions, given)
        for scored in found:
            for candidate, one in zip(candidates, scored, strict=True):
                seen[candidate.name].append(one)
        for candidate in candidates:
            for group, chosen in parts:
                scores = [_take(s, chosen) for s in seen[candidate.name]]
                resample = resampler if group is None else None
                rows += _rows(candidate.name, shift.name, levels, scores, n_bins, resample, group, on_worlds)
    return Results(
        suite=suite,
        n_bins=n_bins,
        calibrators=[candidate.info for candidate in candidates],
        shifts=[_shift_info(shift) for shift in shifts],
        rows=rows,
        perturbation=ladder,
        metadata={**(about or {}), "versions": versions()},
    )


def _scores(
    logits: Array, labels: Labels, calibrators: Sequence[Calibrator], features: Mapping[str, Array] | None = None
) -> list[SampleScores]:
    """What every calibrator makes of one condition; one that adapts sees consecutive windows of it, without labels."""
    return [
        SampleScores.of_probabilities(
            labels,
            one.predict_proba(logits, features) if isinstance(one, FeatureCalibrator) else predict_windows(one, logits),
        )
        for one in calibrators
    ]


def _take(scores: SampleScores, chosen: Array) -> SampleScores:
    if len(chosen) == len(scores):
        return scores
    return SampleScores.of_columns(scores.columns[chosen])


def _rows(
    name: str,
    shift: str,
    levels: Iterable[float],
    scores: Sequence[SampleScores],
    n_bins: int,
    resampler: _Resampler | None,
    group: str | None,
    on_worlds: OnWorlds | None,
) -> list[ResultRow]:
    pooled = SampleScores.of_columns(np.concatenate([s.columns for s in scores]))
    cases: list[tuple[float | str, SampleScores, Sequence[SampleScores]]] = [
        (level, one, [one]) for level, one in zip(levels, scores, strict=True)
    ]
    cases.append((POOLED, pooled, scores))
    statistics = [Statistics.of_samples(whole, n_bins=n_bins) for _, whole, _ in cases]
    intervals: Sequence[Mapping[str, Sequence[float]]] = [{}] * len(cases)
    if resampler is not None:
        worlds = resampler.worlds([parts for _, _, parts in cases])
        intervals = [resampler.intervals(found, world) for found, world in zip(statistics, worlds, strict=True)]
        if on_worlds is not None:
            on_worlds(name, shift, resampler.metrics(worlds[-1]))
    return [
        ResultRow(
            calibrator=name,
            shift=shift,
            level=level,
            n_samples=found.n_samples,
            ece=found.ece,
            null_ece=found.null_ece,
            accuracy=found.accuracy,
            confidence=found.confidence,
            calibration_gap=found.calibration_gap,
            entropy=found.entropy,
            nll=found.nll,
            brier=found.brier,
            mce=found.mce,
            debiased_ece=math.sqrt(SortedSamples.by_confidence(whole).debiased(whole.weights, DEBIASED_BINS)),
            clipped=found.n_clipped,
            bins={
                "weight": found.bin_weight.tolist(),
                "confidence": found.bin_confidence.tolist(),
                "outcome": found.bin_outcome.tolist(),
            },
            intervals=between,
            group=group,
        )
        for (level, whole, _), found, between in zip(cases, statistics, intervals, strict=True)
    ]


class _Resampler:
    """The same resampled images for every contender, shift and level."""

    def __init__(self, n: int, draws: int, n_bins: int, seed: int = 0) -> None:
        self.counts = np.empty((draws, n))
        for replicate in range(draws):
            resample_counts(seed, replicate, self.counts[replicate])
        self.edges = bin_edges(n_bins)
        self.noise = np.abs(np.random.default_rng(seed).standard_normal((draws, n_bins)))

    def worlds(self, cases: Sequence[Sequence[SampleScores]]) -> list[Float64]:
        """For each case, levels of the same images pooled: (draws, bins + scores) mean residuals and mean scores."""
        n, width = self.counts.shape[1], len(self.edges) - 1 + len(_SUMS)
        tables: dict[int, Float64] = {}
        for parts in cases:
            for scores in parts:
                if id(scores) not in tables:
                    tables[id(scores)] = self._table(scores)
        # one product for all cases: a small product costs more to start than to do
        sums = self.counts @ np.concatenate(list(tables.values()), axis=1)
        of = {key: sums[:, k * width : (k + 1) * width] for k, key in enumerate(tables)}
        return [np.sum([of[id(scores)] for scores in parts], axis=0) / (n * len(parts)) for parts in cases]

    def _table(self, scores: SampleScores) -> Float64:
        """Per image: what it adds to each bin's residual, then its scores."""
        n, n_bins = self.counts.shape[1], len(self.edges) - 1
        table: Float64 = np.zeros((n, n_bins + len(_SUMS)))
        table[np.arange(n), bin_indices(scores.confidence, self.edges)] = scores.confidence - scores.outcome
        clipped = np.minimum(scores.nll, WORST_NLL)
        table[:, n_bins:] = np.stack([scores.correct, clipped, scores.brier, scores.entropy], axis=1)
        return table

    def metrics(self, world: Float64) -> dict[str, Float64]:
        """What the worlds of a case say, by metric."""
        residuals = world[:, : len(self.edges) - 1]
        found = {"ece": np.abs(residuals).sum(axis=1), "calibration_gap": residuals.sum(axis=1)}
        return found | {name: world[:, len(self.edges) - 1 + k] for k, name in enumerate(_SUMS)}

    def intervals(self, statistics: Statistics, world: Float64) -> dict[str, list[float]]:
        """(low, high) of the ECE, the signed gap and the mean scores of a case."""
        # what the ECE of a calibrated model with these confidences would be: an interval below that reaches 0
        calibrated = self.noise @ np.sqrt(statistics.bin_variance) / statistics.total_weight
        worlds = self.metrics(world)
        found = {
            "ece": bootstrap_interval(statistics.ece, worlds["ece"], bounds=(0, 1), null_replicates=calibrated),
            "calibration_gap": bootstrap_interval(
                statistics.calibration_gap, worlds["calibration_gap"], bounds=(-1, 1)
            ),
        }
        found |= {
            name: bootstrap_interval(getattr(statistics, name), worlds[name], bounds=(0, np.inf)) for name in _SUMS
        }
        return {name: [interval.low, interval.high] for name, interval in found.items()}


def _shift_info(shift: Shift) -> ShiftInfo:
    levels = [float(level) for level in shift.levels or (0,)]
    label = getattr(shift, "label", None)
    return ShiftInfo(shift.name, levels, [str(label(level)) if label else f"{level:g}" for level in levels])


def versions() -> dict[str, str]:
    """What these numbers were computed with."""
    return {
        "driftcal": version("driftcal"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "scikit-learn")},
    }
