"""Suites: named sets of shifts, each with all its levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from driftcal.errors import InputError, UnknownName
from driftcal.shifts.affine import AFFINE, Affine
from driftcal.shifts.corruptions.corruption import CORRUPTIONS, Corruption
from driftcal.shifts.series.changes import SERIES_SHIFTS
from driftcal.shifts.series.series_shift import SeriesShift
from driftcal.shifts.shift import Shift
from driftcal.shifts.tabular.drifts import DRIFTS, FeatureDrift
from driftcal.shifts.text.text_shift import TEXT_SHIFTS, TextShift
from driftcal.types import AnyArray

#: The corruptions that the paper's -H calibrators are tuned on.
H_TUNING = ("speckle_noise", "gaussian_blur", "spatter", "saturate")


@dataclass(frozen=True, repr=False)
class Suite:
    """Shifts that have a table of levels, each with all its levels, 0 (the identity) included.

    >>> print(SUITES["h-tuning"])
    h-tuning: the corruptions that the paper's -H calibrators are tuned on
      speckle_noise  levels 0-5
      gaussian_blur  levels 0-5
      spatter        levels 0-5
      saturate       levels 0-5
    """

    name: str
    description: str
    shifts: tuple[Shift, ...]

    def fit(self, features: AnyArray, *, categorical: Sequence[int | str] = ()) -> Suite:
        """The same suite with its tabular drifts, or its shifts of series, in the units of these inputs."""

        def in_units(shift: Shift) -> Shift:
            if isinstance(shift, FeatureDrift):
                return shift.fit(features, categorical=categorical)
            return shift.fit(features) if isinstance(shift, SeriesShift) else shift

        return replace(self, shifts=tuple(map(in_units, self.shifts)))

    def __iter__(self) -> Iterator[tuple[Shift, int]]:
        """Every (shift, level)."""
        return ((shift, level) for shift in self.shifts for level in shift.levels or ())

    def __len__(self) -> int:
        return sum(len(shift.levels or ()) for shift in self.shifts)

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self.shifts)} shifts, {len(self)} conditions)"

    def __str__(self) -> str:
        width = max(len(shift.name) for shift in self.shifts)
        lines = (f"  {shift.name:<{width}}  levels 0-{len(shift.levels or (0,)) - 1}" for shift in self.shifts)
        return "\n".join([f"{self.name}: {self.description}", *lines])


def _corruptions(table: str | None) -> tuple[Corruption, ...]:
    return tuple(Corruption(name, table) for name in CORRUPTIONS)


_AFFINE = tuple(Affine(name) for name in AFFINE)

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("affine", "the paper's nine affine shifts", _AFFINE),
        Suite("imagenet-c", "19 corruptions with the parameters for 224 pixels", _corruptions("imagenet-c")),
        Suite("cifar10-c", "19 corruptions with the parameters for 32 pixels", _corruptions("cifar10-c")),
        Suite(
            "h-tuning", "the corruptions that the paper's -H calibrators are tuned on", tuple(map(Corruption, H_TUNING))
        ),
        Suite(
            "all",
            "the nine affine shifts and the 19 corruptions, with parameters by image size",
            (*_AFFINE, *_corruptions(None)),
        ),
        Suite("tabular", "seven drifts of feature tables", tuple(map(FeatureDrift, DRIFTS))),
        Suite("text", "six shifts of text", tuple(map(TextShift, TEXT_SHIFTS))),
        Suite("series", "six shifts of time series", tuple(SeriesShift(name=name) for name in SERIES_SHIFTS)),
    )
}


def get_suite(name: str | Suite) -> Suite:
    """The suite called `name`: ``affine``, ``imagenet-c``, ``cifar10-c``, ``h-tuning``, ``all``, ``tabular``, ``text`` or
    ``series``.

    >>> suite = get_suite("affine")
    >>> len(suite.shifts), len(suite)
    (9, 90)
    """
    if isinstance(name, Suite):
        return name
    if not isinstance(name, str):
        raise InputError(
            f"a suite must be a name or a Suite; got {name!r}. Make one: driftcal.shifts.Suite('mine', 'what it is', (shift, ...))."
        )
    if name not in SUITES:
        raise UnknownName.of("suite", name, SUITES)
    return SUITES[name]
