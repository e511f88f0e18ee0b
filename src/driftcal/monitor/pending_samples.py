"""Samples that wait for their labels, by their ids."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from driftcal.core.labels import ClassLookup, is_missing
from driftcal.monitor.reading.stream_batch import LateLabel

#: Longer ids are rejected: the state file holds the ids of all pending samples.
_MAX_ID_LENGTH = 200
#: Whole numbers from here on may share a float. An id that is such a float may belong to several samples.
_INEXACT = 2.0**53


class PendingSample(NamedTuple):
    """A sample that waits for its label: its window, its fixed-point confidence and its predicted column."""

    window: int
    confidence: int
    predicted: int


class LabelledSample(NamedTuple):
    """A sample whose label has arrived: as it was pending, and the column of its label."""

    window: int
    confidence: int
    predicted: int
    column: int


class PendingSamples(OrderedDict[str, PendingSample]):
    """id -> sample that waits for its label, the oldest first."""

    def match(
        self,
        new_samples: Iterable[tuple[int, Any, PendingSample]],
        late_labels: Sequence[LateLabel],
        lookup: ClassLookup,
        rejected: Counter[str],
        *,
        max_pending: int,
    ) -> list[LabelledSample]:
        """Add new samples and take out those whose label arrives, in the order of the stream.

        Parameters
        ----------
        new_samples : number in the batch, id and sample of each new sample without a label.
        late_labels : labels of earlier samples. A missing label (None, NaN) changes nothing.
        lookup : finds the column of a label.
        rejected : counts what cannot be used, by its reason.
        max_pending : the most samples that wait; the oldest are dropped.
        """
        matched: list[LabelledSample] = []
        labels = [late for late in late_labels if type(late.label) in (int, str) or not is_missing(late.label)]
        columns = lookup.columns(label.label for label in labels).tolist()
        n_labels, i = len(labels), 0

        def take(last: float) -> int:
            k = i
            while k < n_labels and labels[k].n_before <= last:
                name = labels[k].id
                if type(name) is not str:
                    name = _text(name)
                if name not in self:
                    rejected["label without a sample"] += 1
                elif columns[k] < 0:
                    rejected["unknown label"] += 1
                else:
                    matched.append(LabelledSample(*self.pop(name), columns[k]))
                k += 1
            return k

        for position, sample_id, sample in new_samples:
            if i < n_labels and labels[i].n_before <= position:
                i = take(position)
            if isinstance(sample_id, float) and not abs(sample_id) < _INEXACT:
                rejected["id not exact"] += 1
            elif len(name := _text(sample_id)) > _MAX_ID_LENGTH:
                rejected["id too long"] += 1
            else:
                self[name] = sample
                self.drop_oldest(max_pending)
        take(math.inf)
        return matched

    def drop_oldest(self, max_pending: int) -> None:
        """Drop the oldest samples beyond `max_pending`."""
        while len(self) > max_pending:
            self.popitem(last=False)


def _text(sample_id: Any) -> str:
    """An id as text."""
    try:
        return str(sample_id)
    except ValueError:  # Python writes no whole numbers of more than 4,300 digits
        return "9" * (_MAX_ID_LENGTH + 1)
