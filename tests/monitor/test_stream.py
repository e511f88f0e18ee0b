"""Streams nobody has checked: the monitor goes on, counts what it dropped, and never holds more than it may."""

import io
import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from driftcal.cli import main
from driftcal.monitor.lines import lines_of
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.stream import json_batches
from driftcal.monitor.watch import Watch


@pytest.fixture(scope="session")
def artefact(world, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "cal.safetensors"
    world.calibrator.save(path, notes={"profile": world.drift_reference.to_dict()})
    return path


def watched(world, data, inputs="logits", **settings):
    monitor = world.monitor(inputs=inputs, **settings)
    windows = list(Watch(monitor).run(json_batches(io.BytesIO(data), inputs)))
    return monitor, windows


def lines(*objects):
    return b"".join(json.dumps(value).encode() + b"\n" for value in objects)


def test_lines_are_the_rows(world):
    logits, y = world.sample(1200)
    rows = [{"logits": row.tolist(), "label": int(label)} for row, label in zip(logits, y, strict=True)]
    monitor, windows = watched(world, lines(*rows), every=500)
    plain = world.monitor(every=500)
    plain.update(logits, y=y)
    assert [w.to_dict() for w in windows] == [w.to_dict() for w in plain.windows()]
    batch, _ = watched(world, lines({"logits": logits.tolist(), "label": y.tolist()}), every=500)
    assert batch.summary() == monitor.summary() == plain.summary()


def test_times_labels_and_ids(world):
    logits, y = world.sample(4)
    data = lines(
        {"logits": logits[0].tolist(), "time": "2026-01-01T00:30:00Z", "id": "a"},
        {"logits": logits[1:3].tolist(), "time": 1767229200, "id": ["b", 7]},
        {"logits": logits[3].tolist(), "time": "yesterday"},
        {"id": "a", "label": int(y[0])},
        {"id": ["b", 7, "zebra"], "label": [int(y[1]), int(y[2]), 0]},
    )
    monitor, windows = watched(world, data, every=3600)
    assert [(w.begin, w.rows) for w in windows] == [(1767225600, 1), (1767229200, 2)]
    assert monitor.summary().labelled["rows"] == 3
    assert monitor.rejected == {"bad time": 1, "label without a row": 1}


def test_bad_lines_are_counted_by_reason(world):
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
    monitor, _ = watched(world, data)
    assert monitor.rows == 3  # the good ones, and the one whose label is unknown
    assert monitor.rejected == {
        "not JSON": 2, "not UTF-8": 1, "not numbers": 7, "not finite": 3, "wrong number of classes": 2,
        "unknown label": 1, "fields of different lengths": 1, "no logits": 1, "not an object": 2,
    }  # fmt: skip


def test_probabilities_of_a_stream(world):
    monitor, _ = watched(
        world, lines({"probabilities": [0.2, 0.3, 0.5]}, {"probabilities": [0.2, 0.3, 0.6]}), "probabilities"
    )
    assert monitor.rows == 1
    assert monitor.rejected == {"not probabilities": 1}


class Endless(io.RawIOBase):
    """So many bytes without a newline, then a good row; nothing of it is ever there at once."""

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
    assert list(lines_of(stream, longest=1 << 20)) == [None, b"[1, 2]"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_a_line_at_the_limit(world):
    assert list(lines_of(io.BytesIO(b"abc\nabcd\nab"), longest=3)) == [b"abc", None, b"ab"]
    assert list(lines_of(io.BytesIO(b"x" * 200_000), longest=1000)) == [None]


def command(*words, capsys):
    with pytest.raises(SystemExit) as end:
        main(["monitor", *map(str, words)])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


def test_command_on_files(world, artefact, tmp_path, capsys):
    logits, y = world.sample(1000, 2.2)
    np.savez(tmp_path / "a.npz", logits=logits, y=y)
    np.save(tmp_path / "b.npy", logits)
    header = "z0,z1,z2,label,id\n"
    rows = "".join(
        f"{a!r},{b!r},{c!r},{label},{i}\n" for i, ((a, b, c), label) in enumerate(zip(logits.tolist(), y, strict=True))
    )
    (tmp_path / "c.csv").write_text(header + rows + "1,2\n" + "x,y,z,0,q\n")
    (tmp_path / "d.jsonl").write_bytes(lines({"logits": logits.tolist(), "label": y.tolist()}))
    found = {}
    for name in ("a.npz", "b.npy", "c.csv", "d.jsonl"):
        code, out, err = command(artefact, tmp_path / name, "--json", "--quiet", capsys=capsys)
        assert (code, err) == (0, "")
        found[name] = [json.loads(line) for line in out.splitlines()]
    assert found["a.npz"] == found["d.jsonl"]
    assert found["c.csv"][:2] == found["a.npz"][:2]
    assert found["c.csv"][-1]["summary"]["rejected"] == {"not numbers": 1, "wrong number of columns": 1}
    assert [w["state"] for w in found["b.npy"][:-1]] == ["drifting", "drifting"]
    assert found["b.npy"][0]["labelled"] is None
    assert found["a.npz"][0]["labelled"]["rows"] == 500


def test_command_state_report_and_prometheus(world, artefact, tmp_path, capsys):
    logits, _ = world.sample(1500)
    np.save(tmp_path / "all.npy", logits)
    np.save(tmp_path / "first.npy", logits[:700])
    np.save(tmp_path / "rest.npy", logits[700:])
    state = tmp_path / "state.safetensors"
    first = command(artefact, tmp_path / "first.npy", "--state", state, "--json", "-q", capsys=capsys)[1]
    rest = command(artefact, tmp_path / "rest.npy", "--state", state, "--json", "-q", capsys=capsys)[1]
    whole = command(artefact, tmp_path / "all.npy", "--json", "-q", capsys=capsys)[1]
    assert rest.splitlines()[-1] == whole.splitlines()[-1]  # the summary
    assert rest.splitlines()[:-1] == whole.splitlines()[1:-1]  # the second window again, whole this time
    assert first.splitlines()[0] == whole.splitlines()[0]
    page, figures = tmp_path / "t.html", tmp_path / "f.prom"
    code, out, _ = command(
        artefact, tmp_path / "all.npy", "--report", page, "--prometheus", figures, capsys=capsys
    )  # fmt: skip
    assert code == 0
    assert "1,500 rows in 3 windows; newest: ok" in out
    assert "Nothing to do." in out
    assert page.read_text().count("<svg") == 3
    text = figures.read_text()
    assert "driftcal_rows_total 1500.0\n" in text
    assert 'driftcal_state{state="ok"} 1.0' in text
    printed = command(artefact, tmp_path / "all.npy", "--prometheus", "-", capsys=capsys)[1]
    assert printed == text


def test_command_reads_a_pipe_and_survives_it(world, artefact):
    logits, _ = world.sample(100)
    data = lines(*({"logits": row.tolist()} for row in logits)) + b'\xff{"half'
    words = [
        sys.executable,
        "-c",
        "from driftcal.cli import main; main()",
        "monitor",
        str(artefact),
        "--json",
        "--quiet",
    ]
    ran = subprocess.run(words, input=data, capture_output=True, timeout=120, check=False)
    assert ran.returncode == 0
    assert ran.stderr == b""
    window, summary = map(json.loads, ran.stdout.splitlines())
    assert window["rows"] == 100
    assert summary["summary"]["rejected"] == {"not UTF-8": 1}


def test_misuse_is_one_line(artefact, tmp_path, capsys):
    assert command(artefact, "--every", "soon", capsys=capsys)[0] == 2
    assert command(artefact, "--inputs", "scores", capsys=capsys)[0] == 2
    code, _, err = command(artefact, tmp_path / "none.npy", capsys=capsys)
    assert code == 1
    assert err.count("\n") == 1
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no")
    code, _, err = command(artefact, tmp_path / "bad.npz", capsys=capsys)
    assert (code, err.count("\n")) == (1, 1)
    np.savez(tmp_path / "other.npz", scores=np.zeros((2, 3)))
    assert "must hold an array named 'logits'" in command(artefact, tmp_path / "other.npz", capsys=capsys)[2]


def test_an_interruption_writes_the_state(world, tmp_path):
    logits, _ = world.sample(300)

    def batches():
        yield from json_batches(io.BytesIO(lines({"logits": logits.tolist()})), "logits")
        raise KeyboardInterrupt

    watch = Watch(world.monitor(), tmp_path / "state.safetensors")
    with pytest.raises(KeyboardInterrupt):
        list(watch.run(batches()))
    assert (
        Monitor.load(tmp_path / "state.safetensors", world.calibrator, drift_reference=world.drift_reference).rows
        == 300
    )


def test_late_rows_bring_their_window_again_with_the_next(world):
    row = world.sample(1)[0][0].tolist()
    times = [10, 20, 110, 30, 120, 210, 220]
    monitor = world.monitor(every=100)
    batches = [next(iter(json_batches(io.BytesIO(lines({"logits": row, "time": at})), "logits"))) for at in times]
    told = [(w.begin, w.rows) for w in Watch(monitor).run(batches)]
    assert told == [(0, 2), (0, 3), (100, 2), (200, 2)]


def test_a_window_of_time_ends_with_its_time_however_many_rows_it_holds(world):
    row = world.sample(1)[0][0].tolist()
    _, windows = watched(world, lines(*[{"logits": row, "time": at / 10} for at in range(120)]), every=10)
    assert [(w.begin, w.rows) for w in windows] == [(0, 100), (10, 20)]
    batches = [next(iter(json_batches(io.BytesIO(lines({"logits": row, "time": at / 10})), "logits"))) for at in range(120)]  # fmt: skip
    told = [(w.begin, w.rows) for w in Watch(world.monitor(every=10)).run(batches)]
    assert told == [(0, 100), (10, 20)]


def test_windows_of_time_need_times(world, artefact, tmp_path, capsys):
    logits, _ = world.sample(60)
    np.savez(tmp_path / "rows.npz", logits=logits)
    _, out, _ = command(artefact, tmp_path / "rows.npz", "--every", "1h", "--json", capsys=capsys)
    told = [json.loads(line) for line in out.splitlines()]
    assert len(told) == 1
    assert told[0]["summary"]["rejected"] == {"no time": 60}
    words = [sys.executable, "-m", "driftcal", "monitor", str(artefact), "--every", "10d", "--json"]
    data = lines(*[{"logits": row.tolist()} for row in logits])
    found = subprocess.run(words, input=data, capture_output=True, check=True).stdout.splitlines()
    # read in the same moment: one window, or two if ten days were just over
    assert sum(json.loads(line)["rows"] for line in found[:-1]) == 60
    assert json.loads(found[0])["begin"] > 1e9
