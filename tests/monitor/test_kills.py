"""kill -9 at random moments: the state file is that of an undisturbed run, and nothing acknowledged is lost."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.serving.service import MonitorService

#: Feeds lines in groups of ten and writes the state after each; prints the number of lines that are in the file.
CHILD = """
import io, itertools, sys
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.serving.service import MonitorService

artefact, source, state, start = *sys.argv[1:4], int(sys.argv[4])
monitor = Monitor.load(state, artefact) if start else Monitor(artefact, window_size=40)
lines = open(source, "rb").read().splitlines()
service = MonitorService(monitor, state)
print("ready", flush=True)
for i in range(start, len(lines), 10):
    for batch in json_batches(io.BytesIO(b"\\n".join(lines[i : i + 10])), "logits"):
        monitor.add_batch(batch)
    service.write()
    print(min(i + 10, len(lines)), flush=True)
"""


@pytest.fixture(scope="module")
def artefact(scenario, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "cal.safetensors"
    scenario.calibrator.save(path, metadata={"drift_reference": scenario.drift_reference.to_dict()})
    return path


def stream(scenario, n):
    logits, y = scenario.sample(n)
    lines = []
    for i in range(n):
        lines.append(json.dumps({"logits": logits[i].tolist(), "id": 10**18 + i}).encode())
        if i >= 20:
            lines.append(json.dumps({"id": 10**18 + i - 20, "label": int(y[i - 20])}).encode())
    return lines


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL")
def test_kills_lose_nothing_that_was_acknowledged(scenario, artefact, tmp_path):
    lines = stream(scenario, 4000)
    (tmp_path / "lines.jsonl").write_bytes(b"\n".join(lines))
    state, rng, start, n_kills = tmp_path / "state.safetensors", np.random.default_rng(0), 0, 0
    undisturbed = scenario.monitor(window_size=40)
    fed = 0
    while n_kills < 6:
        arguments = [sys.executable, "-c", CHILD, str(artefact), str(tmp_path / "lines.jsonl"), str(state), str(start)]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            acknowledged = [int(process.stdout.readline()) for _ in range(rng.integers(1, 30))]
            time.sleep(rng.uniform(0, 0.03))  # somewhere in the next writes
            process.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
        n_kills += 1
        states = {}
        for n_lines in (acknowledged[-1], acknowledged[-1] + 10):  # the last write may be complete but not acknowledged
            for batch in json_batches(io.BytesIO(b"\n".join(lines[fed:n_lines])), "logits"):
                undisturbed.add_batch(batch)
            fed = max(fed, n_lines)
            states[undisturbed.save(tmp_path / "undisturbed.safetensors").read_bytes()] = fed
            if state.read_bytes() in states:
                break
        start = states[state.read_bytes()]
        assert start >= acknowledged[-1]
    assert n_kills == 6


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGKILL")
def test_a_killed_command_leaves_a_state_that_continues(scenario, artefact, tmp_path):
    lines = stream(scenario, 300)
    state = tmp_path / "state.safetensors"
    command = [sys.executable, "-m", "driftcal", "monitor", str(artefact), "--state", str(state), "--json"]
    subprocess.run(command, input=b"\n".join(lines[:200]), capture_output=True, check=True)
    before = state.read_bytes()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"\n".join(lines[200:400]) + b"\n")
        process.stdin.flush()
        process.stderr.readline()  # continuing from
        process.send_signal(signal.SIGKILL)
    assert state.read_bytes() == before
    subprocess.run(command, input=b"\n".join(lines[200:]), capture_output=True, check=True)
    whole = scenario.monitor(window_size=500.0)
    list(MonitorService(whole).run(json_batches(io.BytesIO(b"\n".join(lines)), "logits")))
    assert Monitor.load(state, artefact).summary() == whole.summary()
    assert state.read_bytes() == whole.save(tmp_path / "whole.safetensors").read_bytes()
