"""Logs of inference servers: KServe v1 and v2, CloudEvents in both modes, and what is not a score."""

import base64
import json

import pytest

from driftcal.monitor.reading.json_lines import JsonLineReader

SAMPLES = [[1.0, 2.0, 3.0], [3.0, 1.0, 0.5]]
FLAT = [score for sample in SAMPLES for score in sample]
V1 = {"predictions": SAMPLES}
V2 = {"outputs": [{"name": "logits", "datatype": "FP32", "shape": [2, 3], "data": FLAT}], "model_name": "m", "id": "r"}


def event(data, **attributes):
    return {"specversion": "1.0", "type": "org.kubeflow.serving.inference.response", "id": "e", "source": "s"} | {
        "time": "2026-01-01T00:00:00Z", "data": data, **attributes
    }  # fmt: skip


def read(value, score_type="logits"):
    reader = JsonLineReader(score_type, 3)
    reader.read(json.dumps(value).encode())
    batches = reader.builder.take()
    assert len(batches) <= 1
    return batches[0] if batches else None


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (V1, None),
        ({**V1, "id": "a"}, ["a/0", "a/1"]),
        ({"predictions": [{"logits": sample, "class": 2} for sample in SAMPLES]}, None),
        (V2, ["r/0", "r/1"]),
        ({"outputs": [{"name": "output_0", "shape": [2, 3], "data": SAMPLES}]}, None),
        ({"outputs": [{"name": "class", "shape": [2], "data": [1, 0]}, V2["outputs"][0]]}, None),
        (event(V1), ["e/0", "e/1"]),
        (event(V2), ["r/0", "r/1"]),
        (event({"logits": SAMPLES}), ["e/0", "e/1"]),
        (event({"logits": SAMPLES, "id": ["x", "y"]}), ["x", "y"]),
        (event(None, data_base64=base64.b64encode(json.dumps(V1).encode()).decode()), ["e/0", "e/1"]),
        ([event({"predictions": [SAMPLES[0]]}), event({"predictions": [SAMPLES[1]]}, id="f")], ["e", "f"]),
    ],
)
def test_logs_are_samples(value, ids):
    batch = read(value)
    assert batch.scores.tolist() == SAMPLES
    assert batch.ids == ids
    assert batch.times == ([1767225600.0] * 2 if "specversion" in json.dumps(value) else None)
    assert not batch.rejected


def test_labels_may_come_in_events():
    batch = read(event({"id": "e/1", "label": 2}))
    assert [(late.id, late.label) for late in batch.late_labels] == [("e/1", 2)]
    assert [(late.id, late.label) for late in read(event({"label": 2})).late_labels] == [("e", 2)]


def test_requests_hold_nothing():
    assert read(event({"instances": SAMPLES}, type="org.kubeflow.serving.inference.request")) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"predictions": [0, 2, 1]}, "predictions without scores"),  # classes, not scores
        ({"predictions": []}, "predictions without scores"),
        ({"predictions": [{"probabilities": [0, 1, 0]}]}, "predictions without scores"),
        ({"predictions": "x"}, "predictions without scores"),
        ({"outputs": []}, "no output named logits"),
        ({"outputs": 7}, "no output named logits"),
        ({"outputs": [{"name": "a", "data": [1]}, {"name": "b", "data": [1]}]}, "no output named logits"),
        ({"outputs": [{"name": "logits", "shape": [2, 2], "data": FLAT}]}, "shape that does not fit"),
        ({"outputs": [{"name": "logits", "shape": [-2, -3], "data": FLAT}]}, "shape that does not fit"),
        ({"outputs": [{"name": "logits", "shape": [6], "data": FLAT}]}, "shape that does not fit"),
        ({"outputs": [{"name": "logits", "shape": [2, 3], "data": []}]}, "predictions without scores"),
        (event(None), "event without data"),
        (event(event(V1)), "event without data"),
        (event(None, data_base64="%%%"), "not JSON"),
        (event({"predictions": [[1, 2]]}), "wrong number of classes"),
    ],
)
def test_what_is_no_score_is_counted(value, reason):
    assert dict(read(value).rejected) == {reason: 1}
