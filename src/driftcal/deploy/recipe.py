"""What a fitted calibrator does to logits, as plain numbers: the torch module and the ONNX graph both read this.

Every calibrator is scores (a softmax, a blend of two, or Platt's sigmoids), then perhaps a table that replaces each
score, then perhaps rows that are made to sum to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from driftcal.calibrators import (
    CALIBRATORS,
    Calibrator,
    EnsembleTemperatureScaling,
    HistogramBinning,
    Identity,
    IsotonicRegression,
    IsotonicRegressionMulticlass,
    PlattBinning,
    PlattScaling,
    TemperatureIsotonicRegression,
    TemperatureScaling,
)
from driftcal.calibrators.isotonic import STRICT
from driftcal.errors import InputError, NotFittedError
from driftcal.types import Array, Float64

Finish = Literal["nothing", "normalise", "mask"]

#: Another exponential function gives a score that differs by a few units in the last place, and by |logarithm| times
#: as much in a sigmoid's tail. A bin's upper edge is a tuning row's score, so it is moved up by this share of itself.
EDGE_MARGIN = 1e-13


@dataclass(frozen=True)
class Search:
    """A binary search among sorted numbers, one stretch of `sorted` per class, as steps without branches.

    Probe sorted[at], starting at `start`; each step adds `above` where the probe is less than the score, else `below`.
    After the last step, at is first + (how many of the class' numbers are less) + class. A stretch may have any length:
    the first step of class c splits it into two overlapping windows of length 2^k − 1, and while longer ones are
    still being halved the steps of c are 0. `start` and the rows of `above` and `below` have one entry per class, or
    one for all.
    """

    sorted: Float64
    start: Array
    above: Array
    below: Array

    @classmethod
    def among(cls, numbers: Float64, starts: Array) -> Search:
        """The search in numbers[starts[c]:starts[c + 1]] for each class c; no stretch is empty."""
        first, length = starts[:-1], np.diff(starts)
        own = np.frexp(length)[1].astype(np.int64) - 1  # floor(log2(length))
        class_number = np.arange(len(length))
        steps = int(own.max()) + 1
        above = np.zeros((steps, len(length)), np.int64)
        below = np.zeros_like(above)
        for j, t in enumerate(range(steps - 1, -1, -1)):
            half = 1 << t
            # where the next probe lies, relative to the lowest place still possible
            ahead = (half >> 1) - 1 if t else class_number
            opening, going = own == t, own > t
            here = half - 1
            above[j] = np.where(opening, length - half + 1 + ahead - here, np.where(going, half + ahead - here, 0))
            below[j] = np.where(opening | going, ahead - here, 0)
        return cls(numbers, first + (np.int64(1) << own) - 1, above, below)

    def locate(self, scores: Float64) -> Array:
        """The same search in numpy, for (n, classes) scores.

        >>> Search.among(np.array([0.1, 0.2, 0.3, 0.5]), np.array([0, 3, 4])).locate(np.array([[0.25, 0.5], [0.3, 0.6]]))
        array([[2, 4],
               [2, 5]])
        """
        at = np.broadcast_to(self.start, scores.shape)
        for above, below in zip(self.above, self.below, strict=True):
            at = at + np.where(self.sorted[at] < scores, above, below)
        return np.asarray(at)


#: More buckets than this would not fit the cache beside a model.
_MOST_BUCKETS = 1 << 15


@dataclass(frozen=True)
class Buckets:
    """A shorter way into one long curve: the bucket of a score says where its search starts.

    Buckets are equally wide in the score's fourth root. Roots, products and their whole part are exact to the bit
    everywhere and never decrease, so a bucket holds the same scores wherever it is computed.
    """

    scale: float
    start: Array
    sorted: Float64
    above: Array
    below: Array

    @classmethod
    def of(cls, search: Search) -> Buckets | None:
        """Buckets for a search among one stretch, where they save at least two of its steps."""
        scale = float(_MOST_BUCKETS - 1)
        if len(search.start) > 1:
            return None
        bucket = (np.sqrt(np.sqrt(search.sorted)) * scale).astype(np.int64)
        first = np.searchsorted(bucket, np.arange(_MOST_BUCKETS))
        steps = int(np.diff(first, append=len(bucket)).max()).bit_length()
        if steps + 2 > len(search.above):
            return None
        # beyond a bucket's own numbers lie greater ones, which no probe mistakes; the last bucket needs some, too
        padded = np.concatenate([search.sorted, np.full(1 << steps, np.inf)])
        half = (np.int64(1) << np.arange(steps - 1, -1, -1))[:, None]
        last = half == 1
        ahead = half // 2
        return cls(scale, first + half[0, 0] - 1, padded, np.where(last, 1, ahead), np.where(last, 0, -ahead))


@dataclass(frozen=True)
class Table:
    """What replaces a score: value + rise·(score − left)/width, read where the search ends.

    Bins have only values: `line` is then None.
    """

    search: Search
    value: Float64
    line: tuple[Float64, Float64, Float64] | None = None  # left, width, rise


@dataclass(frozen=True)
class Recipe:
    """Scores, table, strictness and finish of one calibrator.

    Scores are σ(slope·log-odds + intercept) with `platt`, else softmax(scale·z); `blend` = (w1, w2, w3) makes them
    w1·softmax(scale·z) + w2·softmax(z) + w3/(classes that are not masked). `strict`·score is added after the table.
    """

    n_classes: int
    keeps_accuracy: bool
    scale: float = 1.0
    blend: tuple[float, float, float] | None = None
    platt: tuple[Float64, Float64] | None = None
    table: Table | None = None
    strict: float = 0.0
    finish: Finish = "nothing"


def recipe_of(calibrator: Calibrator) -> Recipe:
    """The recipe of a fitted calibrator."""
    if not isinstance(calibrator, Calibrator):
        raise InputError(
            f"only a calibrator can be exported; this is a {type(calibrator).__name__}. Pass the calibrator of a "
            "CalibratedModel, or the path of a saved one to append_to_onnx."
        )
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError("only a fitted calibrator can be exported; this one is not. Call fit(logits, y) first.")
    if type(calibrator) not in CALIBRATORS.values():  # a class of the user's may map as it likes
        raise InputError(
            f"driftcal exports its own calibrators; this is a {type(calibrator).__name__}. Write its map as a torch module "
            "or an ONNX graph by hand."
        )
    n, keeps = calibrator.n_features_in_, calibrator.keeps_accuracy
    match calibrator:
        case Identity():
            return Recipe(n, keeps)
        case TemperatureScaling():
            return Recipe(n, keeps, scale=1 / calibrator.temperature_)
        case EnsembleTemperatureScaling():
            scaled, plain, doubt = (float(weight) for weight in calibrator.weights_)
            blend = (scaled, plain, doubt)
            return Recipe(n, keeps, scale=1 / calibrator.temperature_, blend=blend, finish="normalise")
        case IsotonicRegression() | IsotonicRegressionMulticlass() | TemperatureIsotonicRegression():
            return Recipe(
                n,
                keeps,
                scale=1 / getattr(calibrator, "temperature_", 1.0),
                table=_curves(calibrator.curve_scores_, calibrator.curve_values_, calibrator.curve_starts_),
                strict=STRICT if isinstance(calibrator, IsotonicRegressionMulticlass) else 0.0,
                finish="normalise",
            )
        case PlattScaling():
            return Recipe(n, keeps, platt=(calibrator.slopes_, calibrator.intercepts_), finish="normalise")
        case HistogramBinning():
            table = _bins(calibrator.bin_edges_, calibrator.bin_values_)
            return Recipe(n, keeps, table=table, finish="normalise")
        case PlattBinning():
            return Recipe(
                n,
                keeps,
                platt=(calibrator.slopes_, calibrator.intercepts_),
                table=_bins(calibrator.bin_edges_, calibrator.bin_values_),
                finish="normalise" if calibrator.normalise else "mask",
            )
    raise InputError(
        f"{type(calibrator).__name__} has no export as torch module or ONNX graph. Use driftcal.load(path).predict_proba(logits), or "
        "tune a method that has: base, ts, ets, ts-ir, ir, irm, ps, hb, pbmc."
    )


def _curves(scores: Float64, values: Float64, starts: Array) -> Table:
    """Curves as segments: each has one more than points, the outer two are flat."""
    place = np.arange(len(scores)) + np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    below, above = place, place + 1  # the segments that end and begin at each point
    inner = np.ones(len(scores) + len(starts) - 1, bool)
    inner[starts[:-1] + np.arange(len(starts) - 1)] = False
    inner[starts[1:] + np.arange(len(starts) - 1)] = False
    left, value, width, rise = np.zeros(len(inner)), np.empty(len(inner)), np.ones(len(inner)), np.zeros(len(inner))
    value[below] = values  # right for a curve's first segment, overwritten in all others
    value[above] = values
    left[above] = scores
    right, high = np.zeros(len(inner)), np.zeros(len(inner))
    right[below], high[below] = scores, values
    width[inner] = (right - left)[inner]
    rise[inner] = (high - value)[inner]
    return Table(Search.among(scores, starts), value, (np.where(inner, left, 0.0), width, rise))


def _bins(edges: Float64, values: Float64) -> Table:
    starts = np.arange(len(edges) + 1) * max(1, edges.shape[1])
    if edges.shape[1] == 0:  # a single bin: an edge that nothing reaches
        return Table(Search.among(np.full(len(values), np.inf), starts), np.repeat(values, 2))
    moved = np.minimum(edges * (1 + EDGE_MARGIN), edges + (1 - edges) / 2)  # but not over the scores of 1 above it
    return Table(Search.among(moved.reshape(-1), starts), values.reshape(-1))
