"""Passes: a compiled kernel over all blocks of a data set, with the same bits for any number of threads.

A pass runs a kernel on blocks of fixed size, on all cores. Each call of the kernel adds to one of `N_ACCUMULATORS`
accumulators. Blocks are assigned to accumulators in a fixed way, and accumulators merge in order. The number of threads
and their timing therefore do not change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol, TypeAlias

import numpy as np

from driftcal.core.blocks import Block, Chunk, block_length, count_blocks, cut
from driftcal.core.kernels import part_of
from driftcal.core.parallel import run_in_threads
from driftcal.core.scan import ScanTotals
from driftcal.core.validation import for_kernel
from driftcal.types import Array, Float64, Labels, Logits, Weights

#: Accumulators of a pass. Their number is fixed so that results do not depend on the machine.
N_ACCUMULATORS = 8
#: A subsample reads about this many blocks: enough samples for a first guess that exact passes then refine.
SUBSAMPLE_BLOCKS = 6
#: A subsample has at least this many samples: with many classes a block holds few.
SUBSAMPLE_SAMPLES = 1024

#: ``merge(into, other)`` adds one accumulator to another, in place.
Merge: TypeAlias = Callable[[Array, Array], None]
#: ``visit(accumulator, block)`` with the number of the accumulator.
Visit: TypeAlias = Callable[[int, Block], None]


class Passes(Protocol):
    """Where passes over a data set run: in this process (:class:`LocalPasses`) or on the workers of an engine."""

    @property
    def is_local(self) -> bool:
        """Whether this process reads the blocks."""

    @property
    def n_samples(self) -> int:
        """Samples of the data set, once :meth:`scan` has counted them."""

    @property
    def subsample_stride(self) -> int:
        """The stride with which a pass reads a subsample; 1 where skipping blocks saves nothing."""

    def scan(self) -> list[ScanTotals]:
        """The first pass: the totals of each accumulator."""

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All blocks in order, `multiple` times as long; see :meth:`BlockSource.blocks`."""

    def reduce(
        self,
        function: Callable[..., None],
        state: Array,
        merge: Merge,
        args: tuple[Any, ...],
        *,
        stride: int,
        per_sample: Array | None,
    ) -> Array:
        """See :meth:`driftcal.core.dataset.LabelledLogits.reduce`."""

    def map_samples(
        self, function: Callable[..., None], width: int, size: int | None, args: tuple[Any, ...]
    ) -> tuple[Float64, Float64]:
        """(n_samples, width) numbers that `function` writes, and `size` sums that it adds to; None: it adds nothing."""

    def for_each_block(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """See :meth:`driftcal.core.dataset.LabelledLogits.for_each_block`."""


class BlockSource(Protocol):
    """Blocks that this process can read: those of an array, or of a source of chunks."""

    n_classes: int
    n_samples: int
    subsample_stride: int

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All blocks in order, `multiple` times as long.

        `ordered` blocks hold the same samples in every pass. Callers need this when they store a value per sample.
        """

    def visit(self, visit: Visit, stride: int = 1, *, ordered: bool = False) -> None:
        """Call ``visit(accumulator, block)`` for each `stride`-th block, on all cores.

        No accumulator is visited by two threads at the same time.
        """


def stride_of_subsample(n_samples: int, n_blocks: int) -> int:
    """The stride with which a pass reads about `SUBSAMPLE_BLOCKS` blocks, and at least `SUBSAMPLE_SAMPLES` samples."""
    return max(1, min(n_blocks // SUBSAMPLE_BLOCKS, n_samples // SUBSAMPLE_SAMPLES))


class ArraySource:
    """The blocks of an array or a memory map."""

    def __init__(self, arrays: Chunk) -> None:
        self.arrays = arrays
        self.n_samples, self.n_classes = arrays.logits.shape
        self.subsample_stride = stride_of_subsample(self.n_samples, count_blocks(self.n_samples, self.n_classes))

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All blocks in order, `multiple` times as long."""
        step = block_length(self.n_classes) * multiple
        for low in range(0, self.n_samples, step):
            yield cut(self.arrays, low, low + step, 0)

    def visit(self, visit: Visit, stride: int = 1, *, ordered: bool = False) -> None:
        """Visit the blocks; each accumulator gets neighbouring ones, so that it stays in a core's cache."""
        step = block_length(self.n_classes)
        starts = range(0, self.n_samples, step * stride)
        edges = [len(starts) * k // N_ACCUMULATORS for k in range(N_ACCUMULATORS + 1)]

        def run(accumulator: int) -> None:
            for low in starts[edges[accumulator] : edges[accumulator + 1]]:
                visit(accumulator, cut(self.arrays, low, low + step, 0))

        run_in_threads(run, [k for k in range(N_ACCUMULATORS) if edges[k] < edges[k + 1]])


def visit_in_turn(visit: Visit, blocks: Iterator[Block]) -> None:
    """Visit the blocks of a stream: i, i + N_ACCUMULATORS, … go to accumulator i, in that order."""
    while group := list(islice(blocks, N_ACCUMULATORS)):

        def run(accumulator: int, group: list[Block] = group) -> None:
            visit(accumulator, group[accumulator])

        run_in_threads(run, range(len(group)))


class LocalPasses:
    """Passes on the threads of this process."""

    is_local = True

    def __init__(self, source: BlockSource) -> None:
        self.source = source
        self.blocks = source.blocks

    @property
    def n_samples(self) -> int:
        """Samples of the data set, once :meth:`scan` has counted them."""
        return self.source.n_samples

    @property
    def subsample_stride(self) -> int:
        """The stride with which a pass reads a subsample."""
        return self.source.subsample_stride

    def scan(self) -> list[ScanTotals]:
        """The totals of each accumulator."""
        totals = [ScanTotals.empty(self.source.n_classes) for _ in range(N_ACCUMULATORS)]
        self.source.visit(lambda accumulator, block: totals[accumulator].add(block))
        return totals

    def reduce(
        self,
        function: Callable[..., None],
        state: Array,
        merge: Merge,
        args: tuple[Any, ...],
        *,
        stride: int,
        per_sample: Array | None,
    ) -> Array:
        """The merged accumulators, in order."""
        accumulators: list[Array | None] = [None] * N_ACCUMULATORS  # made on first use: one can be as large as the data

        def visit(accumulator: int, block: Block) -> None:
            into = accumulators[accumulator]
            if into is None:
                into = accumulators[accumulator] = state.copy()
            with part_of(self._n_scores):
                function(block.logits, block.labels, block.weights, *block.part_of(per_sample), into, *args)

        self.source.visit(visit, stride, ordered=per_sample is not None)
        first, *others = [accumulator for accumulator in accumulators if accumulator is not None]
        for other in others:
            merge(first, other)
        return first

    def map_samples(
        self, function: Callable[..., None], width: int, size: int | None, args: tuple[Any, ...]
    ) -> tuple[Float64, Float64]:
        """What `function` writes per sample, and what it sums."""
        out = np.empty((self.n_samples, width))
        if size is not None:
            return out, self.reduce(function, np.zeros(size), add, args, stride=1, per_sample=out)
        self.for_each_block(lambda logits, y, w, start: function(logits, y, w, out[start : start + len(y)], *args))
        return out, np.zeros(0)

    def for_each_block(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """``function(logits, labels, weights, start)`` for every block, on all cores."""

        def visit(_: int, block: Block) -> None:
            with part_of(self._n_scores):
                function(block.logits, block.labels, block.weights, block.start)

        self.source.visit(visit, ordered=True)

    @property
    def _n_scores(self) -> int:
        """Scores of the whole data set; a block of them is computed alike in a large one and in a small one."""
        return self.source.n_samples * self.source.n_classes


def add(into: Array, other: Array) -> None:
    """Add one array of sums to another: the :data:`Merge` of sums."""
    into += other


def map_blocks(function: Callable[[Logits, Float64], None], logits: Logits, width: int) -> Float64:
    """The (n, width) outputs of ``function(block of logits, block of outputs)``, run on all cores."""
    out = np.empty((len(logits), width))
    step = block_length(logits.shape[1])

    def run(low: int) -> None:
        with part_of(logits.size):
            function(for_kernel(logits[low : low + step]), out[low : low + step])

    run_in_threads(run, range(0, len(logits), step))
    return out
