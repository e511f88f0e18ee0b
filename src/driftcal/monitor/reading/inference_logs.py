"""Logs of inference servers as lines of a stream: KServe's protocols v1 and v2, alone or in CloudEvents.

The scores of an answer are what the monitor's `score_type` says; nothing is guessed from their values.

- v1 is ``{"predictions": [[1.2, 0.3], ...]}``. A prediction may be an object that holds the scores by their name.
- v2 is ``{"outputs": [{"name": "logits", "shape": [n, C], "data": [...]}]}``. An output that is the only one may have any name.
- A CloudEvent holds one of these, or a line of the monitor, as `data` or `data_base64`. Its id and its time are those of the samples.
  Events of requests hold no scores and are skipped.

A log of several samples has one id: its samples are named ``id/0``, ``id/1``, ...
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any

#: What `line_of` returns for an event that holds nothing for a monitor.
SKIPPED = ""


def is_inference_log(value: Mapping[str, Any]) -> bool:
    """Whether an object looks like a log of an inference server."""
    return "predictions" in value or "outputs" in value or "specversion" in value


def line_of(value: Mapping[str, Any], score_type: str) -> dict[str, Any] | str:
    """The line of the monitor with the content of a log; a text is the reason why there is none, or `SKIPPED`.

    >>> line_of({"predictions": [[1.5, 0.2], [0.1, 3]], "id": "a"}, "logits")
    {'logits': [[1.5, 0.2], [0.1, 3]], 'id': ['a/0', 'a/1']}
    """
    if "specversion" in value:
        return _from_event(value, score_type)
    samples = _v1_samples(value, score_type) if "predictions" in value else _v2_samples(value, score_type)
    if isinstance(samples, str):
        return samples
    line: dict[str, Any] = {score_type: samples, **{key: value[key] for key in ("time", "label") if key in value}}
    return _with_ids(line, value.get("id"), len(samples))


def _with_ids(line: dict[str, Any], log_id: Any, n_samples: int) -> dict[str, Any]:
    if log_id is None:
        return line
    several = n_samples > 1 and not isinstance(log_id, list)
    return {**line, "id": [f"{log_id}/{i}" for i in range(n_samples)] if several else log_id}


def _from_event(event: Mapping[str, Any], score_type: str) -> dict[str, Any] | str:
    if str(event.get("type", "")).endswith(".request"):
        return SKIPPED
    data = event.get("data")
    if data is None and isinstance(event.get("data_base64"), str):
        try:
            data = json.loads(base64.b64decode(event["data_base64"], validate=True))
        except (ValueError, RecursionError, binascii.Error):
            return "not JSON"
    if not isinstance(data, dict) or "specversion" in data:
        return "event without data"
    moment = {} if event.get("time") is None else {"time": event["time"]}
    own = {key: entry for key, entry in data.items() if key not in ("id", "time") or entry is not None}
    if is_inference_log(data):
        return line_of({**moment, "id": event.get("id"), **own}, score_type)
    scores = own.get(score_type)
    n_samples = len(scores) if isinstance(scores, list) and scores and isinstance(scores[0], list) else 1
    return _with_ids({**moment, **own}, own.get("id", event.get("id")), n_samples)


def _v1_samples(value: Mapping[str, Any], score_type: str) -> list[Any] | str:
    predictions = value["predictions"]
    if not isinstance(predictions, list) or not predictions:
        return "predictions without scores"
    samples = [entry.get(score_type) if isinstance(entry, dict) else entry for entry in predictions]
    if not all(isinstance(sample, list) for sample in samples):  # class labels, for instance
        return "predictions without scores"
    return samples


def _v2_samples(value: Mapping[str, Any], score_type: str) -> list[Any] | str:
    listed = value["outputs"]
    outputs = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    named = [entry for entry in outputs if entry.get("name") == score_type] or (outputs if len(outputs) == 1 else [])
    if not named:
        return f"no output named {score_type}"
    data, shape = named[0].get("data"), named[0].get("shape")
    if not isinstance(data, list) or not data:
        return "predictions without scores"
    if isinstance(data[0], list):
        return data
    if (
        not isinstance(shape, list)
        or len(shape) != 2
        or not all(type(length) is int and length > 0 for length in shape)
        or math.prod(shape) != len(data)
    ):
        return "shape that does not fit"
    width = shape[1]
    return [data[start : start + width] for start in range(0, len(data), width)]
