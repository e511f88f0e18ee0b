"""The command as a service: stopped, restarted, on a quiet stream, or with other options."""

import io
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from driftcal.cli import main
from driftcal.cli.commands.monitor import _interrupt_on_signals
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading import line_reader
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.serving.service import WRITE_INTERVAL, MonitorService


@pytest.fixture(scope="module")
def artefact(scenario, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "cal.safetensors"
    metadata = {"drift_reference": scenario.drift_reference.to_dict(), "class_names": ["cat", "dog", "eel"]}
    scenario.calibrator.save(path, metadata=metadata)
    return path


def command(*arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(["monitor", *map(str, arguments)])
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
@pytest.mark.parametrize("stop", ["SIGTERM", "SIGHUP"])
def test_a_stopped_service_writes_its_state(scenario, artefact, tmp_path, stop):
    logits, _ = scenario.sample(60)
    state = tmp_path / "state.safetensors"
    arguments = [
        sys.executable,
        "-m",
        "driftcal",
        "monitor",
        str(artefact),
        "--window-size",
        "50",
        "--json",
        "--state",
        str(state),
    ]
    data = b"".join(json.dumps({"logits": sample.tolist()}).encode() + b"\n" for sample in logits)
    number = getattr(signal, stop)
    ignored = signal.signal(number, signal.SIG_DFL)  # under nohup the command ignores SIGHUP, as it should
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(arguments, **pipes)
    signal.signal(number, ignored)
    with process:
        process.stdin.write(data)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["n_samples"] >= 50  # read, and the stream stays open
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"stopped" in err
    assert json.loads(out.splitlines()[-1])["summary"]["n_samples"] == 60
    assert Monitor.load(state, artefact).n_samples == 60


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such signals")
def test_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    try:
        with _interrupt_on_signals():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # a second signal does not interrupt the writing
        assert signal.getsignal(signal.SIGTERM) == before
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, ignored)


@pytest.mark.skipif(os.name != "posix", reason="Windows cannot detect whether a pipe is quiet")
def test_a_quiet_stream_does_not_block_its_reader(monkeypatch):
    monkeypatch.setattr(line_reader, "QUIET_SECONDS", 0.01)
    end, begin = os.pipe()
    with open(end, "rb") as stream:
        batches = json_batches(stream, "logits")
        os.write(begin, b'{"logits": [1, 2, 3]}\n{"logits": [1,')
        assert next(batches).scores.tolist() == [[1, 2, 3]]
        assert next(batches) == StreamBatch()
        os.write(begin, b" 5, 6]}")
        assert next(batches) == StreamBatch()
        os.close(begin)
        assert [batch.scores.tolist() for batch in batches] == [[[1, 5, 6]]]


def test_a_quiet_stream_is_written(scenario, tmp_path):
    state, now = tmp_path / "state.safetensors", [0.0]
    written = []

    def batches():
        yield StreamBatch(scenario.sample(30)[0])
        written.append(state.exists())
        now[0] += 2 * WRITE_INTERVAL
        yield StreamBatch()
        written.append(Monitor.load(state, scenario.calibrator, drift_reference=scenario.drift_reference).n_samples)
        state.unlink()
        now[0] += 2 * WRITE_INTERVAL
        yield StreamBatch()
        written.append(state.exists())  # nothing new, nothing written

    list(MonitorService(scenario.monitor(), state, clock=lambda: now[0]).run(batches()))
    assert written == [False, 30, False]


def test_a_state_continues_with_its_settings(scenario, artefact, tmp_path, capsys):
    p = np.full((60, 3), [0.2, 0.3, 0.5])
    np.savez(tmp_path / "p.npz", probabilities=p)
    state = tmp_path / "state.safetensors"
    continued = (artefact, tmp_path / "p.npz", "--state", state, "-q")
    first = command(*continued, "--score-type", "probabilities", "--window-size", "1h", capsys=capsys)
    assert first[0] == 1
    assert "no sample could be used: 60 no time" in " ".join(first[2].split())
    np.savez(tmp_path / "p.npz", probabilities=p, time=np.full(60, "2026-01-01", "datetime64[D]"))
    assert command(*continued, "--window-size", "60m", capsys=capsys)[0] == 0
    assert Monitor.load(state, artefact).n_samples == 60
    for arguments in (
        ("--score-type", "logits"),
        ("--window-size", "500"),
        ("--low-confidence", "0.3"),
        ("--estimator", "atc"),
        ("--false-alarm-rate", "0.1"),
    ):
        code, _, err = command(*continued, *arguments, capsys=capsys)
        assert code == 2
        assert arguments[0] in err
        assert "must be that of the state" in err
    assert Monitor.load(state, artefact).n_samples == 60


def test_a_count_of_samples_does_not_continue_as_time(scenario, artefact, tmp_path, capsys):
    np.save(tmp_path / "samples.npy", scenario.sample(60)[0])
    arguments = (artefact, tmp_path / "samples.npy", "--state", tmp_path / "state.safetensors", "-q")
    assert command(*arguments, "--window-size", "60", capsys=capsys)[0] == 0
    code, _, err = command(*arguments, "--window-size", "60s", capsys=capsys)
    assert code == 2
    assert "must be that of the state, 60 samples; it is 60s" in err


def test_a_missing_file_is_reported_before_the_first_is_read(scenario, artefact, tmp_path, capsys):
    np.save(tmp_path / "first.npy", scenario.sample(60)[0])
    state = tmp_path / "state.safetensors"
    for path, fact in ((tmp_path / "missing.npz", "there is no such file"), (tmp_path, "it is a folder")):
        code, out, err = command(artefact, tmp_path / "first.npy", path, "--state", state, capsys=capsys)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert f"{path} must be a file of samples; {fact}" in err
        assert not state.exists()


def test_timeline_and_prometheus_name_the_classes(scenario, artefact, tmp_path, capsys):
    np.savez(tmp_path / "samples.npz", logits=scenario.sample(60)[0], y=np.full(60, "dog"))
    page = tmp_path / "t.html"
    _, out, _ = command(artefact, tmp_path / "samples.npz", "--report", page, "--prometheus", "-", capsys=capsys)
    assert "<bdi>dog</bdi>" in page.read_text()
    assert 'driftcal_predicted_share{class="dog"}' in out
    assert "driftcal_labelled_samples_total 60.0" in out


def test_labels_may_be_missing_in_a_csv_file(scenario, artefact, tmp_path, capsys):
    text = "z0,z1,z2,label,id\n1,2,3,2.0,a\n1,2,3,,b\n1,2,3,eel,c\n"
    (tmp_path / "samples.csv").write_text(text)
    _, out, _ = command(artefact, tmp_path / "samples.csv", "--json", capsys=capsys)
    summary = json.loads(out.splitlines()[-1])["summary"]
    assert (summary["labelled"]["n_samples"], summary["labelled"]["accuracy"], summary["rejected"]) == (2, 1.0, {})
    stream = io.BytesIO(b'{"logits": [1, 2, 3], "label": NaN, "id": "a"}\n{"id": "a", "label": "eel"}\n')
    monitor = Monitor(artefact)
    list(MonitorService(monitor).run(json_batches(stream, "logits")))
    assert monitor.summary().labelled.n_samples == 1
