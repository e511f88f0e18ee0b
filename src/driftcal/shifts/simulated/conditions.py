"""Which simulated shifts are used, at which levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from driftcal.errors import InputError
from driftcal.shifts.gaussian import Gaussian
from driftcal.shifts.series.changes import SIMULATED_SERIES
from driftcal.shifts.series.series_shift import SeriesNoise, SeriesShift
from driftcal.shifts.shift import Shift
from driftcal.shifts.simulated.image_changes import IMAGE_CHANGES, ImageChange
from driftcal.shifts.tabular.drifts import SIMULATED_DRIFTS, FeatureDrift
from driftcal.shifts.tabular.tabular_noise import TabularNoise
from driftcal.shifts.text.text_shift import SIMULATED_TEXT, TextShift, WordNoise
from driftcal.types import AnyArray

#: Standard deviations of Gaussian noise on pixels in [0, 1].
_NOISE = (0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.25, 0.5)
#: Variances of noise on features, in units of their own: the share of noise in a feature rises from 5 % to 99 %.
_FEATURE_NOISE = (0.05, 0.2, 0.5, 1.2, 3.0, 10.0, 100.0)
#: Levels of noise of words: 1 - e^-level of them change.
_WORD_NOISE = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0)


@dataclass(frozen=True)
class SimulatedCondition:
    """A shift at one level. Shifts of one `family` are alike: cross-validation leaves them out together."""

    family: str
    shift: Shift
    level: float

    @property
    def name(self) -> str:
        """The condition in tables and files: ``cover/3``."""
        return f"{self.shift.name}/{self.level:g}"


def simulated_conditions(
    kind: str = "images", features: AnyArray | None = None, *, categorical: Sequence[int | str] = ()
) -> list[SimulatedCondition]:
    """Separate simulated shifts of ``images``, ``features``, ``text`` or ``series``, each at several levels, without the clean one.

    With `features`, shifts of feature tables and of series are fitted on them; without, fit them before use:
    ``condition.shift.fit(x)``.

    >>> conditions = simulated_conditions()
    >>> len(conditions), conditions[9].name, conditions[9].family
    (94, 'cover/1', 'cover')
    """
    if kind == "images":
        noise = [SimulatedCondition("noise", Gaussian(), deviation**2) for deviation in _NOISE]
        changes = [ImageChange(name) for name in IMAGE_CHANGES]
        return noise + [SimulatedCondition(s.family, s, level) for s in changes for level in s.levels[1:]]
    if kind == "text":
        noise = [SimulatedCondition("noise", WordNoise(), level) for level in _WORD_NOISE]
        texts = [(family, TextShift(name)) for name, (family, *_) in SIMULATED_TEXT.items()]
        return noise + [SimulatedCondition(family, s, level) for family, s in texts for level in s.levels[1:]]
    if kind == "series":
        return _of_series(features)
    if kind != "features":
        raise InputError(
            f"kind must be 'images', 'features', 'text' or 'series'; got {kind!r}. For other inputs register shifts of your own."
        )
    tabular_noise, drifts = TabularNoise(), [FeatureDrift(name) for name in SIMULATED_DRIFTS]
    if features is not None:
        tabular_noise = tabular_noise.fit(features, categorical=categorical)
        statistics = FeatureDrift("feature_offset").fit(features, categorical=categorical)
        drifts = [replace(statistics, name=drift.name) for drift in drifts]
    noise = [SimulatedCondition("noise", tabular_noise, variance) for variance in _FEATURE_NOISE]
    return noise + [
        SimulatedCondition(SIMULATED_DRIFTS[drift.name][0], drift, level)
        for drift in drifts
        for level in drift.levels[1:]
    ]


def _of_series(series: AnyArray | None) -> list[SimulatedCondition]:
    """The simulated shifts of time series; the scales of their channels are learnt once."""
    noise = SeriesNoise() if series is None else SeriesNoise().fit(series)
    changes = [SeriesShift(noise.centre, noise.scale, name) for name in SIMULATED_SERIES]
    return [SimulatedCondition("noise", noise, variance) for variance in _FEATURE_NOISE] + [
        SimulatedCondition(shift.family, shift, level) for shift in changes for level in shift.levels[1:]
    ]
