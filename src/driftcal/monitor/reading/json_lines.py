"""Lines of JSON as batches of samples. The content is not trusted: a line that cannot be read is counted by its reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from driftcal.monitor.clock import seconds
from driftcal.monitor.reading.inference_logs import SKIPPED, is_inference_log, line_of
from driftcal.monitor.reading.line_reader import MAX_LINE, line_groups
from driftcal.monitor.reading.stream_batch import BatchBuilder, StreamBatch

#: Whole numbers with more digits become floats. All others fit into a float, too, so that they can be scores.
_MAX_DIGITS = 300


def json_batches(
    stream: BinaryIO,
    score_type: str,
    *,
    n_classes: int | None = None,
    max_line: int = MAX_LINE,
    arrival_time: Callable[[], float] | None = None,
) -> Iterator[StreamBatch]:
    """Lines of JSON as batches: objects with `score_type` (one sample or several), and optionally label, id and time.

    A line with label and id but without scores is a late label. A time is a number or ISO 8601 text. Logs of inference
    servers are read, too, see `inference_logs`. While the stream is quiet, empty batches are yielded.

    Parameters
    ----------
    stream : the bytes.
    score_type : name of the scores, "logits" or "probabilities".
    n_classes : number of scores of a sample; None for any number.
    max_line : bytes of the longest line; longer ones are counted and take no memory.
    arrival_time : the time of samples that have none; None to leave them without.
    """
    reader = JsonLineReader(score_type, n_classes, arrival_time)
    for group in line_groups(stream, max_line):
        for line in group:
            reader.read(line)
        yield from reader.builder.take() if group else [StreamBatch()]


class JsonLineReader:
    """Reads lines of JSON one after the other into a builder of batches."""

    def __init__(
        self, score_type: str, n_classes: int | None = None, arrival_time: Callable[[], float] | None = None
    ) -> None:
        self.score_type, self.arrival_time = score_type, arrival_time
        self.builder = BatchBuilder(n_classes)

    def read(self, line: bytes | None) -> None:
        """Read one line; None stands for a line that was too long. Empty lines are skipped."""
        if line is None:
            return self.builder.reject("line too long")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            return self.builder.reject("not UTF-8")
        if not text or text.isspace():
            return None
        try:
            value = parse_json(text)
        except (ValueError, RecursionError):  # half a line, a thousand brackets
            return self.builder.reject("not JSON")
        return self.read_value(value)

    def read_value(self, value: Any) -> None:
        """Read the value of a line: an object, a list of objects, or the scores alone."""
        builder, score_type = self.builder, self.score_type
        if isinstance(value, list):
            if value and isinstance(value[0], dict):
                for entry in value:  # without a list of objects inside a list: they might be nested a thousand times
                    has_objects = isinstance(entry, list) and entry and isinstance(entry[0], dict)
                    self.read_value(None if has_objects else entry)
                return None
            value = {score_type: value}
        if not isinstance(value, dict):
            return builder.reject("not an object")
        get = value.get
        scores, label, name, moment = get(score_type), get("label"), get("id"), get("time")
        labels = label if label is None or type(label) is list else [label]
        ids = name if name is None or type(name) is list else [name]
        if scores is None:
            if len(value) == 2 and labels is not None and ids is not None and len(labels) == len(ids):
                return builder.add_late_labels(ids, labels)
            if is_inference_log(value):
                line = line_of(value, score_type)
                if isinstance(line, str):
                    return builder.reject(line) if line != SKIPPED else None
                return self.read_value(line)
            if labels is None or ids is None or len(labels) != len(ids):
                return builder.reject(f"no {score_type}")
            return builder.add_late_labels(ids, labels)
        if type(scores) is not list or not scores:
            return builder.reject("not numbers")
        samples = scores if type(scores[0]) is list else [scores]
        n_samples = len(samples)
        if (labels is not None and len(labels) != n_samples) or (ids is not None and len(ids) != n_samples):
            return builder.reject("fields of different lengths", n_samples)
        if moment is None and self.arrival_time is not None:
            moment = self.arrival_time()
        times = None
        if moment is not None:
            times = [seconds(entry) for entry in moment] if type(moment) is list else [seconds(moment)]
            if len(times) == 1 < n_samples:
                times *= n_samples
            if len(times) != n_samples:
                return builder.reject("fields of different lengths", n_samples)
        return builder.add_samples(samples, times, labels, ids)


def _whole_number(digits: str) -> int | float:
    """A whole number, exact up to 300 digits: ids and labels may have any length. Longer ones may be infinite."""
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


#: Parses one JSON value of a text. Made once: json.loads with options makes a decoder for each call.
parse_json: Callable[[str], Any] = json.JSONDecoder(parse_int=_whole_number).decode
