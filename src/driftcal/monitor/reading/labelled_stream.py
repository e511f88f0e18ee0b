"""The labelled samples of a stream that a monitor reads: recent data for recalibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.core.labels import text_labels
from driftcal.core.score_type import to_logits
from driftcal.errors import DataError
from driftcal.io.paths import AnyPath, as_path
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.types import Array

#: Endings of files with lines of JSON.
JSON_LINES = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, eq=False)
class LabelledStream:
    """Logits (n, classes) with a label each, the number of samples without a label, and rejected lines by reason."""

    logits: Array
    labels: Array
    n_unlabelled: int
    rejected: Mapping[str, int]

    def __str__(self) -> str:
        left_out = [f"{self.n_unlabelled} samples without a label"] if self.n_unlabelled else []
        left_out += [f"{count} lines ({reason})" for reason, count in self.rejected.items()]
        return f"{len(self.labels)} labelled samples" + (f"; left out: {', '.join(left_out)}" if left_out else "")


def read_labelled_stream(path: AnyPath) -> LabelledStream:
    """Read a file of JSON lines as ``driftcal monitor`` takes them: scores with a label, or labels that follow under an id.

    A line is ``{"logits": [...], "label": 2}``, or ``{"logits": [...], "id": 7}`` and later ``{"id": 7, "label": 2}``;
    inference logs are read, too. Lines may hold ``probabilities`` instead, whose logarithms are the logits. Samples
    without a label are left out.
    """
    file = as_path(path)
    if not file.is_file():
        raise DataError(f"there is no file {str(file)!r}.")
    for score_type in ("logits", "probabilities"):
        samples = _Samples()
        with file.open("rb") as stream:
            for batch in json_batches(stream, score_type):
                samples.add(batch)
        if samples.labels:
            return samples.joined(file, score_type)
        if samples.n_seen:
            raise DataError(
                f"{str(file)!r} must hold labels to recalibrate; none of its {samples.n_seen} samples has one. Write "
                '{"logits": [...], "label": 2}, or the label later under the id of the sample: {"id": 7, "label": 2}.'
            )
    reasons = ", ".join(f"{count} × {reason}" for reason, count in samples.rejected.items())
    raise DataError(
        f'{str(file)!r} must hold lines of JSON with scores, {{"logits": [...], "label": 2}}; it has none ({reasons or "empty"}).'
    )


@dataclass
class _Samples:
    """The labelled samples so far, and those that wait for a label under their id."""

    scores: list[Array] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    waiting: dict[Any, Array] = field(default_factory=dict)
    n_seen: int = 0
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, batch: Any) -> None:
        late = iter(batch.late_labels)
        following = next(late, None)
        n = 0 if batch.scores is None else len(batch.scores)
        for i in range(n + 1):
            while following is not None and following.n_before == i:
                self._label(following.id, following.label)
                following = next(late, None)
            if i < n:
                self._sample(batch.scores[i], batch.labels and batch.labels[i], batch.ids and batch.ids[i])
        self.rejected.update(batch.rejected)

    def _sample(self, scores: Array, label: Any, name: Any) -> None:
        self.n_seen += 1
        if label is not None:
            self.scores.append(scores)
            self.labels.append(label)
        elif isinstance(name, str | int | float):
            self.waiting[name] = scores

    def _label(self, name: Any, label: Any) -> None:
        scores = self.waiting.pop(name, None) if isinstance(name, str | int | float) else None
        if scores is None or label is None:
            self.rejected["label without a sample"] += 1
        else:
            self.scores.append(scores)
            self.labels.append(label)

    def joined(self, file: Path, score_type: str) -> LabelledStream:
        widths = Counter(map(len, self.scores))
        if len(widths) > 1:
            raise DataError(
                f"all samples of {str(file)!r} must have as many scores; there are samples with {' and '.join(map(str, widths))}."
            )
        are_numbers = all(type(label) is int for label in self.labels)
        labels = np.array(self.labels) if are_numbers else text_labels([str(label) for label in self.labels])
        logits = to_logits(np.stack(self.scores), score_type)
        return LabelledStream(np.asarray(logits), labels, self.n_seen - len(self.labels), dict(self.rejected))
