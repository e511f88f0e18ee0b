"""Sources of chunks: labelled logits larger than memory, as a re-iterable of ``(logits, y)`` or ``(logits, y, sample_weight)``."""

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

#: Differences of logits may change between passes by this share of their mean: a network may compute last digits anew.
_CHANGE = 1e-3


class ChunkSource:
    """The blocks of a source of chunks. Every pass iterates the source again and must see the same samples.

    Kernels trust what the first pass saw. A later pass that yields something else is refused before a kernel reads it.
    """

    subsample_stride = 1  # skipped blocks of a stream would have to be read all the same

    def __init__(self, source: Any, classes: Sequence[Any] | None, score_type: str | None = "logits") -> None:
        self._source, self._declared = source, classes
        first = _first_chunk(source)
        self.score_type = resolve_score_type(first, score_type, name="logits")
        n_classes = validation.as_logits(first)[0].shape[1]
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
            logits, labels, _ = chunk
            if not first_pass:
                self._check_content(start + len(logits), labels)
                if ordered and len(labels):
                    self._check_order(start, logits, labels)
            for low in range(0, len(logits), step):
                yield cut(chunk, low, low + step, start)
            start += len(logits)
        if not first_pass and start < self.n_samples:
            raise self._changed()

    def visit(self, visit: Visit, stride: int = 1, *, ordered: bool = False) -> None:
        """Blocks go to the accumulators in turn."""
        visit_in_turn(visit, islice(self.blocks(ordered=ordered), 0, None, stride))

    def _chunks(self) -> Iterator[Chunk]:
        """The chunks, each checked like an array."""
        fitted_names: list[str] | None = None
        start = 0
        for number, chunk in enumerate(self._source):
            logits, y, sample_weight = _parts(chunk)
            fitted_names = fitted_names or validation.column_names(logits)
            validation.check_columns(
                logits, fitted_names, "a later chunk", "", LogitsError, "Put the columns of all chunks into one order."
            )
            scores, _ = validation.as_logits(to_logits(logits, self.score_type))
            if scores.shape[1] != self.n_classes:
                raise LogitsError(
                    f"all chunks must have {self.n_classes} columns, as the first; one has {scores.shape[1]}. Are two models mixed?"
                )
            try:
                labels, _ = as_columns(y, self.n_classes, len(scores), classes=self._declared)
                weights = validation.as_weights(sample_weight, len(scores))
            except InputError as error:
                raise type(error)(f"{error} This is chunk {number}, which begins at sample {start}.") from error
            yield scores, labels, weights
            start += len(scores)

    def _check_content(self, stop: int, labels: Labels) -> None:
        if stop > self.n_samples or (len(labels) and not 0 <= labels.min() <= labels.max() < self.n_classes):
            raise self._changed()

    def _changed(self) -> LogitsError:
        return LogitsError(
            f"a source of chunks must yield the same samples in every pass; the first pass saw {self.n_samples} samples with labels "
            f"0..{self.n_classes - 1}, a later one sees others. Fix the order and the content of the source."
        )

    def _check_order(self, start: int, logits: Logits, labels: Labels) -> None:
        """Remember one difference of logits per sample in the first ordered pass; later passes must show about the same."""
        if self._margins is None:
            self._margins = np.full(self.n_samples, np.nan)
        true_class, next_class = (
            logits[np.arange(len(labels)), column].astype(np.float64)
            for column in (labels, (labels + 1) % self.n_classes)
        )
        with np.errstate(invalid="ignore"):  # both masked
            new = np.nan_to_num(true_class - next_class, nan=0.0, posinf=MAX_MAGNITUDE, neginf=-MAX_MAGNITUDE)
        old = self._margins[start : start + len(labels)]
        unmasked = np.abs(new[np.isnan(old) & (np.abs(new) < MAX_MAGNITUDE)])
        self._margin_sum += float(unmasked.sum())
        self._margin_count += len(unmasked)
        # NaN, a margin that is new, compares as False
        if (np.abs(old - new) > _CHANGE * self._margin_sum / max(self._margin_count, 1)).any():
            raise LogitsError(
                "a source of chunks must yield the same samples in every pass, in the same order; a later pass sees other logits "
                f"from sample {start} on. Let it neither shuffle nor augment, or write its logits to a file first."
            )
        old[:] = new


def _first_chunk(source: Any) -> Any:
    """The scores of the first chunk."""
    if iter(source) is source:
        raise LogitsError(
            "a source of chunks must be readable more than once; an iterator or generator was given, which is empty after one pass. "
            "Pass an object whose __iter__ starts anew."
        )
    for chunk in source:
        return _parts(chunk)[0]
    raise LogitsError(
        "logits must hold at least one sample; the source of chunks yields nothing. Check the path or the filter behind it."
    )


def _parts(chunk: Any) -> tuple[Any, Any, Any]:
    if not isinstance(chunk, tuple) or len(chunk) not in (2, 3):
        raise LogitsError(
            f"a source must yield (logits, y) or (logits, y, sample_weight); it yielded {type(chunk).__name__}. Yield tuples."
        )
    return chunk[0], chunk[1], chunk[2] if len(chunk) == 3 else None
