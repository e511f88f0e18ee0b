"""Faults around a monitor: full disks, closed inputs, files without samples, hostile sizes, hostile metadata."""

import errno
import io
import json
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from driftcal.cli import main
from driftcal.errors import DataError, DriftcalError
from driftcal.io.fingerprint import fingerprint
from driftcal.io.safetensors import read_tensors, write_tensors
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.line_reader import MAX_LINE
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.reading.stream_reader import read_batches
from driftcal.monitor.serving.service import WRITE_INTERVAL, MonitorService

VERSION_0_1 = Path(__file__).parents[1] / "data" / "compat" / "0.1" / "calibrators" / "ts.safetensors"


@pytest.fixture(scope="module")
def artefact(scenario, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "cal.safetensors"
    scenario.calibrator.save(path, metadata={"drift_reference": scenario.drift_reference.to_dict()})
    return path


def driftcal_monitor(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "driftcal", "monitor", *map(str, arguments)],
        capture_output=True,
        timeout=120,
        check=False,
        **options,
    )


class FullDisk:
    """A disk that is full until `free` is set: every write fails with ENOSPC."""

    def __init__(self, monkeypatch):
        self.free, self.tried = False, 0
        flush = os.fsync

        def fsync(descriptor):
            self.tried += 1
            if not self.free:
                raise OSError(errno.ENOSPC, "No space left on device")
            flush(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)


def test_a_full_disk_does_not_end_the_run(scenario, tmp_path, monkeypatch):
    disk, now, messages = FullDisk(monkeypatch), [0.0], []
    logits, _ = scenario.sample(400)
    state = tmp_path / "state.safetensors"

    def batches():
        for k in range(4):
            yield StreamBatch(logits[100 * k : 100 * k + 100])
            now[0] += 2 * WRITE_INTERVAL
            disk.free = k >= 2

    service = MonitorService(
        scenario.monitor(), state, tmp_path / "m.prom", clock=lambda: now[0], on_message=messages.append
    )
    list(service.run(batches()))
    assert disk.tried > 2
    assert service.failed_writes == 2
    assert len(messages) == 2
    assert "No space left on device" in messages[0]
    assert "tried again every 5 seconds" in messages[0]
    assert "written again" in messages[1]
    undisturbed = scenario.monitor()
    for k in range(4):
        undisturbed.update(logits[100 * k : 100 * k + 100])
    assert state.read_bytes() == undisturbed.save(tmp_path / "other.safetensors").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_the_last_write_says_what_is_lost(scenario, tmp_path, monkeypatch):
    FullDisk(monkeypatch)
    service = MonitorService(scenario.monitor(), tmp_path / "state.safetensors")
    with pytest.raises(DataError, match=r"state\.safetensors must be writable.*only in memory"):
        list(service.run([StreamBatch(scenario.sample(10)[0])]))
    assert service.changed
    assert service.monitor.n_samples == 10


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_does_not_end_the_command(scenario, artefact, tmp_path):
    np.save(tmp_path / "a.npy", scenario.sample(1000)[0])
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "driftcal", "monitor", artefact, tmp_path / "a.npy", "--state", tmp_path / "s"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
        )
    assert b"Traceback" not in ran.stderr
    assert Monitor.load(tmp_path / "s", artefact).n_samples == 1000


def test_a_closed_stdin_is_one_line(artefact):
    command = [sys.executable, "-m", "driftcal", "monitor", str(artefact)]
    ran = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, timeout=120, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"driftcal: standard input must be open")
    assert ran.stderr.count(b"\n") == 1


def test_a_stdin_that_was_closed_is_an_error_of_ours(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(b""))
    stream.close()
    monkeypatch.setattr(sys, "stdin", stream)
    with pytest.raises(DataError, match="standard input must be open"):
        read_batches(["-"], "logits")


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "time.npz", "label.npz"])
def test_arrays_without_axes_are_one_line(scenario, artefact, tmp_path, name):
    logits, _ = scenario.sample(5)
    match name:
        case "a.npy":
            np.save(tmp_path / name, np.float64(3))
        case "a.npz":
            np.savez(tmp_path / name, logits=np.float64(3))
        case "time.npz":
            np.savez(tmp_path / name, logits=logits, time=np.float64(3))
        case _:
            np.savez(tmp_path / name, logits=logits, label=np.int64(1))
    ran = driftcal_monitor(artefact, tmp_path / name)
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"driftcal: ")
    assert ran.stderr.count(b"\n") == 1


