"""``kill -9`` at random moments of tune with a cache, of a monitor that writes its state, and of a listening monitor.

    python -m benchmarks.reliability.kill_campaign                  # 60 kills, 20 of each
    python -m benchmarks.reliability.kill_campaign --kills 5 --seed 1

After each kill the same command continues. Counted are lost and wrong results:

- tune: files of the cache that are not those of an undisturbed run, and a calibrator or cache that differs at the end.
- monitor: a state that misses written lines, or is not the state of an undisturbed monitor after any line.
- listener: requests that were acknowledged and are not in the state after the restart, or are in it twice.

The output is JSON. The exit code is 1 if anything was lost or wrong.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.serving.service import MonitorService

ROOT = Path(__file__).parents[2]
N_CLASSES, WINDOW = 4, 40.0
#: Lines between two writes of a monitor's state, and samples of one request to a listener.
LINES, SAMPLES = 10, 5
#: Seconds between two writes of a listener's state: short, so that kills also fall into writes.
WRITE_INTERVAL = 0.05
WEIGHTS = np.random.default_rng(0).normal(size=(64, N_CLASSES)).astype(np.float32)


def make() -> Callable[[np.ndarray], np.ndarray]:
    """A linear network that takes its time."""

    def logits(batch: np.ndarray) -> np.ndarray:
        time.sleep(0.02)
        return batch.reshape(len(batch), -1) @ WEIGHTS

    return logits


# What the killed processes run.


def child_tune() -> None:
    """Tune in the current folder. Every batch is written, so that kills leave all states that there are."""
    import driftcal.cli
    from driftcal.pipeline.collecting import shards

    shards._PART_SECONDS = 0.0
    data = ["validation.npz", "--batch-size", "8", "--cache", "cache", "-o", "calibrator.safetensors", "-q"]
    driftcal.cli.main(["tune", f"{__spec__.name}:make", *data, "--method", "irm", "--n-levels", "6"])


def child_monitor(calibrator: str, source: str, state: str, start: str) -> None:
    """Feed lines from `start` on, write the state after every ten, and print how many are written."""
    monitor = Monitor.load(state, calibrator) if Path(state).exists() else Monitor(calibrator, window_size=WINDOW)
    lines, service = Path(source).read_bytes().splitlines(), MonitorService(monitor, state)
    print("ready", flush=True)
    for i in range(int(start), len(lines), LINES):
        feed(monitor, lines[i : i + LINES])
        service.write()
        print(min(i + LINES, len(lines)), flush=True)


def child_listener(calibrator: str, state: str) -> None:
    """Listen on a free port and write the state often."""
    import driftcal.cli
    from driftcal.monitor.serving import service

    service.WRITE_INTERVAL = WRITE_INTERVAL
    options = ["--listen", "127.0.0.1:0", "--state", state, "--window-size", str(WINDOW), "--json"]
    driftcal.cli.main(["monitor", calibrator, *options])


CHILDREN: dict[str, Callable[..., None]] = {"tune": child_tune, "monitor": child_monitor, "listener": child_listener}


def start_child(name: str, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """A process that runs one of the functions above."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    command = [sys.executable, "-m", __spec__.name, "--child", name, *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **options)


def feed(monitor: Monitor, lines: list[bytes]) -> None:
    """Feed lines of JSON to a monitor."""
    for batch in json_batches(io.BytesIO(b"\n".join(lines)), "logits", n_classes=N_CLASSES):
        monitor.add_batch(batch)


