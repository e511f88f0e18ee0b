"""Tables of curves and bins with a binary search without branches, as a torch module and an ONNX graph need it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from driftcal.calibrators.nonparametric.kernels.tied_scores import TOLERANCE, raised_edges
from driftcal.types import Array, Float64


@dataclass(frozen=True)
class Search:
    """A binary search among sorted numbers, one segment of `sorted` per class, as steps without branches.

    The search probes sorted[at], beginning at `start`. Each step adds `above` if the probe is less than the score, else
    `below`. After the last step, `at` is first + (how many numbers of the class are less) + class.

    A segment may have any length. The first step of class c splits it into two overlapping windows of length 2^k − 1.
    While longer segments are being halved, the steps of c are 0. `start`, `length` and the rows of `above` and `below`
    have one entry per class, or one for all classes. `length` is the length of each segment.
    """

    sorted: Float64
    start: Array
    above: Array
    below: Array
    length: Array

    @classmethod
    def among(cls, numbers: Float64, starts: Array) -> Search:
        """The search in numbers[starts[c]:starts[c + 1]] for each class c; no segment is empty."""
        first, length = starts[:-1], np.diff(starts)
        depth = np.frexp(length)[1].astype(np.int64) - 1  # floor(log2(length))
        class_number = np.arange(len(length))
        steps = int(depth.max()) + 1
        above = np.zeros((steps, len(length)), np.int64)
        below = np.zeros_like(above)
        for j, t in enumerate(range(steps - 1, -1, -1)):
            half = 1 << t
            # this probe and the next one, relative to the lowest index still possible
            probe = half - 1
            next_probe = (half >> 1) - 1 if t else class_number
            is_first, is_later = depth == t, depth > t
            above[j] = np.where(
                is_first, length - half + 1 + next_probe - probe, np.where(is_later, half + next_probe - probe, 0)
            )
            below[j] = np.where(is_first | is_later, next_probe - probe, 0)
        return cls(numbers, first + (np.int64(1) << depth) - 1, above, below, length)

    def locate(self, scores: Float64) -> Array:
        """The same search in numpy, for (n, classes) scores.

        >>> search = Search.among(np.array([0.1, 0.2, 0.3, 0.5]), np.array([0, 3, 4]))
        >>> search.locate(np.array([[0.25, 0.5], [0.3, 0.6]]))
        array([[2, 4],
               [2, 5]])
        """
        at = np.broadcast_to(self.start, scores.shape)
        for above, below in zip(self.above, self.below, strict=True):
            at = at + np.where(self.sorted[at] < scores, above, below)
        return np.asarray(at)


#: The unit of slopes, a power of 2: between two scores close to 0 a slope would overflow.
SLOPE_UNIT = 2.0**60


@dataclass(frozen=True)
class LookupTable:
    """Replaces a score by value + slope·SLOPE_UNIT·(score − left), with the entries at the end of the search.

    `line` is (left, slope). Bins have values only; `line` is then None.
    """

    search: Search
    value: Float64
    line: tuple[Float64, Float64] | None = None


def curve_table(scores: Float64, values: Float64, starts: Array, added_slope: float = 0.0) -> LookupTable:
    """Piecewise linear curves, constant outside their points. Each curve has one segment more than points.

    Parameters
    ----------
    scores, values
        The points of all curves, one curve after the other.
    starts
        Curve c has the points starts[c]:starts[c + 1].
    added_slope
        `added_slope`·score is added to all curves.
    """
    first_segment = np.arange(len(scores)) + np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    below, above = first_segment, first_segment + 1  # the segments that end and begin at each point
    inner = np.ones(len(scores) + len(starts) - 1, bool)
    inner[starts[:-1] + np.arange(len(starts) - 1)] = False
    inner[starts[1:] + np.arange(len(starts) - 1)] = False
    left, value, width, rise = np.zeros(len(inner)), np.empty(len(inner)), np.ones(len(inner)), np.zeros(len(inner))
    value[below] = values  # for the first segment of a curve; the next line overwrites all others
    value[above] = values
    left[above] = scores
    right_end, right_value = np.zeros(len(inner)), np.zeros(len(inner))
    right_end[below], right_value[below] = scores, values
    width[inner] = (right_end - left)[inner]
    rise[inner] = (right_value - value)[inner]
    left[~inner] = 0
    slope = (rise / (width * SLOPE_UNIT)) + added_slope / SLOPE_UNIT
    return LookupTable(Search.among(scores, starts), value + added_slope * left, (left, slope))


def isotonic_table(scores: Float64, values: Float64, starts: Array, added_slope: float = 0.0) -> LookupTable:
    """Isotonic curves of scores: a score that is equal to a point up to rounding gets the value of the point.

    Points with the same value are one block. A flat segment covers a block and what counts as equal to its ends;
    between two blocks is the straight line through their ends. The parameters are those of `curve_table`.
    """
    entries: list[Float64] = []
    segments: list[Float64] = []
    for low, high in itertools.pairwise(starts):
        points, heights = scores[low:high], values[low:high]
        first = np.flatnonzero(np.append(True, np.diff(heights) != 0))
        left, right, height = points[np.append(first[1:], len(points)) - 1][:-1], points[first][1:], heights[first]
        middle = left + 0.5 * (right - left)
        lower, upper = np.minimum(raised_edges(left), middle), np.maximum(right * (1 - TOLERANCE), middle)
        edges = np.column_stack([lower, upper]).reshape(-1)
        rows = np.zeros((2 * len(height) - 1, 3))  # value, left and slope of each segment
        rows[::2, 0], rows[1::2, 0] = height, height[:-1] + added_slope * left
        rows[1::2, 1], rows[1::2, 2] = left, np.diff(height) / ((right - left) * SLOPE_UNIT)
        rows[:, 2] += added_slope / SLOPE_UNIT
        entries.append(edges if len(edges) else np.array([np.inf]))
        segments.append(rows if len(edges) else np.repeat(rows, 2, axis=0))
    first_entry = np.cumsum([0, *(len(part) for part in entries)])
    value, left_end, slope = (column.copy() for column in np.concatenate(segments).T)
    return LookupTable(Search.among(np.concatenate(entries), first_entry), value, (left_end, slope))


def bin_table(edges: Float64, values: Float64, steepness: Float64 | float = 1.0) -> LookupTable:
    """Bins (edge, next edge] for each class: inner edges (C, bins − 1) and values (C, bins).

    `steepness` is the slope of the scores in their log-odds, if there is one: steep scores have larger rounding errors.
    """
    starts = np.arange(len(edges) + 1) * max(1, edges.shape[1])
    if edges.shape[1] == 0:  # a single bin: one infinite edge
        return LookupTable(Search.among(np.full(len(values), np.inf), starts), np.repeat(values, 2))
    return LookupTable(
        Search.among(raised_edges(edges, np.reshape(steepness, (-1, 1))).reshape(-1), starts), values.reshape(-1)
    )
