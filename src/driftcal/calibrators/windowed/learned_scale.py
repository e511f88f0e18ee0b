"""A ladder whose ruler is learnt: what says best, row by row, how often the model is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.levels import joined
from driftcal.calibrators.samplewise.pts import ParameterizedTemperatureScaling
from driftcal.calibrators.scaling.vector import temperature_or_not
from driftcal.calibrators.windowed.expectation_consistency import consistent_temperature
from driftcal.calibrators.windowed.level_matching import CLEAN_SHARE, LevelMatchingCalibrator
from driftcal.core.dataset import LabelledLogits
from driftcal.drift.level_scale import interpolate_levels
from driftcal.types import Float64, Labels, Logits, Weights


class LevelParameterizedScaling(LevelMatchingCalibrator):
    """The accuracy that the ladder has where the last rows stand; a network on their logits says where that is.

    The network is that of PTS, tuned on all rungs, the clean one counting as much as the others together. It gives every row a
    confidence, and the mean over a window is looked up between the rungs' own means: drift that leaves margins as they
    were may still change the pattern of the smaller logits. T then makes the window's mean confidence equal to the
    accuracy found there (expectation consistency, Clarté et al. 2023). Without a window PTS itself answers; fitted without
    `levels` every window is believed to have the clean accuracy.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean, noisy = rng.normal(size=(400, 4)) * 6, rng.normal(size=(400, 4)) * 3
    >>> y = (clean + rng.normal(size=(400, 4)) * 2).argmax(axis=1)
    >>> rungs = np.repeat([0, 1], 400)
    >>> ladder = LevelParameterizedScaling().fit(np.vstack([clean, noisy + clean / 6]), np.tile(y, 2), levels=rungs)
    >>> ladder.estimate(clean[:100]) > ladder.estimate(noisy[:100])
    True
    """

    counts_rows = True
    fitted = (*ParameterizedTemperatureScaling.fitted, "clean_temperature_", "statistics_", "accuracies_", "last_")

    def __init__(self, *, tol: float = 1e-4, seed: int = 0, classes: Sequence[Any] | None = None) -> None:
        self.tol = tol
        self.seed = seed
        self.classes = classes

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        network = ParameterizedTemperatureScaling(tol=self.tol, seed=self.seed)
        rest = (1 - CLEAN_SHARE) / max(1, len(by_level) - 1)
        report = network._fit(joined(by_level, [1 - rest * (len(by_level) - 1), *[rest] * (len(by_level) - 1)]))
        for name in ParameterizedTemperatureScaling.fitted:
            setattr(self, name, getattr(network, name))
        # the network's own is far away where noise makes logits many times larger
        beta, passes = temperature_or_not(by_level[0], None)
        self.clean_temperature_ = float(1 / beta) if passes else 1.0
        self._measure(by_level)
        return report

    def estimate(self, window: Logits) -> float:
        """The estimated accuracy of a window of unlabelled logits."""
        return interpolate_levels(self.accuracies_, self.position(window))

    def _adapted(self, window: Logits) -> Calibrator:
        return self._temperature(consistent_temperature(window, self.estimate(window), self.clean_temperature_))

    def _network(self) -> ParameterizedTemperatureScaling:
        network = ParameterizedTemperatureScaling(seed=self.seed)
        for name in ParameterizedTemperatureScaling.fitted:
            setattr(network, name, getattr(self, name))
        return network

    def _rung_reading(self, level_data: LabelledLogits) -> float:
        network = self._network()

        def add(logits: Logits, labels: Labels, weights: Weights, sums: Float64) -> None:
            found = np.empty(logits.shape)
            network._map(logits, found)
            sums[0] += weights @ found.max(axis=1)

        return float(level_data.reduce_sum(add, 1)[0] / level_data.weight)

    def _reading(self, window: Logits) -> float:
        return float(self._static().predict_proba(window).max(axis=1).mean())

    def _static(self) -> Calibrator:
        return self._frozen(self._network())

    def _map(self, logits: Logits, out: Float64) -> None:
        self._network()._map(logits, out)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        self._network()._log_map(logits, out)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        network = ParameterizedTemperatureScaling()
        network.n_features_in_ = self.n_features_in_
        return network._shapes()
