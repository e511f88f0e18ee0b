"""Ladder temperature, ladder consistency and ladder isotonic: where a window stands on the noise ladder picks the map.

Every rung of the ladder has its own temperature (or accuracy, or isotonic curve) and its own mean of a label-free
statistic. At use the statistic of the last rows is looked up between the rungs' means. On a ladder that reaches chance, as
noise does, the look-up ends where accuracy has fallen 60 % of the way: at chance temperatures are infinite, and noise
is among the worst that happens to a model, so that the rungs below ask for more doubt than other kinds of drift deserve.
docs/research.md tells how that was settled.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport, finish
from driftcal.calibrators.nonparametric.isotonic import STRICT, IsotonicRegressionMulticlass
from driftcal.calibrators.nonparametric.kernels.isotonic_fit import apply_curves, fit_curves
from driftcal.calibrators.scaling.temperature import beta_floor, fit_nll, newton, nll_sums
from driftcal.calibrators.windowed.expectation_consistency import consistent_temperature
from driftcal.calibrators.windowed.windowed_calibrator import WindowedCalibrator
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import log_softmax_kernel, softmax_kernel
from driftcal.drift.level_scale import LevelScale, interpolate_levels
from driftcal.drift.statistics import check_statistic, data_statistic, window_statistic
from driftcal.errors import NoFiniteOptimum
from driftcal.types import Array, Float64, Logits

#: How far down a ladder that reaches chance a window is believed to be at most: so much of the way from clean accuracy.
FARTHEST = 0.6
#: A ladder reaches chance if it gets so much of the way.
REACHED = 0.9
#: How much the clean rung weighs in the static map; the others up to the last usable one share the rest.
CLEAN_SHARE = 0.5


class LevelMatchingCalibrator(WindowedCalibrator):
    """What they have in common: the ruler and where it ends."""

    statistics_: Float64
    accuracies_: Float64
    last_: float

    @abstractmethod
    def _rung_reading(self, level_data: LabelledLogits) -> float:
        """The mean of the statistic over labelled rows."""

    @abstractmethod
    def _reading(self, window: Logits) -> float:
        """The mean of the statistic over a checked window."""

    def _measure(self, by_level: Sequence[LabelledLogits]) -> None:
        self.statistics_ = np.array([self._rung_reading(level_data) for level_data in by_level])
        self.accuracies_ = np.array([level_data.accuracy for level_data in by_level])
        self.last_ = farthest(self.accuracies_, 1 / by_level[0].n_classes)

    def position(self, window: Logits) -> float:
        """Where a window of unlabelled logits stands on the ladder, in rungs: 0 is clean."""
        scores, _ = self._checked(window)
        return min(LevelScale.of(self.statistics_).position(self._reading(scores)), self.last_)

    def _shares(self) -> Float64:
        """What each rung weighs in the static map."""
        used = math.ceil(self.last_) + 1
        shares = np.zeros(len(self.statistics_))
        shares[1:used] = (1 - CLEAN_SHARE) / max(1, used - 1)
        shares[0] = 1 - shares.sum()
        return shares


class _NamedStatistic(LevelMatchingCalibrator):
    """A ruler by one of the `STATISTICS`."""

    statistic: str

    def _rung_reading(self, level_data: LabelledLogits) -> float:
        return data_statistic(check_statistic(self.statistic), level_data)

    def _reading(self, window: Logits) -> float:
        return window_statistic(self.statistic, window)


def farthest(accuracies: Float64, chance: float) -> float:
    """The position on a ladder where accuracy has fallen `FARTHEST` of the way to chance; its end if it stops before chance.

    >>> round(farthest(np.array([0.6, 0.5, 0.4, 0.3, 0.2, 0.1]), 0.1), 6)
    3.0
    >>> farthest(np.array([0.6, 0.5, 0.4, 0.3, 0.2]), 0.1)
    4.0
    """
    falls = np.minimum.accumulate(accuracies)
    if falls[-1] > accuracies[0] - REACHED * (accuracies[0] - chance):
        return float(len(accuracies) - 1)
    target = accuracies[0] - FARTHEST * (accuracies[0] - chance)
    below = np.flatnonzero(falls <= target)
    if not len(below) or below[0] == 0:
        return float(len(accuracies) - 1)
    k = int(below[0])
    return float(k - 1 + (falls[k - 1] - target) / (falls[k - 1] - falls[k]))


class _LadderOfTemperatures(_NamedStatistic):
    """A temperature for every rung, and one for all of them."""

    fitted = ("temperature_", "temperatures_", "statistics_", "accuracies_", "last_")

    def __init__(
        self, *, statistic: str = "margin", t_max: float | None = None, classes: Sequence[Any] | None = None
    ) -> None:
        self.statistic = statistic
        self.t_max = t_max
        self.classes = classes

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        self._measure(by_level)
        betas, reports = _betas(by_level, self.t_max)
        self.temperatures_ = 1 / betas
        if len(by_level) == 1:
            self.temperature_ = float(self.temperatures_[0])
            return reports[0]
        shares = self._shares()

        def loss(beta: float) -> Sequence[float]:
            parts = [
                s * r.reduce_sum(nll_sums, 3, beta) / r.weight for s, r in zip(shares, by_level, strict=True) if s > 0
            ]
            return [float(part) for part in np.sum(parts, axis=0)]

        start = float(np.exp(shares @ np.log(betas)))
        beta, after, passes = newton(loss, start, beta_floor(self.t_max))
        self.temperature_ = float(1 / beta)
        return FitReport("nll", loss(1.0)[0], after, passes + 1 + max(r.passes for r in reports))

    def _static(self) -> Calibrator:
        return self._temperature(self.temperature_)

    def _map(self, logits: Logits, out: Float64) -> None:
        softmax_kernel(logits, 1 / self.temperature_, out)

    def _log_map(self, logits: Logits, out: Float64) -> None:
        log_softmax_kernel(logits, 1 / self.temperature_, out)


class LevelTemperatureScaling(_LadderOfTemperatures):
    """A temperature for every rung of the noise ladder; the last rows say which: log T is read between the rungs.

    Rung i has T_i (by NLL) and s_i, the mean over its rows of a label-free `statistic` (default: top logit minus
    second). A window with mean s stands where s lies between the running minima of s_i, at most 60 % of the way down
    to chance if they get there. Without a window one temperature answers, fitted to all rungs down to there, the clean one counting as much
    as the others together. Fitted without `levels` it is temperature scaling.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean, noisy = rng.normal(size=(800, 4)) * 6, rng.normal(size=(800, 4)) * 3
    >>> y = (clean + rng.normal(size=(800, 4)) * 2).argmax(axis=1)
    >>> rungs = np.repeat([0, 1], 800)
    >>> ladder = LevelTemperatureScaling().fit(np.vstack([clean, noisy + clean / 6]), np.tile(y, 2), levels=rungs)
    >>> ladder.adapt(clean[:100]).temperature_ < ladder.adapt(noisy[:100]).temperature_
    True
    """

    def _adapted(self, window: Logits) -> Calibrator:
        return self._temperature(math.exp(interpolate_levels(np.log(self.temperatures_), self.position(window))))


class LevelExpectationConsistency(_LadderOfTemperatures):
    """The accuracy that the noise ladder has where the last rows stand; T makes their mean confidence agree with it.

    As `LevelTemperatureScaling`, but what is read between the rungs is accuracy, at least the last usable rung's. The
    temperature then follows from the window itself (expectation consistency, Clarté et al. 2023), so that logits of
    another size than the ladder's get the temperature they need. Fitted without `levels` every window is believed to
    have the clean accuracy.
    """

    def estimate(self, window: Logits) -> float:
        """The estimated accuracy of a window of unlabelled logits."""
        return interpolate_levels(self.accuracies_, self.position(window))

    def _adapted(self, window: Logits) -> Calibrator:
        return self._temperature(consistent_temperature(window, self.estimate(window), self.temperature_))


def _betas(by_level: Sequence[LabelledLogits], t_max: float | None) -> tuple[Float64, list[FitReport]]:
    """1/T of every rung; one without a finite optimum takes its nearest neighbour's."""
    found: dict[int, float] = {}
    reports, reasons = [], []
    for i, level_data in enumerate(by_level):
        try:
            found[i], report = fit_nll(level_data, t_max)
            reports.append(report)
        except NoFiniteOptimum as reason:
            reasons.append(reason)
    if not found:
        raise reasons[0]
    places = np.array(list(found))
    nearest = places[np.abs(np.arange(len(by_level))[:, None] - places).argmin(axis=1)]
    return np.array([found[int(i)] for i in nearest]), reports


