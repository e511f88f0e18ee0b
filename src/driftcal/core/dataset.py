"""Labelled logits that every fit and metric reads in passes: an array, a memory map, or chunks larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from driftcal.core import scan, validation
from driftcal.core.blocks import Block, Chunk
from driftcal.core.chunks import ChunkSource
from driftcal.core.labels import as_columns, out_of_range
from driftcal.core.passes import ArraySource, LocalPasses, Merge, Passes, add
from driftcal.core.scan import MAX_MAGNITUDE, ScanTotals
from driftcal.core.score_type import resolve_score_type, to_logits
from driftcal.errors import InputError, LogitsError, WeightsError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights


class LabelledLogits:
    """Labelled logits that can be read again and again, block by block.

    Parameters
    ----------
    logits
        (n_samples, n_classes), or anything :func:`driftcal.core.validation.as_logits` reads; or a re-iterable of
        ``(logits, y)`` or ``(logits, y, sample_weight)`` chunks, with `y` left out.
    y
        Labels in any form that :mod:`driftcal.core.labels` describes.
    sample_weight
        One number of at least 0 per sample; None: all 1.
    classes
        The class of each column. None: labels are columns.
    score_type
        "logits" or "probabilities"; None: logits, and scores with one column are refused.

    >>> data = LabelledLogits([[0.0, 2.0], [1.0, 0.0], [3.0, 0.0]], [1, 0, 1])
    >>> data.n_samples, data.n_classes, round(data.accuracy, 3)
    (3, 2, 0.667)
    """

    def __init__(
        self,
        logits: AnyArray,
        y: AnyArray = None,
        sample_weight: AnyArray = None,
        *,
        classes: Sequence[Any] | None = None,
        score_type: str | None = None,
    ) -> None:
        if validation.is_chunked(logits):
            if y is not None or sample_weight is not None:
                raise InputError(
                    "y and sample_weight must be left out when logits is a source of chunks; "
                    "they were given. Let each chunk be (logits, y) or (logits, y, sample_weight)."
                )
            chunks = ChunkSource(logits, classes, score_type)
            self.score_type = chunks.score_type
            self._start(LocalPasses(chunks), chunks.classes)
            chunks.n_samples = self.n_samples
        else:
            self.score_type = resolve_score_type(logits, score_type, name="logits")
            scores, _ = validation.as_logits(to_logits(logits, self.score_type))
            labels, names = as_columns(y, scores.shape[1], len(scores), classes=classes)
            weights = validation.as_weights(sample_weight, len(scores))
            self._start(LocalPasses(ArraySource(Chunk(scores, labels, weights))), names)

    def __repr__(self) -> str:
        return f"LabelledLogits({self.n_samples} samples, {self.n_classes} classes)"

    @classmethod
    def from_passes(cls, passes: Passes, n_classes: int) -> LabelledLogits:
        """Labelled logits that are read elsewhere, for instance on the workers of an engine; labels are columns."""
        data = cls.__new__(cls)
        data.score_type = "logits"
        data._start(passes, np.arange(n_classes))
        return data

    def _start(self, passes: Passes, classes: Array) -> None:
        """Read every sample once: refuse unusable samples, store the totals that every fit needs."""
        self._passes = passes
        self.classes, self.n_classes = classes, len(classes)
        totals = ScanTotals.merge(passes.scan())
        if totals.has_bad_samples:
            self._refuse(totals.first_bad)
        if totals.n_samples == 0:
            raise LogitsError(
                "logits must hold at least one sample; they are empty. Check the path or the filter that made them."
            )
        if totals.maybe_probabilities and totals.n_samples > 1:
            raise validation.probabilities_as_logits("logits")
        self.n_samples = totals.n_samples
        #: Sum of the weights of each class.
        self.class_weights: Float64 = totals.class_weights
        self.total_weight = float(self.class_weights.sum())
        #: How many samples the weights stand for: their sum, but at least the number of samples with a positive weight.
        #: Weights that sum to 1 are shares, not a single sample.
        self.effective_n_samples = max(self.total_weight, totals.n_weighted)
        if self.total_weight == 0:
            raise WeightsError(
                "sample_weight must have a positive sum; all weights are zero. Leave it out to weight all samples alike."
            )
        if not 1 / MAX_MAGNITUDE <= self.total_weight <= MAX_MAGNITUDE:
            raise WeightsError(
                f"sample_weight must sum to a number between {1 / MAX_MAGNITUDE:g} and {MAX_MAGNITUDE:g}; it sums to "
                f"{self.total_weight:g}, where products underflow or overflow. Multiply all weights by one factor."
            )
        self.accuracy = totals.correct_weight / self.total_weight

    @property
    def is_local(self) -> bool:
        """Whether this process reads the blocks."""
        return self._passes.is_local

    @property
    def subsample_stride(self) -> int:
        """The `stride` of a cheap pass over a subsample, for a first guess; 1 where skipping blocks saves nothing."""
        return self._passes.subsample_stride

    def arrays(self) -> Chunk:
        """Logits, labels and weights (None: all 1) in memory; an array is not copied."""
        source = getattr(self._passes, "source", None)
        if isinstance(source, ArraySource):
            return source.arrays
        blocks = list(self.blocks())
        return Chunk(
            np.concatenate([block.logits for block in blocks]),
            np.concatenate([block.labels for block in blocks]),
            np.concatenate([block.weights for block in blocks]),
        )

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All samples in order, in blocks of about `BLOCK_SCORES` scores, or `multiple` times as many.

        `ordered` blocks hold the same samples in every pass. Callers need this when they store a value per sample.
        """
        return self._passes.blocks(multiple, ordered=ordered)

    def reduce(
        self,
        function: Callable[..., None],
        state: Array,
        merge: Merge,
        *args: Any,
        stride: int = 1,
        per_sample: Array | None = None,
    ) -> Array:
        """Run ``function(logits, labels, weights, state, *args)`` over all blocks; it changes `state` in place.

        Parameters
        ----------
        function
            A compiled kernel.
        state
            The state before any sample.
        merge
            ``merge(into, other)`` adds one state to another.
        args
            Further arguments of the kernel.
        stride
            Read only each `stride`-th block: a cheap pass before the exact ones. See :attr:`subsample_stride`.
        per_sample
            An array with one entry per sample. The kernel gets its part for the block after the weights.
        """
        return self._passes.reduce(function, state, merge, args, stride=stride, per_sample=per_sample)

    def reduce_sum(
        self, function: Callable[..., None], shape: int | tuple[int, ...], *args: Any, stride: int = 1
    ) -> Float64:
        """The sums that ``function(logits, labels, weights, sums, *args)`` adds up over all samples.

        Parameters
        ----------
        function, args, stride
            As in :meth:`reduce`.
        shape
            The shape of the sums, which begin at 0.
        """
        return self.reduce(function, np.zeros(shape), add, *args, stride=stride)

    def map_samples(self, function: Callable[..., None], width: int, *args: Any) -> Float64:
        """(n_samples, width): what ``function(logits, labels, weights, out, *args)`` writes per sample."""
        return self._passes.map_samples(function, width, None, args)[0]

    def map_and_sum(self, function: Callable[..., None], width: int, size: int, *args: Any) -> tuple[Float64, Float64]:
        """`map_samples` and `reduce_sum` in one pass of ``function(logits, labels, weights, out, sums, *args)``.

        Parameters
        ----------
        function, args
            A compiled kernel and its further arguments.
        width
            Numbers per sample in `out`.
        size
            Numbers in `sums`.
        """
        return self._passes.map_samples(function, width, size, args)

    def for_each_block(self, function: Callable[[Logits, Labels, Weights, int], None]) -> None:
        """``function(logits, labels, weights, start)`` for every block, on all cores, in no particular order."""
        self._passes.for_each_block(function)

    def _refuse(self, first_bad: Array) -> NoReturn:
        """Raise the error for the first unusable sample of the data set."""
        kind = int(np.argmin(first_bad))
        sample = int(first_bad[kind])
        if kind == scan.BAD_LABEL:
            label = next(b.labels[sample - b.start] for b in self.blocks() if sample < b.start + len(b.labels))
            raise out_of_range(sample, int(label), self.n_classes)
        problem = {
            scan.NAN: "holds NaN",
            scan.PLUS_INF: "holds +inf",
            scan.ALL_MASKED: "is -inf in every column",
            scan.TOO_LARGE: f"holds a number beyond ±{MAX_MAGNITUDE:g}",
        }[kind]
        raise validation.unusable_sample(sample, problem)
