"""The order of a stream: samples and late labels mean the same however the stream is divided into batches."""

import io
import json
from itertools import pairwise

import numpy as np
import pytest

from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.reading.stream_batch import BATCH_SAMPLES
from driftcal.monitor.serving.service import MonitorService


def mixed_lines(scenario, n, seed=0, *, timed=False):
    """Samples, labels before, after and long after their samples, ids that are used again, and garbage."""
    rng = np.random.default_rng(seed)
    logits, y = scenario.sample(n, 1.6, seed=seed)
    lines = []
    for i in range(n):
        value = {"logits": logits[i].tolist()}
        if rng.random() < 0.7:
            value["id"] = int(rng.integers(n // 3))
        if rng.random() < 0.3:
            value["label"] = int(y[i])
        if timed:
            value["time"] = float(rng.integers(5000))
        lines.append(json.dumps(value).encode())
        for _ in range(rng.integers(3)):
            lines.append(json.dumps({"id": int(rng.integers(n // 3)), "label": int(rng.integers(4))}).encode())
        if rng.random() < 0.2:
            lines.append(rng.choice([b"{", b"[1, 2]", b'{"logits": [1, NaN, 2]}', b'{"label": 1}', b"\xff"]))
    return lines


@pytest.mark.law
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_batches_do_not_change_the_state(scenario, tmp_path, seed, timed):
    lines = mixed_lines(scenario, 400, seed, timed=timed)
    rng = np.random.default_rng(seed)
    states = []
    for size in (1, 7, 100, len(lines)):
        monitor = scenario.monitor(window_size=50, max_windows=6, max_pending=60)
        starts = range(0, len(lines), size) if size != 7 else np.sort(rng.choice(len(lines), 40, replace=False))
        bounds = [0, *starts, len(lines)]
        for start, stop in pairwise(bounds):
            data = b"\n".join(lines[start:stop])
            list(MonitorService(monitor).run(json_batches(io.BytesIO(data), "logits", n_classes=3)))
        states.append(monitor.save(tmp_path / f"{size}.safetensors").read_bytes())
    assert len(set(states)) == 1


def test_a_label_before_its_sample_is_without_a_sample(scenario):
    sample, label = b'{"logits": [9, 0, 0], "id": "a"}', b'{"id": "a", "label": 0}'
    for lines, n_labels, n_rejected in (
        ((sample, label), 1, 0),
        ((label, sample), 0, 1),
        ((sample, label, label, sample, label), 2, 1),
        ((sample, sample, label), 1, 0),
    ):
        monitor = scenario.monitor()
        list(MonitorService(monitor).run(json_batches(io.BytesIO(b"\n".join(lines)), "logits")))
        labelled = monitor.summary().labelled
        assert (0 if labelled is None else labelled.n_samples) == n_labels
        assert monitor.rejected["label without a sample"] == n_rejected


def test_alternating_labels_do_not_cut_the_stream_into_single_samples(scenario):
    logits, y = scenario.sample(300)
    lines = []
    for i in range(300):
        lines += [json.dumps({"logits": logits[i].tolist(), "id": i}), json.dumps({"id": i, "label": int(y[i])}), "{"]
    batches = list(json_batches(io.BytesIO("\n".join(lines).encode()), "logits", n_classes=3))
    assert len(batches) <= 3  # of 64 KB each, and the last line without its end
    big = [[1.0, 2.0, 3.0]] * (3 * BATCH_SAMPLES)
    data = b"\n".join(json.dumps({"logits": sample}).encode() for sample in big)
    assert max(len(b.scores) for b in json_batches(io.BytesIO(data), "logits")) <= BATCH_SAMPLES


@pytest.mark.parametrize("digits", [16, 17, 19, 20, 38, 190])
@pytest.mark.parametrize("as_text", [False, True])
def test_ids_of_any_length_are_exact(scenario, digits, as_text):
    logits, _ = scenario.sample(200)
    predicted = scenario.calibrator.predict_proba(logits).argmax(axis=1)
    ids = [10 ** (digits - 1) + 7 * 10 ** (digits // 2) + k for k in range(200)]
    written = [str(i) for i in ids] if as_text else ids
    lines = [json.dumps({"logits": logits[k].tolist(), "id": written[k]}) for k in range(200)]
    lines += [json.dumps({"id": ids[k], "label": int(predicted[k])}) for k in reversed(range(200))]
    monitor = scenario.monitor()
    list(MonitorService(monitor).run(json_batches(io.BytesIO("\n".join(lines).encode()), "logits")))
    labelled = monitor.summary().labelled
    assert (labelled.n_samples, labelled.accuracy) == (200, 1.0)
    assert not monitor.pending
    assert not monitor.rejected


def test_ids_that_are_not_exact_are_counted_and_not_confused(scenario):
    lines = [
        b'{"logits": [1, 2, 3], "id": 1700000000000000001.0}',  # a float: its digits are lost
        b'{"logits": [1, 2, 3], "id": ' + b"7" * 5000 + b"}",
        b'{"logits": [1, 2, 3], "id": "' + b"7" * 201 + b'"}',
        b'{"logits": [1, 2, 3], "id": 12.0}',
    ]
    monitor = scenario.monitor()
    list(MonitorService(monitor).run(json_batches(io.BytesIO(b"\n".join(lines)), "logits")))
    assert monitor.n_samples == 4
    assert monitor.rejected == {"id not exact": 2, "id too long": 1}
    assert list(monitor.pending) == ["12.0"]


def test_ids_of_arrays_are_exact(scenario, tmp_path):
    from driftcal.monitor.reading.stream_reader import file_batches

    ids = np.uint64(2**64 - 200) + np.arange(100, dtype=np.uint64)
    np.savez(tmp_path / "a.npz", logits=scenario.sample(100)[0], id=ids)
    monitor = scenario.monitor()
    list(MonitorService(monitor).run(file_batches(tmp_path / "a.npz", "logits")))
    assert monitor.add_labels(ids.tolist(), [0] * 100) == 100


@pytest.mark.parametrize("label", ['"' + "9" * 5000 + '"', "9" * 5000, "1e400", '"' + "x" * 10**5 + '"', "[[1]]", "{}"])
def test_labels_of_any_kind_are_counted(scenario, label):
    data = b'{"logits": [1, 2, 3], "id": "a"}\n{"id": "a", "label": %s}\n' % label.encode()
    monitor = scenario.monitor()
    list(MonitorService(monitor).run(json_batches(io.BytesIO(data), "logits")))
    assert (list(monitor.pending), monitor.rejected) == (["a"], {"unknown label": 1})


def test_huge_whole_numbers_are_no_ids_and_no_labels(scenario):
    monitor = scenario.monitor()
    assert monitor.update([[1.0, 2.0, 3.0]] * 2, ids=[10**5000, "b"], y=[None, 10**5000]) == 2
    assert monitor.add_labels([10**5000, "b"], [1, 10**5000]) == 0
    assert monitor.rejected == {"id too long": 1, "unknown label": 2, "label without a sample": 1}