class LevelIsotonicRegression(_NamedStatistic):
    """An isotonic curve for all classes (IRM) on every rung of the noise ladder, blended where the last rows stand.

    As `LevelTemperatureScaling`, with the two neighbouring rungs' curves averaged. Without a window the mean of all curves down
    to the last usable rung answers, the clean one counting as much as the others together. Fitted without `levels` it
    is IRM.
    """

    fitted = ("rung_scores_", "rung_values_", "rung_starts_", "statistics_", "accuracies_", "last_")

    def __init__(self, *, statistic: str = "margin", classes: Sequence[Any] | None = None) -> None:
        self.statistic = statistic
        self.classes = classes

    def _fit_levels(self, by_level: Sequence[LabelledLogits]) -> FitReport:
        self._measure(by_level)
        used = [fit_curves(level_data, 1) for level_data in by_level]
        self.rung_scores_ = np.concatenate([scores for (scores, _, _), _ in used])
        self.rung_values_ = np.concatenate([values for (_, values, _), _ in used])
        self.rung_starts_: Array = np.cumsum([0, *(len(scores) for (scores, _, _), _ in used)])
        shares = self._shares()
        before = sum(s * r.before for s, (_, r) in zip(shares, used, strict=True))
        after = sum(s * r.after for s, (_, r) in zip(shares, used, strict=True))
        return FitReport(used[0][1].loss, float(before), float(after), used[0][1].passes)

    def _adapted(self, window: Logits) -> Calibrator:
        position = self.position(window)
        low = min(int(position), len(self.statistics_) - 1)
        shares = np.zeros(len(self.statistics_))
        shares[low] = 1 - (position - low)
        if position > low:
            shares[low + 1] = position - low
        return self._blend(shares)

    def _static(self) -> Calibrator:
        return self._blend(self._shares())

    def _blend(self, shares: Float64) -> Calibrator:
        frozen = IsotonicRegressionMulticlass()
        frozen.curve_scores_, frozen.curve_values_ = self._curve(shares)
        frozen.curve_starts_ = np.array([0, len(frozen.curve_scores_)])
        return self._frozen(frozen)

    def _curve(self, shares: Float64) -> tuple[Float64, Float64]:
        """The average of the rungs' curves: straight between all their points, so exact."""
        parts = [
            (share, slice(self.rung_starts_[k], self.rung_starts_[k + 1]))
            for k, share in enumerate(shares)
            if share > 0
        ]
        scores = np.unique(np.concatenate([self.rung_scores_[part] for _, part in parts]))
        values = np.sum(
            [share * np.interp(scores, self.rung_scores_[part], self.rung_values_[part]) for share, part in parts],
            axis=0,
        )
        return scores, np.maximum.accumulate(values)  # rounding must not let it fall

    def _map(self, logits: Logits, out: Float64) -> None:
        scores, values = self._curve(self._shares())
        softmax_kernel(logits, 1.0, out)
        apply_curves(out, scores, values, np.array([0, len(scores)]), STRICT)
        finish(logits, out)
