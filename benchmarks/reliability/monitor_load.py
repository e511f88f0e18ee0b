"""The listening monitor under load on this machine: samples per second, memory, kills, slow clients, garbage, 1,000 connections.

    python -m benchmarks.reliability.monitor_load --seconds 600

The monitor has a file of `window-ts`, the default. Four senders post lines of JSON, samples and late labels in turn. In the first fifth
of the time the monitor is killed with -9 three times and started again. Afterwards it runs on while slow clients, garbage, huge bodies
and 1,000 connections arrive. At the end the state must hold every sample that was acknowledged, and nothing that was not sent.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.measure import machine
from benchmarks.speed.monitor_throughput import N_CLASSES
from driftcal.monitor.monitor import Monitor

SAMPLES_PER_BODY = 50
N_SENDERS = 4


def make_calibrated() -> driftcal.CalibratedModel:
    """Ten classes, four levels of noise, and the default method."""
    rng = np.random.default_rng(0)
    y = rng.integers(N_CLASSES, size=2000)
    logits = [4 * np.eye(N_CLASSES)[y] + noise * rng.normal(size=(2000, N_CLASSES)) for noise in (1, 3, 6, 20)]
    return driftcal.fit(np.concatenate(logits), np.tile(y, 4), levels=np.repeat(range(4), 2000), method="window-ts")


class Service:
    """The command in a process of its own, always on the same port."""

    def __init__(self, artefact: Path, state: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.command = [
            sys.executable,
            "-m",
            "driftcal",
            "monitor",
            str(artefact),
            "--quiet",
            "--json",
            "--state",
            str(state),
        ]
        self.command += ["--listen", f"127.0.0.1:{self.port}", "--window-size", "5000"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                if self.get("/healthz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the monitor did not start")

    def get(self, path: str, timeout: float = 30) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def memory(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


class Senders:
    """Threads that post bodies until they are stopped, and count what became of them."""

    def __init__(self, port: int) -> None:
        self.port, self.stopped, self.paused = port, threading.Event(), threading.Event()
        self.acknowledged = self.doubtful = 0
        self.statuses: Counter[str] = Counter()
        self.lock = threading.Lock()
        rng = np.random.default_rng(0)
        y = rng.integers(N_CLASSES, size=SAMPLES_PER_BODY)
        self.scores = (4 * np.eye(N_CLASSES)[y] + rng.normal(size=(SAMPLES_PER_BODY, N_CLASSES))).round(4).tolist()
        self.labels = y.tolist()
        self.threads = [threading.Thread(target=self.send, args=(k,), daemon=True) for k in range(N_SENDERS)]
        for thread in self.threads:
            thread.start()

    def body(self, sender: int, number: int) -> bytes:
        lines = []
        for i in range(SAMPLES_PER_BODY):
            name = f"{sender}-{number}-{i}"
            lines.append(json.dumps({"logits": self.scores[i], "id": name}))
            lines.append(json.dumps({"id": name, "label": self.labels[i]}))
        return "\n".join(lines).encode()

    def send(self, sender: int) -> None:
        number, connection = 0, None
        while not self.stopped.is_set():
            number += 1
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                connection.request("POST", "/", self.body(sender, number))
                response = connection.getresponse()
                response.read()
                status = str(response.status)
            except (OSError, http.client.HTTPException):
                status, connection = "no answer", None
            with self.lock:
                self.statuses[status] += 1
                self.acknowledged += SAMPLES_PER_BODY * (status == "200")
                self.doubtful += SAMPLES_PER_BODY * (status == "no answer")
            if status != "200":
                time.sleep(0.2)


def disturb(service: Service, counts: Counter[str]) -> None:
    """One round of slow clients, garbage, huge bodies and 1,000 connections."""
    address = ("127.0.0.1", service.port)
    slow = []
    for _ in range(20):
        client = socket.create_connection(address, timeout=30)
        client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        slow.append(client)
    counts["slow clients"] += len(slow)
    for _ in range(50):
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(random.randbytes(200) + b"\r\n\r\n")
        counts["garbage requests"] += 1
    for _ in range(20):
        client = http.client.HTTPConnection(*address, timeout=60)
        client.request("POST", "/", random.randbytes(2000))
        counts[f"garbage body: {client.getresponse().status}"] += 1
        client.close()
    for _ in range(5):
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100000000000\r\n\r\n" + b"x" * 10_000)
            counts[f"huge body: {client.recv(100).split(b' ')[1].decode()}"] += 1
    many = []
    for _ in range(1000):
        try:
            many.append(socket.create_connection(address, timeout=5))
        except OSError:
            counts["connections that failed"] += 1
    counts["idle connections"] += len(many)
    status, _ = service.get("/metrics", timeout=60)
    counts[f"/metrics beside 1,000 connections: {status}"] += 1
    for client in [*many, *slow]:
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    artefact, state = folder / "cal.safetensors", folder / "state.safetensors"
    make_calibrated().save(artefact)
    service, begin = Service(artefact, state), time.monotonic()
    senders, counts = Senders(service.port), Counter[str]()
    for _ in range(3):
        time.sleep(arguments.seconds / 15)
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        counts["kills"] += 1
        service.start()
    time.sleep(min(20.0, arguments.seconds / 10))
    start_memory, start_acknowledged, start = service.memory(), senders.acknowledged, time.monotonic()
    peak = start_memory
    while time.monotonic() - begin < arguments.seconds:
        disturb(service, counts)
        until = time.monotonic() + min(60.0, arguments.seconds / 10)
        while time.monotonic() < min(until, begin + arguments.seconds):
            peak = max(peak, service.memory())
            time.sleep(0.5)
    elapsed, end_memory = time.monotonic() - start, service.memory()
    rate = (senders.acknowledged - start_acknowledged) / elapsed
    senders.stopped.set()
    for thread in senders.threads:
        thread.join()
    service.process.send_signal(signal.SIGTERM)
    code = service.process.wait(60)
    kept = Monitor.load(state, artefact)
    print(f"{time.monotonic() - begin:.0f} s, {counts['kills']} kills; {dict(counts)}")
    print(f"bodies of {SAMPLES_PER_BODY} samples and {SAMPLES_PER_BODY} labels, by status: {dict(senders.statuses)}")
    print(f"{rate:,.0f} samples and as many labels per second over {elapsed:.0f} s, with senders on the same machine")
    print(f"memory {start_memory:.0f} MB at the start, {end_memory:.0f} MB at the end, {peak:.0f} MB at most")
    print(
        f"acknowledged {senders.acknowledged:,}, in the state {kept.n_samples:,}, sent without an answer {senders.doubtful:,}; "
        f"exit code {code}"
    )
    print(machine())
    is_complete = senders.acknowledged <= kept.n_samples <= senders.acknowledged + senders.doubtful
    sys.exit(0 if is_complete and code == 0 else 1)


if __name__ == "__main__":
    main()