def sample_lines(n_samples: int, seed: int) -> list[bytes]:
    """A sample and a late label, alternating; the ids have 19 digits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n_samples, N_CLASSES)) * 3
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    lines = []
    for i in range(n_samples):
        lines.append(json.dumps({"logits": logits[i].round(6).tolist(), "id": 10**18 + i}).encode())
        if i >= 20:
            lines.append(json.dumps({"id": 10**18 + i - 20, "label": int(labels[i - 20])}).encode())
    return lines


class Tally(Counter[str]):
    """Counts, and what was lost or wrong."""

    def check(self, ok: bool, what: str, detail: object) -> None:
        """Count `what` if it is not so."""
        self["lost or wrong"] += not ok
        if not ok:
            print(f"{what}: {detail}", file=sys.stderr, flush=True)


# The three loops.


def contents(folder: Path) -> dict[str, bytes]:
    """Files of a cache and the calibrator, without temporary files that a killed writer left."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def kill_tune(kills: int, rng: random.Random, folder: Path) -> Tally:
    """Kill tune until it was killed `kills` times; after one to three kills a run continues to its end."""
    generator = np.random.default_rng(1)
    x = generator.random((60, 8, 8, 1), np.float32)
    labels = (x.reshape(60, -1) @ WEIGHTS + generator.gumbel(size=(60, N_CLASSES))).argmax(axis=1)
    np.savez(folder / "validation.npz", x=x, y=labels, class_names=list("abcd"))
    whole, tally, trial = folder / "whole", Tally(), 0

    def prepare(run: Path) -> Path:
        run.mkdir()
        shutil.copy(folder / "validation.npz", run)
        return run

    def run_until(run: Path, seconds: float) -> tuple[bool, float]:
        """Whether the run was killed, `seconds` after it began to work, and how many seconds it worked."""
        process = start_child("tune", cwd=run, stdout=subprocess.DEVNULL)
        while process.poll() is None and not (run / "cache").exists():
            time.sleep(0.002)
        begun = time.monotonic()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        code = process.wait()
        if code not in (0, -9):
            sys.exit(f"tune failed with exit code {code}")
        return code == -9, time.monotonic() - begun

    _, seconds = run_until(prepare(whole), 1e6)
    expected = contents(whole)
    while tally["kills"] < kills:
        trial += 1
        run, n_before = prepare(folder / f"trial{trial}"), tally["kills"]
        for _ in range(min(rng.choice((1, 2, 3)), kills - n_before)):
            tally["kills"] += run_until(run, rng.uniform(0, seconds))[0]
            files = contents(run)
            tally["kills with parts"] += any("parts" in name for name in files)
            for name, content in files.items():
                if name.startswith("cache/logits/") or name == "calibrator.safetensors":
                    tally.check(content == expected.get(name), "tune: a file after a kill", name)
        if tally["kills"] > n_before:
            tally["runs continued to the end"] += 1
            run_until(run, 1e6)
            final = contents(run)
            differing = {name for name in expected | final if expected.get(name) != final.get(name)}
            tally.check(not differing, "tune: files at the end", differing)
    return tally


