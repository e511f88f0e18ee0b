"""Batches of a stream: samples, labels of earlier samples and rejected lines, in the order in which they arrived."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

#: Samples of a batch: enough that a call takes little time per sample.
BATCH_SAMPLES = 4096
#: The types of scores in JSON. A truth value is none of them.
_NUMBERS = frozenset((float, int))


class LateLabel(NamedTuple):
    """The label of an earlier sample, and how many samples of its own batch came before it."""

    id: Any
    label: Any
    n_before: int = 0


@dataclass
class StreamBatch:
    """Samples for `Monitor.add_batch`, labels of earlier samples, and counts of unreadable lines.

    All samples have the same number of scores; all have a time, or none. A label or an id may be None. With `more`, the
    next batch belongs to this one, and no state is written in between.
    """

    scores: Any = None
    times: Any = None
    labels: Any = None
    ids: Any = None
    late_labels: list[LateLabel] = field(default_factory=list)
    rejected: Mapping[str, int] = field(default_factory=dict)
    more: bool = False


class BatchBuilder:
    """Joins lines to batches without changing what they mean: fewer calls, the same numbers.

    Parameters
    ----------
    n_classes : number of scores of a sample; None for any number.
    """

    def __init__(self, n_classes: int | None = None) -> None:
        #: The allowed numbers of scores of a sample. Of two classes, one score is enough.
        self.widths = None if n_classes is None else {n_classes, 1} if n_classes == 2 else {n_classes}
        #: Samples, labels and rejected lines by reason, of all batches.
        self.totals: Counter[str] = Counter()
        self._full: list[StreamBatch] = []
        self._start()

    def _start(self) -> None:
        self._scores = array("d")
        self._n_samples, self._width = 0, 0
        self._times: list[float] | None = None
        self._labels: list[Any] | None = None
        self._ids: list[Any] | None = None
        self._late_labels: list[LateLabel] = []
        self._rejected: Counter[str] = Counter()

    def reject(self, reason: str, n_samples: int = 1) -> None:
        """Count a line, or samples, that cannot be used."""
        self._rejected[reason] += n_samples
        self.totals[reason] += n_samples

    def add_late_labels(self, ids: Sequence[Any], labels: Sequence[Any]) -> None:
        """Add labels of earlier samples."""
        n_before = self._n_samples
        self.totals["labels"] += len(ids)
        for name, label in zip(ids, labels, strict=True):
            self._late_labels.append(LateLabel(name, label, n_before))

    def add_samples(
        self,
        samples: Sequence[Any],
        times: list[float] | None = None,
        labels: Sequence[Any] | None = None,
        ids: Sequence[Any] | None = None,
    ) -> None:
        """Add samples of the same line; a time, a label and an id for each, or none."""
        width = len(samples[0]) if type(samples[0]) is list else 0
        for sample in samples:
            if (
                not width
                or type(sample) is not list
                or len(sample) != width
                or not _NUMBERS.issuperset(map(type, sample))
            ):
                return self.reject("not numbers", len(samples))
        if self.widths is not None and width not in self.widths:
            return self.reject("wrong number of classes", len(samples))
        finite = list(map(_is_finite, samples))
        if not all(finite):
            self.reject("not finite", finite.count(False))
            samples = list(compress(samples, finite))
            times, labels, ids = (
                None if entries is None else list(compress(entries, finite)) for entries in (times, labels, ids)
            )
            if not samples:
                return None
        n_before = self._n_samples
        self.totals["samples"] += len(samples)
        if n_before and (width != self._width or (times is None) != (self._times is None) or n_before >= BATCH_SAMPLES):
            self._finish()
            n_before = 0
        self._width, self._n_samples = width, n_before + len(samples)
        for sample in samples:
            self._scores.extend(sample)
        if times is not None:
            self._times = _extended(self._times, times, n_before, len(samples))
        self._labels = _extended(self._labels, labels, n_before, len(samples))
        self._ids = _extended(self._ids, ids, n_before, len(samples))
        return None

    def take(self) -> list[StreamBatch]:
        """The batches since the last call."""
        if self._n_samples or self._late_labels or self._rejected:
            self._finish()
        full, self._full = self._full, []
        return full

    def _finish(self) -> None:
        scores = np.frombuffer(self._scores).reshape(self._n_samples, self._width) if self._n_samples else None
        self._full.append(
            StreamBatch(scores, self._times, self._labels, self._ids, self._late_labels, dict(self._rejected))
        )
        self._start()


def _is_finite(sample: Sequence[float]) -> bool:
    """Whether the largest score is a finite number and none is NaN; a logit may be -inf."""
    return math.isfinite(sum(sample)) or (math.isfinite(max(sample)) and not any(math.isnan(score) for score in sample))


def _extended(entries: list[Any] | None, new: Sequence[Any] | None, n_before: int, n_new: int) -> list[Any] | None:
    """Entries of earlier and of new samples, with None where there is no entry; None if no sample has one."""
    if new is None:
        if entries is not None:
            entries.extend([None] * n_new)
        return entries
    if entries is None:
        entries = [None] * n_before
    entries.extend(new)
    return entries
