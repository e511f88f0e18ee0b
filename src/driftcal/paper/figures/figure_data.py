"""The data of the figures of experiments, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from driftcal.types import Array

#: Label of a calibrator -> (low, high) per group, None if there is none.
Intervals = Mapping[str, Sequence[tuple[float, float] | None]]


@dataclass(frozen=True)
class Bars:
    """Groups of bars, one bar per calibrator.

    Parameters
    ----------
    name : file name without ending.
    title : what the figure shows.
    caption : sentences below the figure.
    groups : names of the groups.
    series : label of a calibrator -> one value per group, None if there is none.
    axis : label of the y axis.
    intervals : label -> one interval per group.
    published : label -> the paper's values, drawn as circles.
    all_filled : fill all bars; otherwise bars of calibrators that were tuned on clean images are hatched.
    """

    name: str
    title: str
    caption: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    axis: str
    intervals: Intervals = field(default_factory=dict)
    published: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    all_filled: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes with a line per series.

    Parameters
    ----------
    title : what the panel shows.
    x : positions on the x axis.
    series : label of a calibrator -> one value per position, None if there is none.
    x_axis, y_axis : labels of the axes.
    ticks : labels of the positions, () for their numbers.
    logarithmic : scale the x axis by logarithms.
    diagonal : draw the diagonal of a reliability diagram.
    y_limits : limits of the y axis, None for automatic ones.
    """

    title: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    x_axis: str
    y_axis: str
    ticks: Sequence[str] = ()
    logarithmic: bool = False
    diagonal: bool = False
    y_limits: tuple[float | None, float | None] = (0.0, None)


@dataclass(frozen=True)
class Lines:
    """Panels side by side with one legend."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Histograms:
    """Distributions of confidence: a panel per method, a line per calibrator."""

    name: str
    title: str
    caption: str
    edges: Sequence[float]
    panels: Mapping[str, Mapping[str, Sequence[float]]]
    axis: str = "confidence"


@dataclass(frozen=True)
class Points:
    """A point (x, y) per calibrator. A line joins the `pareto_front`."""

    name: str
    title: str
    caption: str
    points: Mapping[str, tuple[float, float]]
    x_axis: str
    y_axis: str
    pareto_front: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Picture:
    """An image, its true class, and the predictions of the calibrators: label -> (class, confidence)."""

    image: Array
    heading: str
    true_class: str
    predictions: Mapping[str, tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Rows of images, each with the confidence of every calibrator."""

    name: str
    title: str
    caption: str
    rows: Sequence[Sequence[Picture]]


Figure = Bars | Lines | Histograms | Points | Pictures
