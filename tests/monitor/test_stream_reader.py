"""Unchecked streams: unreadable lines are counted and do not stop the reader, and memory is bounded."""

import io
import itertools
import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from driftcal.cli import main
from driftcal.data.score_files import read_scores
from driftcal.errors import LabelsError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.json_lines import JsonLineReader, json_batches
from driftcal.monitor.reading.labelled_stream import read_labelled_stream
from driftcal.monitor.reading.line_reader import line_groups
from driftcal.monitor.serving.service import MonitorService


@pytest.fixture(scope="session")
def artefact(scenario, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "cal.safetensors"
    scenario.calibrator.save(path, metadata={"drift_reference": scenario.drift_reference.to_dict()})
    return path


def monitor_stream(scenario, data, score_type="logits", **settings):
    monitor = scenario.monitor(score_type=score_type, **settings)
    windows = list(MonitorService(monitor).run(json_batches(io.BytesIO(data), score_type)))
    return monitor, windows


def lines(*objects):
    return b"".join(json.dumps(value).encode() + b"\n" for value in objects)


def lines_of(stream, max_line):
    return list(itertools.chain.from_iterable(line_groups(stream, max_line)))


def test_lines_are_samples(scenario):
    logits, y = scenario.sample(1200)
    samples = [{"logits": sample.tolist(), "label": int(label)} for sample, label in zip(logits, y, strict=True)]
    monitor, windows = monitor_stream(scenario, lines(*samples), window_size=500)
    plain = scenario.monitor(window_size=500)
    plain.update(logits, y=y)
    assert [w.to_dict() for w in windows] == [w.to_dict() for w in plain.windows()]
    batch, _ = monitor_stream(scenario, lines({"logits": logits.tolist(), "label": y.tolist()}), window_size=500)
    assert batch.summary() == monitor.summary() == plain.summary()


def test_times_labels_and_ids(scenario):
    logits, y = scenario.sample(4)
    data = lines(
        {"logits": logits[0].tolist(), "time": "2026-01-01T00:30:00Z", "id": "a"},
        {"logits": logits[1:3].tolist(), "time": 1767229200, "id": ["b", 7]},
        {"logits": logits[3].tolist(), "time": "yesterday"},
        {"id": "a", "label": int(y[0])},
        {"id": ["b", 7, "zebra"], "label": [int(y[1]), int(y[2]), 0]},
    )
    monitor, windows = monitor_stream(scenario, data, window_size=3600)
    assert [(w.begin, w.n_samples) for w in windows] == [(1767225600, 1), (1767229200, 2)]
    assert monitor.summary().labelled.n_samples == 3
    assert monitor.rejected == {"bad time": 1, "label without a sample": 1}


def test_bad_lines_are_counted_by_reason(scenario):
    good = {"logits": [1.0, 2.0, 3.0]}
    data = lines(good) + b"".join(
        line + b"\n"
        for line in (
            b'{"logits": [1, 2',  # half a line
            b"\xff\xfe\x00",
            b"[" * 100_000,
            b'{"logits": ' + b"9" * 10_000 + b"}",
            b'{"logits": [NaN, 1, 2]}',
            b'{"logits": [1e999, 1, 2]}',
            b'{"logits": [1, 2]}',
            b'{"logits": [1, 2, 3, 4]}',
            b'{"logits": ["a", 1, 2]}',
            b'{"logits": [[1, 2, 3], [1]]}',
            b'{"logits": []}',
            b'{"logits": {"a": 1}}',
            b'{"logits": [1, 2, ' + b"8" * 400 + b"]}",
            b'{"logits": [1, 2, 3], "label": 17}',
            b'{"logits": [1, 2, 3], "label": [0, 1]}',
            b'{"probabilities": [0, 0, 1]}',
            b"17",
            b"null",
            b"",
            b"  ",
            b'{"logits": [true, false, null]}',
        )
    ) + json.dumps(good).encode()  # fmt: skip
    monitor, _ = monitor_stream(scenario, data)
    assert monitor.n_samples == 3  # the good ones, and the one whose label is unknown
    assert monitor.rejected == {
        "not JSON": 2, "not UTF-8": 1, "not numbers": 7, "not finite": 3, "wrong number of classes": 2,
        "unknown label": 1, "fields of different lengths": 1, "no logits": 1, "not an object": 2,
    }  # fmt: skip


def test_probabilities_of_a_stream(scenario):
    monitor, _ = monitor_stream(
        scenario, lines({"probabilities": [0.2, 0.3, 0.5]}, {"probabilities": [0.2, 0.3, 0.6]}), "probabilities"
    )
    assert monitor.n_samples == 1
    assert monitor.rejected == {"not probabilities": 1}


class Endless(io.RawIOBase):
    """Many bytes without a newline, then a good line; they are never in memory at once."""

    def __init__(self, size, ending):
        self.left, self.ending = size, ending

    def read(self, n=-1):
        if self.left > 0:
            self.left -= n
            return b"7" * n
        ending, self.ending = self.ending[:n], self.ending[n:]
        return ending


def test_gigabytes_without_a_newline_stay_out_of_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = Endless(1 << 30, b"\n[1, 2]\n")
    assert lines_of(stream, max_line=1 << 20) == [None, b"[1, 2]"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_a_line_at_the_limit(scenario):
    assert lines_of(io.BytesIO(b"abc\nabcd\nab"), max_line=3) == [b"abc", None, b"ab"]
    assert lines_of(io.BytesIO(b"x" * 200_000), max_line=1000) == [None]


def command(*arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(["monitor", *map(str, arguments)])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


def test_command_on_files(scenario, artefact, tmp_path, capsys):
    logits, y = scenario.sample(1000, 2.2)
    np.savez(tmp_path / "a.npz", logits=logits, y=y)
    np.save(tmp_path / "b.npy", logits)
    header = "z0,z1,z2,label,id\n"
    body = "".join(
        f"{a!r},{b!r},{c!r},{label},{i}\n" for i, ((a, b, c), label) in enumerate(zip(logits.tolist(), y, strict=True))
    )
    (tmp_path / "c.csv").write_text(header + body + "1,2\n" + "x,y,z,0,q\n")
    (tmp_path / "d.jsonl").write_bytes(lines({"logits": logits.tolist(), "label": y.tolist()}))
    printed = {}
    for name in ("a.npz", "b.npy", "c.csv", "d.jsonl"):
        code, out, err = command(artefact, tmp_path / name, "--json", "--quiet", capsys=capsys)
        assert (code, err) == (0, "")
        printed[name] = [json.loads(line) for line in out.splitlines()]
    assert printed["a.npz"] == printed["d.jsonl"]
    assert printed["c.csv"][:2] == printed["a.npz"][:2]
    assert printed["c.csv"][-1]["summary"]["rejected"] == {"not numbers": 1, "wrong number of columns": 1}
    assert [w["state"] for w in printed["b.npy"][:-1]] == ["inputs shifted", "inputs shifted"]
    assert printed["b.npy"][0]["labelled"] is None
    assert printed["a.npz"][0]["labelled"]["n_samples"] == 500


@pytest.mark.parametrize("label", ["y", "label", "labels", "target", "targets", "Label"])
def test_a_csv_file_of_fit_can_be_monitored(scenario, artefact, tmp_path, capsys, label):
    logits, y = scenario.sample(500)
    rows = zip(logits.tolist(), y.tolist(), strict=True)
    body = "".join(f"{i},{k},g,{a!r},{b!r},{c!r},1\n" for i, ((a, b, c), k) in enumerate(rows))
    (tmp_path / "live.csv").write_text(f",{label},Group,0,1,2,level\n{body}")
    code, out, err = command(artefact, tmp_path / "live.csv", "--json", "--quiet", capsys=capsys)
    summary = json.loads(out.splitlines()[-1])["summary"]
    assert (code, err, summary["rejected"]) == (0, "", {})
    assert summary["labelled"]["n_samples"] == summary["n_samples"] == 500
    scores = read_scores(tmp_path / "live.csv")
    np.testing.assert_array_equal(scores.scores, logits)
    np.testing.assert_array_equal(scores.labels.astype(int), y)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b,c,answer\n1,2,3,0\n1,2,0,1\n", "2 wrong number of classes"),
        ("a,b,c,y\n1,2,nan,0\n", "1 not finite"),
        ("a,b,c,y\n1,2\n1,2,x,0\n", "1 not numbers, 1 wrong number of columns"),
    ],
)
def test_a_file_without_a_usable_sample_fails(artefact, tmp_path, capsys, text, reason):
    (tmp_path / "live.csv").write_text(text)
    state = tmp_path / "state.safetensors"
    code, _, err = command(artefact, tmp_path / "live.csv", "--state", state, capsys=capsys)
    assert code == 1
    assert f"must hold 3 logits per sample; no sample could be used: {reason}. " in " ".join(err.split())
    assert state.exists()


def test_a_file_of_late_labels_may_hold_garbage(scenario, artefact, tmp_path, capsys):
    logits, _ = scenario.sample(60)
    state = tmp_path / "state.safetensors"
    (tmp_path / "a.jsonl").write_bytes(lines(*({"logits": z.tolist(), "id": i} for i, z in enumerate(logits))))
    (tmp_path / "b.jsonl").write_bytes(lines({"id": 3, "label": 1}) + b"garbage\n")
    (tmp_path / "c.jsonl").write_bytes(b"garbage\n")
    for name, expected in (("a.jsonl", 0), ("b.jsonl", 0), ("c.jsonl", 1)):
        code, _, err = command(artefact, tmp_path / name, "--state", state, capsys=capsys)
        assert code == expected, err


def test_command_state_report_and_prometheus(scenario, artefact, tmp_path, capsys):
    logits, _ = scenario.sample(1500)
    np.save(tmp_path / "all.npy", logits)
    np.save(tmp_path / "first.npy", logits[:700])
    np.save(tmp_path / "rest.npy", logits[700:])
    state = tmp_path / "state.safetensors"
    first = command(artefact, tmp_path / "first.npy", "--state", state, "--json", "-q", capsys=capsys)[1]
    rest = command(artefact, tmp_path / "rest.npy", "--state", state, "--json", "-q", capsys=capsys)[1]
    at_once = command(artefact, tmp_path / "all.npy", "--json", "-q", capsys=capsys)[1]
    assert rest.splitlines()[-1] == at_once.splitlines()[-1]  # the summary
    assert rest.splitlines()[:-1] == at_once.splitlines()[1:-1]  # the second window again, complete this time
    assert first.splitlines()[0] == at_once.splitlines()[0]
    page, figures = tmp_path / "t.html", tmp_path / "f.prom"
    code, out, _ = command(
        artefact, tmp_path / "all.npy", "--report", page, "--prometheus", figures, capsys=capsys
    )  # fmt: skip
    assert code == 0
    assert "1,500 samples in 3 windows (3 ok); newest: ok" in out
    assert "Nothing to do." in out
    assert page.read_text().count("<svg") == 3
    text = figures.read_text()
    assert "driftcal_samples_total 1500.0\n" in text
    assert 'driftcal_state{state="ok"} 1.0' in text
    printed = command(artefact, tmp_path / "all.npy", "--prometheus", "-", capsys=capsys)[1]
    assert printed == text


def test_command_reads_a_pipe_with_bad_lines(scenario, artefact):
    logits, _ = scenario.sample(100)
    data = lines(*({"logits": sample.tolist()} for sample in logits)) + b'\xff{"half'
    arguments = [
        sys.executable,
        "-c",
        "from driftcal.cli import main; main()",
        "monitor",
        str(artefact),
        "--json",
        "--quiet",
    ]
    ran = subprocess.run(arguments, input=data, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 0
    assert ran.stderr == b""
    window, summary = map(json.loads, ran.stdout.splitlines())
    assert window["n_samples"] == 100
    assert summary["summary"]["rejected"] == {"not UTF-8": 1}


def test_misuse_is_one_line(artefact, tmp_path, capsys):
    assert command(artefact, "--window-size", "soon", capsys=capsys)[0] == 2
    assert command(artefact, "--score-type", "scores", capsys=capsys)[0] == 2
    code, _, err = command(artefact, tmp_path / "none.npy", capsys=capsys)
    assert code == 1
    assert err.count("\n") == 1
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no")
    code, _, err = command(artefact, tmp_path / "bad.npz", capsys=capsys)
    assert (code, err.count("\n")) == (1, 1)
    np.savez(tmp_path / "other.npz", scores=np.zeros((2, 3)))
    assert "must hold an array named 'logits'" in command(artefact, tmp_path / "other.npz", capsys=capsys)[2]


def test_an_interruption_writes_the_state(scenario, tmp_path):
    logits, _ = scenario.sample(300)

    def batches():
        yield from json_batches(io.BytesIO(lines({"logits": logits.tolist()})), "logits")
        raise KeyboardInterrupt

    service = MonitorService(scenario.monitor(), tmp_path / "state.safetensors")
    with pytest.raises(KeyboardInterrupt):
        list(service.run(batches()))
    assert (
        Monitor.load(
            tmp_path / "state.safetensors", scenario.calibrator, drift_reference=scenario.drift_reference
        ).n_samples
        == 300
    )


def test_a_window_with_late_samples_is_reported_again_with_the_next(scenario):
    sample = scenario.sample(1)[0][0].tolist()
    times = [10, 20, 110, 30, 120, 210, 220]
    monitor = scenario.monitor(window_size=100)
    batches = [next(iter(json_batches(io.BytesIO(lines({"logits": sample, "time": at})), "logits"))) for at in times]
    reported = [(w.begin, w.n_samples) for w in MonitorService(monitor).run(batches)]
    assert reported == [(0, 2), (0, 3), (100, 2), (200, 2)]


def test_a_window_of_time_ends_with_its_time_however_many_samples_it_holds(scenario):
    sample = scenario.sample(1)[0][0].tolist()
    _, windows = monitor_stream(
        scenario, lines(*[{"logits": sample, "time": at / 10} for at in range(120)]), window_size=10
    )
    assert [(w.begin, w.n_samples) for w in windows] == [(0, 100), (10, 20)]
    batches = [
        next(iter(json_batches(io.BytesIO(lines({"logits": sample, "time": at / 10})), "logits"))) for at in range(120)
    ]
    reported = [(w.begin, w.n_samples) for w in MonitorService(scenario.monitor(window_size=10)).run(batches)]
    assert reported == [(0, 100), (10, 20)]


def test_windows_of_time_need_times(scenario, artefact, tmp_path, capsys):
    logits, _ = scenario.sample(60)
    np.savez(tmp_path / "samples.npz", logits=logits)
    _, out, _ = command(artefact, tmp_path / "samples.npz", "--window-size", "1h", "--json", capsys=capsys)
    reported = [json.loads(line) for line in out.splitlines()]
    assert len(reported) == 1
    assert reported[0]["summary"]["rejected"] == {"no time": 60}
    arguments = [sys.executable, "-m", "driftcal", "monitor", str(artefact), "--window-size", "10d", "--json"]
    data = lines(*[{"logits": sample.tolist()} for sample in logits])
    output = subprocess.run(arguments, input=data, capture_output=True, check=True).stdout.splitlines()
    # read in the same moment: one window, or two if ten days were just over
    assert sum(json.loads(line)["n_samples"] for line in output[:-1]) == 60
    assert json.loads(output[0])["begin"] > 1e9


def test_objects_nested_a_thousand_times_are_rejected():
    """Newer versions of Python parse deeper values than their functions may call each other."""
    value = []
    for _ in range(5000):
        value = [{"logits": [1, 2, 3]}, value]
    reader = JsonLineReader("logits", 3)
    reader.read_value(value)
    (batch,) = reader.builder.take()
    assert (len(batch.scores), batch.rejected) == (1, {"not an object": 1})


def test_samples_without_scores_are_rejected():
    reader = JsonLineReader("logits")
    reader.read(b'{"logits": [[]], "label": 1}')
    reader.read(b'{"logits": [1, 2], "label": 1}')
    (batch,) = reader.builder.take()
    assert (batch.scores.tolist(), batch.rejected) == ([[1, 2]], {"not numbers": 1})


def test_a_long_label_in_a_labelled_stream_is_refused(tmp_path):
    """An array of text has the width of its longest label for every sample: three megabytes here asked for 36 GB."""
    line = '{"logits": [1, 2], "label": "%s"}\n'
    (tmp_path / "a.jsonl").write_text(line % ("a" * 3_000_000) + 3000 * (line % "a"))
    with pytest.raises(LabelsError, match=r"at most 1,000 characters; sample 0 has 3,000,000"):
        read_labelled_stream(tmp_path / "a.jsonl")