def npy_header(shape, dtype="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("kind", ["npy", "npz", "deflated"])
def test_a_file_that_declares_64_tib_is_refused(artefact, tmp_path, kind):
    data = npy_header((2**43, 1)) + bytes(64)
    path = tmp_path / f"a.{'npy' if kind == 'npy' else 'npz'}"
    if kind == "npy":
        path.write_bytes(data)
    else:
        method = zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("logits.npy", data)
    ran = driftcal_monitor(artefact, path)
    assert ran.returncode == 1
    assert b"declares 70,368,744,177,664 bytes" in ran.stderr
    assert b"Traceback" not in ran.stderr


WORST = {
    "empty lists": b"[" + b"[]," * 10**7,
    "empty objects": b"[" + b"{}," * 10**7,
    "short keys": b"[" + b'{"a":1},' * 10**7,
    "short texts": b"[" + b'"\xc4\x81",' * 10**7,
    "numbers": b"[" + b"1.5," * 10**7,
    "nested": b'{"logits":' + b"[[[1]]]," * 10**7,
}
MEASURE = """
import resource, sys
from driftcal.monitor.reading.json_lines import json_batches
sys.stdin.buffer.read(0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
batches = list(json_batches(sys.stdin.buffer, "logits", n_classes=3))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, [dict(batch.rejected) for batch in batches])
"""


@pytest.mark.parametrize("kind", WORST)
def test_memory_of_the_longest_line(kind):
    longest = WORST[kind][: MAX_LINE - 1] + b"\n"
    ran = subprocess.run([sys.executable, "-c", MEASURE], input=longest, capture_output=True, timeout=120, check=True)
    kilobytes, rejected = ran.stdout.decode().split(" ", 1)
    assert int(kilobytes) * 1024 < 60 * MAX_LINE, rejected


def test_a_line_of_32_mb_costs_nothing_unless_it_is_allowed(artefact, tmp_path):
    sample = b'{"logits": [' + b"[1,2,3]," * (4 * 2**20) + b"[1,2,3]]}\n"
    (tmp_path / "big.jsonl").write_bytes(sample)
    assert len(sample) > 32 * 2**20
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))}
    ran = driftcal_monitor(artefact, tmp_path / "big.jsonl", "--json", **limit)
    assert json.loads(ran.stdout.splitlines()[-1])["summary"]["rejected"] == {"line too long": 1}
    (tmp_path / "small.jsonl").write_bytes(b'{"logits": [1,2,3]}\n{"logits": [1,2,3' + b" " * 5 * 2**20 + b"]}\n")
    for arguments, n_samples in (((), 1), (("--max-line-mb", 6), 2)):
        ran = driftcal_monitor(artefact, tmp_path / "small.jsonl", "--json", *arguments)
        assert json.loads(ran.stdout.splitlines()[-1])["summary"]["n_samples"] == n_samples


HOSTILE_METADATA = [
    {"drift_reference": []}, {"drift_reference": "x"}, {"drift_reference": {}}, {"drift_reference": {"means": 1}},
    {"class_names": "abc"}, {"class_names": [[1], {}, None]}, {"class_names": {"a": 1}}, {"class_names": [1] * 7},
    {"notes": [1]}, {"notes": "x"},
]  # fmt: skip
CHANGES = [
    ("n_samples", 10**400), ("n_samples", "many"), ("n_samples", None), ("n_samples", -1), ("n_samples", 1e400),
    ("temperature", 10**400), ("temperature", 0), ("temperature", []), ("accuracies", [10**400] * 6),
    ("means", {}), ("means", [[None] * 5] * 6), ("means", [10**400]), ("skewness", 10**400), ("skewness", "0"),
    ("class_shares", [1]), ("estimator", []), ("estimator", "none"), ("errors", [1]), ("errors", {"atc": 1}),
    ("standard_deviation", 10**400), ("standard_deviation", None), ("unknown", 1),
]  # fmt: skip


def test_hostile_metadata_is_an_error_of_ours(scenario, tmp_path):
    reference = scenario.drift_reference.to_dict()
    cases = [*HOSTILE_METADATA, *({"drift_reference": {**reference, name: value}} for name, value in CHANGES)]
    refused = 0
    for k, metadata in enumerate(cases):
        path = tmp_path / f"{k}.safetensors"
        try:
            scenario.calibrator.save(path, metadata=metadata)
            monitor = Monitor(path)
            monitor.update(scenario.sample(100)[0])
            monitor.summary()
        except DriftcalError:
            refused += 1
    assert refused >= 15


@pytest.mark.parametrize("key", ["metadata", "others", "notes"])
@pytest.mark.parametrize("value", [[1], "x", 7, None, {"drift_reference": {"means": [1]}, "profile": {"means": [1]}}])
def test_metadata_of_another_type_is_one_line(scenario, tmp_path, capsys, key, value):
    path = tmp_path / "cal.safetensors"
    scenario.calibrator.save(path, metadata={"drift_reference": scenario.drift_reference.to_dict()})
    is_old = key == "notes"  # as metadata were called in version 0.1
    file = read_tensors(VERSION_0_1 if is_old else path)
    header = {**{name: entry for name, entry in file.metadata.items() if name != "digest"}, key: value}
    arrays = {name: np.array(array) for name, array in file.arrays.items()}
    note = {"note": header, **{f"array {name}": array for name, array in arrays.items()}}
    write_tensors(path, [arrays], {**header, "digest": fingerprint(note)})
    np.save(tmp_path / "samples.npy", scenario.sample(100)[0])
    with pytest.raises(SystemExit) as end:
        main(["monitor", str(path), str(tmp_path / "samples.npy"), "--json"])
    err = capsys.readouterr().err
    assert end.value.code == 1
    assert err.startswith("driftcal: ")
    assert err.count("\n") == 1
