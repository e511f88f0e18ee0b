"""Sources of chunks: labelled logits larger than memory.

A source is an object that can be iterated again and again. It yields ``(logits, y)`` or ``(logits, y, sample_weight)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from driftcal.core import validation
from driftcal.core.blocks import Block, Chunk, block_length, cut
from driftcal.core.labels import as_classes, as_columns
from driftcal.core.passes import Visit, visit_in_turn
from driftcal.core.scan import MAX_MAGNITUDE
from driftcal.core.score_type import resolve_score_type, to_logits
from driftcal.errors import InputError, LogitsError
from driftcal.types import Float64, Labels, Logits

#: Differences of logits may change between passes by this share of their mean: a network rounds differently in each
#: run.
_MAX_CHANGE = 1e-3


class ChunkSource:
    """The blocks of a source of chunks. Every pass iterates the source again and must read the same samples.

    The first pass checks the samples. A later pass with other samples is refused before a kernel reads them.
    """

    subsample_stride = 1  # the source yields every chunk, so skipping blocks would save nothing

    def __init__(self, source: Any, classes: Sequence[Any] | None, score_type: str | None = "logits") -> None:
        self._source, self._declared_classes = source, classes
        first_scores = _first_scores(source)
        self.score_type = resolve_score_type(first_scores, score_type, name="logits")
        n_classes = validation.as_logits(first_scores)[0].shape[1]
        self.classes = np.arange(n_classes) if classes is None else as_classes(classes, n_classes)
        self.n_classes = len(self.classes)
        self.n_samples = -1  # until the first pass has counted
        self._margins: Float64 | None = None  # see _check_order
        self._margin_sum, self._margin_count = 0.0, 0

    def blocks(self, multiple: int = 1, *, ordered: bool = True) -> Iterator[Block]:
        """All blocks in order, `multiple` times as long; the last one of a chunk may be shorter."""
        start, step = 0, block_length(self.n_classes) * multiple
        first_pass = self.n_samples < 0
        for chunk in self._chunks():
            if not first_pass:
                self._check_content(start + len(chunk.labels), chunk.labels)
                if ordered and len(chunk.labels):
                    self._check_order(start, chunk.logits, chunk.labels)
            for low in range(0, len(chunk.labels), step):
                yield cut(chunk, low, low + step, start)
            start += len(chunk.labels)
        if not first_pass and start < self.n_samples:
            raise self._content_changed()

    def visit(self, visit: Visit, stride: int = 1, *, ordered: bool = False) -> None:
        """Pass the blocks to the accumulators in turn."""
        visit_in_turn(visit, islice(self.blocks(ordered=ordered), 0, None, stride))

    def _chunks(self) -> Iterator[Chunk]:
        """The chunks, each checked like an array."""
        first_names: list[str] | None = None
        start = 0
        for number, chunk in enumerate(self._source):
            scores, y, sample_weight = _parts(chunk)
            first_names = first_names or validation.column_names(scores)
            validation.check_columns(
                scores, first_names, "a later chunk", "", LogitsError, "Put the columns of all chunks into one order."
            )
            logits, _ = validation.as_logits(to_logits(scores, self.score_type))
            if logits.shape[1] != self.n_classes:
                raise LogitsError(
                    f"all chunks must have {self.n_classes} columns, as the first; one has {logits.shape[1]}. Are two models mixed?"
                )
            try:
                labels, _ = as_columns(y, self.n_classes, len(logits), classes=self._declared_classes)
                weights = validation.as_weights(sample_weight, len(logits))
            except InputError as error:
                raise type(error)(f"{error} This is chunk {number}, which begins at sample {start}.") from error
            yield Chunk(logits, labels, weights)
            start += len(logits)

    def _check_content(self, stop: int, labels: Labels) -> None:
        """Refuse a pass with more samples than the first, or with labels outside 0..C-1."""
        if stop > self.n_samples or (len(labels) and not 0 <= labels.min() <= labels.max() < self.n_classes):
            raise self._content_changed()

    def _content_changed(self) -> LogitsError:
        return LogitsError(
            f"a source of chunks must yield the same samples in every pass; the first pass read {self.n_samples} samples with labels "
            f"0..{self.n_classes - 1}, a later one reads others. Fix the order and the content of the source."
        )

    def _check_order(self, start: int, logits: Logits, labels: Labels) -> None:
        """Refuse a pass in another order: one margin per sample is stored, and later passes must have about the same.

        The margin is the logit of the true class minus that of the next class.
        """
        if self._margins is None:
            self._margins = np.full(self.n_samples, np.nan)
        true_class, next_class = (
            logits[np.arange(len(labels)), column].astype(np.float64)
            for column in (labels, (labels + 1) % self.n_classes)
        )
        with np.errstate(invalid="ignore"):  # both masked
            margins = np.nan_to_num(true_class - next_class, nan=0.0, posinf=MAX_MAGNITUDE, neginf=-MAX_MAGNITUDE)
        stored = self._margins[start : start + len(labels)]  # NaN where this is the first ordered pass
        unmasked = np.abs(margins[np.isnan(stored) & (np.abs(margins) < MAX_MAGNITUDE)])
        self._margin_sum += float(unmasked.sum())
        self._margin_count += len(unmasked)
        # comparing with NaN gives False, so the first ordered pass is never refused
        if (np.abs(stored - margins) > _MAX_CHANGE * self._margin_sum / max(self._margin_count, 1)).any():
            raise LogitsError(
                "a source of chunks must yield the same samples in every pass, in the same order; a later pass has other logits "
                f"from sample {start} on. Remove shuffling and augmentation, or write the logits to a file first."
            )
        stored[:] = margins


def _first_scores(source: Any) -> Any:
    """The scores of the first chunk."""
    if iter(source) is source:
        raise LogitsError(
            "a source of chunks must be readable more than once; this is an iterator or generator, which is empty after one pass. "
            "Pass an object whose __iter__ starts again."
        )
    for chunk in source:
        return _parts(chunk)[0]
    raise LogitsError(
        "logits must hold at least one sample; the source of chunks yields nothing. Check the path or the filter behind it."
    )


def _parts(chunk: Any) -> tuple[Any, Any, Any]:
    """The scores, labels and sample weights (or None) of a chunk as the source yields it."""
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise LogitsError(
            f"a source must yield (logits, y) or (logits, y, sample_weight); it yielded {type(chunk).__name__}. Yield tuples."
        )
    return chunk[0], chunk[1], chunk[2] if len(chunk) == 3 else None
