"""Passes over rows of logits: an array, a memory map, or a stream of chunks larger than memory.

A pass hands fixed blocks of rows to a compiled kernel on all cores. Which block adds to which of `LANES` accumulators is
fixed, and these merge in order, so neither the number of threads nor their timing changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn, TypeAlias

import numpy as np

from driftcal import checks, chunks
from driftcal.blocks import HUGE, Block, cut, empty_scan, no_logits, scan
from driftcal.cores import in_threads
from driftcal.errors import InputError, LabelsError, LogitsError, WeightsError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights

#: Scores in a block: 1 MB of float32 stays in a core's cache.
BLOCK_SCORES = 1 << 18
#: A preview reads about this many blocks: enough rows for a first guess that exact passes then refine.
PREVIEW_BLOCKS = 6
#: Accumulators of a pass. Their number is fixed so that results do not depend on the machine.
LANES = 8


Merge: TypeAlias = Callable[[Array, Array], None]


def _add(into: Array, other: Array) -> None:
    into += other


class Rows:
    """Labelled logits that can be read again and again, block by block.

    `logits` is an array of shape (n, C) or anything :func:`driftcal.checks.as_logits` understands, with labels `y`;
    or a re-iterable of ``(logits, y)`` or ``(logits, y, sample_weight)`` chunks, with `y` left out.
    """

    def __init__(
        self,
        logits: AnyArray,
        y: AnyArray = None,
        sample_weight: AnyArray = None,
        *,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.here = True  # that is, blocks may be read by this process
        self._array: tuple[Logits, Labels, Weights | None] | None = None
        self._chunks: Callable[[], Iterable[tuple[Logits, Labels, Weights | None]]]
        if checks.is_chunked(logits):
            if y is not None or sample_weight is not None:
                raise InputError(
                    "y and sample_weight must be left out when logits is a source of chunks; "
                    "they were given. Let each chunk be (logits, y) or (logits, y, sample_weight)."
                )
            self.classes = chunks.classes_of_chunks(logits, classes)
            self._chunks = lambda: chunks.iterate_chunks(logits, self.classes)
        else:
            scores, _ = checks.as_logits(logits)
            labels, self.classes = checks.as_labels(y, scores.shape[1], len(scores), classes=classes)
            weights = checks.as_weights(sample_weight, len(scores))
            self._array = scores, labels, weights
            self._chunks = lambda: [(scores, labels, weights)]
        self.n_classes = len(self.classes)
        self.n = -1  # until the scan has counted
        self._known: Float64 | None = None  # see _refuse_order
        self._sizes = np.zeros(2)
        self._scan()

    def blocks(self, together: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """The rows in order, in blocks of about `BLOCK_SCORES` scores, or so many times as large.

        Whoever keeps something of each row needs them `ordered` as before, sums do not.
        """
        start, step = 0, self._step * together
        for chunk in self._chunks():
            if self._array is None and self.n >= 0:
                self._refuse_change(start + len(chunk[0]), chunk[1])
                if ordered and len(chunk[1]):
                    self._refuse_order(start, chunk[0], chunk[1])
            for low in range(0, len(chunk[0]), step):
                yield cut(chunk, low, low + step, start)
            start += len(chunk[0])
        if self._array is None and start < self.n:
            self._refuse_change(start, np.array([-1]))

    @property
    def _step(self) -> int:
        return max(1, BLOCK_SCORES // self.n_classes)

    def _run(
        self, run: Callable[[Any, Block], None], lanes: Sequence[Any], every: int = 1, *, ordered: bool = False
    ) -> None:
        """``run(lane, block)`` for all blocks, or each so-manieth; a lane sees its own one after the other.

        A lane of an array is a stretch of neighbouring blocks, so that its accumulator stays in a core's cache. Blocks of a
        stream take turns.
        """
        if self._array is None:
            _take_turns(run, lanes, islice(self.blocks(ordered=ordered), 0, None, every))
            return
        array, step = self._array, self._step
        starts = range(0, len(array[0]), step * every)
        edges = [len(starts) * k // len(lanes) for k in range(len(lanes) + 1)]

        def run_lane(k: int) -> None:
            for low in starts[edges[k] : edges[k + 1]]:
                run(lanes[k], cut(array, low, low + step, 0))

        in_threads(run_lane, [k for k in range(len(lanes)) if edges[k] < edges[k + 1]])

    def _refuse_change(self, seen: int, labels: Labels) -> None:
        """Kernels trust what the scan saw; a source that yields something else on a later pass must not reach them."""
        if seen > self.n or (len(labels) and not 0 <= labels.min() <= labels.max() < self.n_classes):
            raise LogitsError(
                f"a source of chunks must yield the same rows in every pass; the first pass saw {self.n} rows with labels "
                f"0..{self.n_classes - 1}, a later one sees others. Fix the order and the content of the source."
            )

    def _refuse_order(self, start: int, logits: Logits, labels: Labels) -> None:
        """Of the first ordered pass, two logits' difference in each row is remembered; later ones have to show about the same."""
        if self._known is None:
            self._known = np.full(self.n, np.nan)
        own, other = (
            logits[np.arange(len(labels)), of].astype(np.float64) for of in (labels, (labels + 1) % self.n_classes)
        )
        with np.errstate(invalid="ignore"):  # both masked
            new = np.nan_to_num(own - other, nan=0.0, posinf=HUGE, neginf=-HUGE)
        known = self._known[start : start + len(labels)]
        unmasked = np.abs(new[np.isnan(known) & (np.abs(new) < HUGE)])
        self._sizes += unmasked.sum(), len(unmasked)
        # a network may compute last digits anew; NaN, what is seen for the first time, is never too far away
        if (np.abs(known - new) > 1e-3 * self._sizes[0] / max(self._sizes[1], 1)).any():
            raise LogitsError(
                "a source of chunks must yield the same rows in every pass, in the same order; a later pass sees other logits from "
                f"row {start} on. Let it neither shuffle nor augment, or write its logits to a file first."
            )
        known[:] = new

    def fold(
        self,
        function: Callable[..., None],
        state: Array,
        merge: Merge,
        *args: Any,
        every: int = 1,
        beside: Array | None = None,
    ) -> Array:
        """Run ``function(logits, labels, weights, state, *args)`` over all blocks; it changes `state` in place.

        `state` is what no rows amount to; `merge(into, other)` adds one state to another. With `every` > 1 only each
        so-manieth block is read: a cheap look before the exact passes. What `beside` holds of each row is handed on after
        the weights.
        """
        lanes: list[Array | None] = [None] * LANES  # filled when first used: a state can be as large as the data

        def run(lane: int, block: Block) -> None:
            into = lanes[lane]
            if into is None:
                into = lanes[lane] = state.copy()
            function(block.logits, block.labels, block.weights, *block.of(beside), into, *args)

        self._run(run, range(LANES), every, ordered=beside is not None)
        first, *others = [lane for lane in lanes if lane is not None]
        for other in others:
            merge(first, other)
        return first

    def sums(self, function: Callable[..., None], shape: int | tuple[int, ...], *args: Any, every: int = 1) -> Float64:
        """The sums that ``function(logits, labels, weights, sums, *args)`` adds up over all rows."""
        return self.fold(function, np.zeros(shape), _add, *args, every=every)

    def visit(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """``function(logits, labels, weights, start)`` for every block, on all cores, in no particular order."""
        self._run(lambda _, b: function(b.logits, b.labels, b.weights, b.start), [None] * LANES, ordered=True)

    def each(self, function: Callable[..., None], width: int, *args: Any) -> Float64:
        """`width` numbers per row, written by ``function(logits, labels, weights, out, *args)``."""
        out = np.empty((self.n, width))
        self.visit(lambda logits, y, w, start: function(logits, y, w, out[start : start + len(y)], *args))
        return out

    def note(self, function: Callable[..., None], width: int, size: int, *args: Any) -> tuple[Float64, Float64]:
        """`each` and `sums` in one pass: what ``function(logits, labels, weights, out, sums, *args)`` writes and adds up."""
        out = np.empty((self.n, width))
        return out, self.fold(function, np.zeros(size), _add, *args, beside=out)

    def _scan(self) -> None:
        """Look at every row once: refuse what cannot be used, keep what every fit asks first."""
        lanes, maybe_probabilities = self._scan_lanes()
        first_bad = np.min([lane[2] for lane in lanes], axis=0)
        if (first_bad < np.iinfo(np.int64).max).any():
            self._refuse(first_bad)
        self.class_weights: Float64 = np.sum([lane[0] for lane in lanes], axis=0)
        n, correct, used = np.sum([lane[1] for lane in lanes], axis=0)
        if n == 0:
            raise LogitsError(
                "logits must hold at least one row; they are empty. Check the path or the filter that made them."
            )
        if maybe_probabilities and n > 1:
            raise no_logits("logits")
        self.n = int(n)
        # Skipping blocks of an array is free; those of a stream would have to be read all the same.
        n_blocks = -(-self.n * self.n_classes // BLOCK_SCORES)
        self.preview = 1 if self._array is None else max(1, n_blocks // PREVIEW_BLOCKS)
        self.weight = float(self.class_weights.sum())
        #: How many rows the weights stand for: their sum, but no fewer than the rows. Weights that sum to 1 are shares, not few rows.
        self.count = max(self.weight, float(used))
        if self.weight == 0:
            raise WeightsError(
                "sample_weight must have a positive sum; all weights are zero. Leave it out to weight all rows alike."
            )
        if not 1 / HUGE <= self.weight <= HUGE:
            raise WeightsError(
                f"sample_weight must sum to a number between {1 / HUGE:g} and {HUGE:g}; it sums to {self.weight:g}, where "
                "products underflow or overflow. Multiply all weights by one factor."
            )
        self.accuracy = float(correct) / self.weight

    def _scan_lanes(self) -> tuple[list[tuple[Array, Array, Array]], bool]:
        """What each lane's rows hold, and whether all of them could be probabilities."""
        lanes = [empty_scan(self.n_classes) for _ in range(LANES)]
        maybe_probabilities = True

        def run(lane: tuple[Array, Array, Array], block: Block) -> None:
            nonlocal maybe_probabilities
            if not scan(block, lane, maybe_probabilities):  # threads only ever say no
                maybe_probabilities = False

        self._run(run, lanes)
        return lanes, maybe_probabilities

    def _refuse(self, first_bad: Array) -> NoReturn:
        kind = int(np.argmin(first_bad))
        row = int(first_bad[kind])
        if kind == 4:
            label = next(b.labels[row - b.start] for b in self.blocks() if row < b.start + len(b.labels))
            raise LabelsError(
                f"labels must be 0..{self.n_classes - 1} for logits with {self.n_classes} columns; row {row} holds {label}. "
                "If your file counts from 1, subtract 1."
            )
        facts = ("holds NaN", "holds +inf", "is -inf in every column", f"holds a number beyond ±{HUGE:g}")
        raise checks.unusable_row(row, facts[kind])


def _take_turns(run: Callable[[Any, Block], None], lanes: Sequence[Any], blocks: Iterator[Block]) -> None:
    """Blocks i, i + LANES, … of a stream go to lane i, in that order."""
    while group := list(islice(blocks, len(lanes))):

        def run_one(i: int, group: list[Block] = group) -> None:
            run(lanes[i], group[i])

        in_threads(run_one, range(len(group)))


def map_blocks(function: Callable[[Logits, Float64], None], logits: Logits, width: int) -> Float64:
    """``function(logits block, output block)`` over an array on all cores; the (n, width) output."""
    out = np.empty((len(logits), width))
    step = max(1, BLOCK_SCORES // max(1, logits.shape[1]))

    def run(low: int) -> None:
        function(checks.for_kernel(logits[low : low + step]), out[low : low + step])

    in_threads(run, range(0, len(logits), step))
    return out
