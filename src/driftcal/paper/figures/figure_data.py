"""What an experiment found, as plain values: tables and what its figures show. `report` draws it, nothing here does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftcal.report.table import Table as Table
from driftcal.report.table import Value as Value
from driftcal.types import Array


@dataclass(frozen=True)
class Bars:
    """Bars in groups: `series` maps a calibrator's label to one value per group, None where there is none.

    `intervals` maps a label to one (low, high) per group, `published` to the paper's own values, drawn as marks. Bars are
    hatched or filled by what was tuned on, all filled where `one_tuning` says that this does not matter.
    """

    name: str
    title: str
    caption: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    axis: str
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] = field(default_factory=dict)
    published: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    one_tuning: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes with a line per series; `ticks` name the places on the x axis, or `x` gives numbers."""

    title: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    x_axis: str
    y_axis: str
    ticks: Sequence[str] = ()
    logarithmic: bool = False
    diagonal: bool = False
    y_limits: tuple[float | None, float | None] = (0.0, None)
    bands: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Lines:
    """Panels side by side with one legend."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Histograms:
    """Distributions of confidence: a panel per method, one line per way it was tuned."""

    name: str
    title: str
    caption: str
    edges: Sequence[float]
    panels: Mapping[str, Mapping[str, Sequence[float]]]
    axis: str = "confidence"


@dataclass(frozen=True)
class Points:
    """A calibrator per point: two of its numbers against each other; a line joins those of the `front`."""

    name: str
    title: str
    caption: str
    points: Mapping[str, tuple[float, float]]
    x_axis: str
    y_axis: str
    front: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Picture:
    """An image, what it shows, and what each calibrator says of it: label -> (answer, confidence)."""

    image: Array
    heading: str
    truth: str
    answers: Mapping[str, tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Rows of images with the confidence of every calibrator beside each."""

    name: str
    title: str
    caption: str
    rows: Sequence[Sequence[Picture]]


Figure = Bars | Lines | Histograms | Points | Pictures


@dataclass(frozen=True)
class Outcome:
    """All that one experiment found. `notes` are sentences that belong under the tables."""

    experiment: str
    title: str
    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