def kill_monitor(kills: int, rng: random.Random, folder: Path, calibrator: Path) -> Tally:
    """Kill a monitor `kills` times while it writes its state again and again."""
    lines, tally = sample_lines(400 * kills, 2), Tally()
    source, state = folder / "lines.jsonl", folder / "monitor.safetensors"
    source.write_bytes(b"\n".join(lines))
    undisturbed, start = Monitor(calibrator, window_size=WINDOW), 0
    while tally["kills"] < kills:
        with start_child("monitor", calibrator, source, state, start, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            written = [int(process.stdout.readline()) for _ in range(rng.randrange(1, 30))]
            time.sleep(rng.uniform(0, 0.03))
            process.kill()
            written += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
        tally["kills"] += 1
        tally["writes"] += len(written)
        found = None
        for n_lines in (written[-1], written[-1] + LINES):  # a write may be complete and not printed yet
            feed(undisturbed, lines[start:n_lines])
            start = n_lines
            if state.read_bytes() == undisturbed.save(folder / "undisturbed.safetensors").read_bytes():
                found = n_lines
                break
        tally.check(found is not None, "monitor: the state is that of no line", written[-1])
        if found is None:
            break
    return tally


class Client:
    """Sends requests to a listener and knows which were acknowledged."""

    def __init__(self, calibrator: Path, state: Path) -> None:
        self.process = start_child("listener", calibrator, state, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.port: int | None = None
        self.messages: list[bytes] = []

    def wait_for_port(self) -> None:
        """Read the messages until it listens; the port stays None if the process ends before."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.messages.append(line)
            if match := re.search(rb"listening.*:(\d+)\s*$", line):
                self.port = int(match[1])
                return

    def n_samples(self) -> int:
        """How many samples the listener has."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(float(re.search(r"^driftcal_samples_total (\S+)$", text, re.MULTILINE)[1]))  # type: ignore[index]

    def post(self, connection: http.client.HTTPConnection, body: bytes) -> bool:
        """Whether a request was acknowledged."""
        try:
            connection.request("POST", "/", body)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            return False
        return response.status == 200


def requests_of(n_requests: int, seed: int) -> list[list[bytes]]:
    """Requests with some samples each, and the labels of the samples of an earlier request."""
    samples, labels = [], []
    for line in sample_lines(n_requests * SAMPLES, seed):
        (labels if b"label" in line else samples).append(line)
    return [
        samples[i : i + SAMPLES] + labels[max(0, i - 20) : max(0, i - 20 + SAMPLES)]
        for i in range(0, len(samples), SAMPLES)
    ]


def kill_listener(kills: int, rng: random.Random, folder: Path, calibrator: Path) -> Tally:
    """Kill a listener `kills` times, also while it starts, and send what was not acknowledged again."""
    tally, requests = Tally(), requests_of(1500 * kills, 3)
    state, n_sent, in_doubt, seconds = folder / "listener.safetensors", 0, False, 0.0
    while True:
        begun = time.monotonic()
        client = Client(calibrator, state)
        if tally["kills"] and tally["kills"] < kills and rng.random() < 0.2:  # while it starts, or reads its journal
            time.sleep(rng.uniform(0.5, 1) * seconds)
            client.process.kill()
            client.process.communicate()
            tally["kills"] += 1
            tally["kills while starting"] += 1
            continue
        client.wait_for_port()
        seconds = time.monotonic() - begun
        if client.port is None:
            tally.check(False, "listener: does not start", b"".join(client.messages).decode())
            return tally
        n_samples = client.n_samples()
        allowed = {n_sent * SAMPLES, (n_sent + in_doubt) * SAMPLES}
        tally.check(n_samples in allowed, "listener: samples after a kill", f"{n_samples}, not {allowed}")
        tally["in the state though not acknowledged"] += n_samples > n_sent * SAMPLES
        n_sent, in_doubt = n_samples // SAMPLES, False
        if tally["kills"] == kills:
            break
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
        end = time.monotonic() + rng.uniform(0, 1.5)
        killer = subprocess.Popen(["sh", "-c", f"sleep {end - time.monotonic():.4f}; kill -9 {client.process.pid}"])
        while n_sent < len(requests) and client.post(connection, b"\n".join(requests[n_sent])):
            n_sent += 1
            tally["acknowledged requests"] += 1
        in_doubt = True
        killer.wait()
        client.process.communicate()
        connection.close()
        tally["kills"] += 1
    client.process.terminate()
    client.process.communicate()
    undisturbed = Monitor(calibrator, window_size=WINDOW)
    for request in requests[:n_sent]:
        feed(undisturbed, request)
    expected = undisturbed.save(folder / "undisturbed.safetensors").read_bytes()
    tally.check(state.read_bytes() == expected, "listener: the state at the end", f"{n_sent} requests")
    return tally


def main() -> int:
    """Run all loops and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of each of the three")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(CHILDREN), action="append")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        CHILDREN[arguments.child[0]](*arguments.child[1:])
        return 0
    names = arguments.only or list(CHILDREN)
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tallies["tune"] = kill_tune(arguments.kills if "tune" in names else 0, random.Random(arguments.seed), folder)
        calibrator = folder / "whole" / "calibrator.safetensors"
        for loop, kill in (("monitor", kill_monitor), ("listener", kill_listener)):
            if loop in names:
                tallies[loop] = kill(arguments.kills, random.Random(arguments.seed), folder, calibrator)
    print(json.dumps({"seed": arguments.seed, **tallies}, indent=1))
    return int(any(tally["lost or wrong"] for tally in tallies.values()))


if __name__ == "__main__":
    raise SystemExit(main())
