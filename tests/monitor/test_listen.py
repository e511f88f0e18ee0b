"""The listening monitor over real sockets: formats, limits, slow clients, full disks, kills and a graceful stop."""

import errno
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from driftcal.cli.commands.monitor_listen import listening
from driftcal.cli.console import Console
from driftcal.errors import DataError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.serving.http_server import MonitorServer
from driftcal.monitor.serving.ingest import Ingest
from driftcal.monitor.serving.journal import MAX_JOURNAL, Journal
from driftcal.monitor.serving.service import MonitorService

pytest.importorskip("prometheus_client")


@pytest.fixture(scope="module")
def artefact(scenario, tmp_path_factory):
    path = tmp_path_factory.mktemp("artefact") / "cal.safetensors"
    scenario.calibrator.save(path, metadata={"drift_reference": scenario.drift_reference.to_dict()})
    return path


class Listener:
    """The command in a process of its own."""

    def __init__(self, artefact, *arguments):
        command = [sys.executable, "-m", "driftcal", "monitor", str(artefact), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.messages = []
        while not self.messages or "listening" not in self.messages[-1]:
            line = self.process.stderr.readline()
            assert line, self.process.communicate()
            self.messages.append(line)
        self.port = int(re.search(r":(\d+)$", self.messages[-1].strip())[1])

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def post(self, value, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        status, answer = self.request("POST", "/", body, {k.replace("_", "-"): v for k, v in headers.items()})
        return status, json.loads(answer)

    def metric(self, name):
        text = self.request("GET", "/metrics")[1].decode()
        return float(re.search(rf"^driftcal_{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def test_formats_pages_and_a_graceful_stop(scenario, artefact, tmp_path):
    logits, y = scenario.sample(120)
    state = tmp_path / "state.safetensors"
    with Listener(artefact, "--window-size", "60", "--state", state, "--json") as listener:
        lines = b"\n".join(json.dumps({"logits": z.tolist(), "id": i}).encode() for i, z in enumerate(logits[:60]))
        assert listener.post(lines) == (200, {"samples": 60, "labels": 0, "rejected": {}})
        labels = b"\n".join(json.dumps({"id": i, "label": int(y[i])}).encode() for i in range(60))
        assert listener.post(labels)[1]["labels"] == 60
        assert listener.post({"predictions": logits[60:80].tolist()})[1]["samples"] == 20
        pretty = json.dumps(
            {"outputs": [{"name": "logits", "shape": [20, 3], "data": logits[80:100].ravel().tolist()}]}, indent=1
        )
        assert listener.post(pretty.encode())[1]["samples"] == 20
        event = {"ce_specversion": "1.0", "ce_type": "org.kubeflow.serving.inference.response", "ce_id": "k"}
        assert listener.post({"predictions": logits[100:120].tolist()}, **event)[1]["samples"] == 20
        request = {**event, "ce_type": "org.kubeflow.serving.inference.request"}
        assert listener.post({"instances": [1]}, **request) == (200, {"samples": 0, "labels": 0, "rejected": {}})
        assert listener.post({"id": "k/3", "label": 1})[0] == 200
        assert listener.post(b'{"half\n\xff')[0] == 400
        nothing = b'{"logits": [[NaN, 1, 2], [1e999, 0, 0]]}'
        assert listener.post(nothing) == (400, {"samples": 0, "labels": 0, "rejected": {"not finite": 2}})
        assert listener.request("GET", "/healthz") == (200, b'{"status": "ok"}\n')
        status, page = listener.request("GET", "/report")
        assert (status, page.count(b"<svg")) == (200, 3)
        assert listener.metric("samples_total") == 120
        assert listener.metric("labelled_samples_total") == 61
        assert listener.request("GET", "/none")[0] == 404
        assert listener.request("POST", "/none", b"{}")[0] == 404
        openmetrics = listener.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})[1]
        assert openmetrics.endswith(b"# EOF\n")
        code, out, _ = listener.stop()
    assert code == 0
    assert json.loads(out.splitlines()[-1])["summary"]["n_samples"] == 120
    monitor = Monitor.load(state, artefact)
    assert (monitor.n_samples, monitor.rejected) == (120, {"not JSON": 1, "not UTF-8": 1, "not finite": 2})


def test_limits_are_refused_with_a_status(artefact):
    with Listener(artefact, "--max-body-mb", "0.01") as listener:
        status, answer = listener.post(b" " * 20_000)
        assert status == 413
        assert "raise --max-body-mb" in answer["error"]
        assert listener.request("POST", "/", b"{}", {"Content-Encoding": "gzip"})[0] == 415
        for head, status in (
            (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"411"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
            (b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 9\r\n\r\n{}", b"400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nContent-Length : 9\r\n\r\n{}", b"400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 2\r\nno header\r\nTransfer-Encoding: chunked\r\n\r\n{}", b"400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", b"400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n", b"413"),
            (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
            (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
            (b"DELETE / HTTP/1.1\r\n\r\n", b"501"),
        ):
            with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
                client.sendall(head)
                assert client.recv(65536).split(b" ", 2)[1] == status
        with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
            client.sendall(b"\x00\xff\xfe garbage\r\n\r\n")
            assert b"400" in client.recv(65536)
        for length in (
            b"Content-Length: 24",
            b"Content-Length: 0\r\nContent-Length: 24",
            b"no header\r\nContent-Length: 24",
        ):
            with socket.create_connection(("127.0.0.1", listener.port), timeout=10) as client:
                client.sendall(b"GET /healthz HTTP/1.1\r\n" + length + b"\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n")
                answers = b"".join(iter(lambda: client.recv(65536), b""))
                assert answers.count(b"HTTP/1.1 ") == 1, "a body is no request"
        assert listener.request("GET", "/healthz")[0] == 200


@pytest.fixture
def small_server(scenario):
    """A server in this process with few places and little patience."""
    ingest = Ingest("logits", 3, timed=False, journal=None, max_bytes=1000)
    server = MonitorServer(
        ("127.0.0.1", 0), ingest, {}, lambda: None, max_body=1000, max_connections=4, client_seconds=0.5
    )
    server.start()
    yield server
    ingest.stop()
    server.shutdown()
    server.server_close()


def test_slow_clients_are_closed(small_server):
    clients = [socket.create_connection(small_server.server_address, timeout=10) for _ in range(3)]
    clients[0].sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
    clients[1].sendall(b"GET /healthz HTT")
    for client in clients:
        with client:
            assert client.recv(1000) == b""
    end = time.monotonic() + 10
    while small_server.ingest.bytes_in_memory and time.monotonic() < end:
        time.sleep(0.01)
    assert small_server.ingest.bytes_in_memory == 0


def test_idle_connections_leave_a_place(scenario):
    ingest = Ingest("logits", 3, timed=False, journal=None, max_bytes=1000)
    server = MonitorServer(("127.0.0.1", 0), ingest, {}, lambda: None, max_body=1000, max_connections=4)
    server.start()
    idle = [socket.create_connection(server.server_address, timeout=10) for _ in range(15)]
    time.sleep(0.3)
    for _ in range(3):
        connection = http.client.HTTPConnection(*server.server_address, timeout=10)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b'{"status": "ok"}\n'
        connection.close()
    for client in idle:
        client.close()
    server.shutdown()
    server.server_close()


def test_full_memory_is_back_pressure(small_server):
    assert small_server.ingest.reserve(950)
    connection = http.client.HTTPConnection(*small_server.server_address, timeout=10)
    connection.request("POST", "/", b" " * 100)
    response = connection.getresponse()
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    connection.close()
    small_server.ingest.release(950)


def test_a_journal_survives_a_torn_end_and_knows_its_state(tmp_path):
    state = tmp_path / "state"
    journal = Journal(state)
    journal.restart()
    journal.append([b"a", b"b" * 1000])
    journal.append([b"c"])
    whole = journal.path.read_bytes()
    for n_cut in (1, 5, 9, 500):
        journal.path.write_bytes(whole[:-n_cut])
        assert Journal(state).unwritten() == ([b"a", b"b" * 1000] if n_cut <= 9 else [b"a"])
    journal.path.write_bytes(whole)
    assert Journal(state).unwritten() == [b"a", b"b" * 1000, b"c"]
    state.write_bytes(b"newer")  # killed between the write of the state and the restart of the journal
    assert Journal(state).unwritten() == []
    journal.close()


def test_a_journal_is_not_forgotten_by_other_commands(scenario, artefact, tmp_path, capsys):
    from driftcal.cli import main

    state = tmp_path / "state.safetensors"
    Monitor(artefact).save(state)
    journal = Journal(state)
    journal.lock()
    journal.append([b'{"event": {}, "arrival": 0}\n{"logits": [1, 2, 3]}'])
    with pytest.raises(DataError, match="another one that runs now"):
        Journal(state).lock()
    journal.close()
    np.save(tmp_path / "a.npy", scenario.sample(10)[0])
    with pytest.raises(SystemExit) as end:
        main(["monitor", str(artefact), str(tmp_path / "a.npy"), "--state", str(state)])
    assert end.value.code == 1
    assert "1 requests are only in its journal" in capsys.readouterr().err
    with Listener(artefact, "--state", state) as listener:
        assert any("1 samples were in the journal" in message for message in listener.messages)
        assert listener.stop()[0] == 0
    assert Monitor.load(state, artefact).n_samples == 1


@pytest.mark.parametrize(
    "head",
    [b"", b"[]", b"null", b'{"event": {}}', b'{"event": [1], "arrival": 1}', b'{"event": {"id": 7}, "arrival": 1}',
     b'{"event": {}, "arrival": "x"}', b'{"event": {}, "arrival": 1e999}', b"[" * 100_000, b"\xff"],
    ids=range(10),
)  # fmt: skip
def test_a_forged_journal_is_an_error_of_ours(tmp_path, head):
    journal = Journal(tmp_path / "state")
    journal.append([head + b'\n{"logits": [1, 2, 3]}'])
    journal.close()
    ingest = Ingest("logits", 3, timed=False, journal=Journal(tmp_path / "state"), max_bytes=10**6)
    with pytest.raises(DataError, match="journal beside the state must hold requests"):
        list(ingest.replay())


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and links")
def test_a_journal_that_is_no_regular_file_is_refused(tmp_path):
    journal = Journal(tmp_path / "state")
    precious = tmp_path / "precious"
    precious.write_bytes(b"precious")
    for make in (journal.path.mkdir, lambda: os.mkfifo(journal.path), lambda: journal.path.symlink_to(precious)):
        make()
        with pytest.raises(DataError, match="must be a regular file"):
            journal.unwritten()
        journal.path.rmdir() if journal.path.is_dir() else journal.path.unlink()
    with open(journal.path, "wb") as file:
        file.truncate(MAX_JOURNAL + 1)  # takes no space on the disk
    with pytest.raises(DataError, match="at most 268,435,456 bytes"):
        journal.unwritten()
    journal.path.unlink()
    # whoever can write to the folder must not choose what is overwritten
    journal.path.with_name(journal.path.name + ".new").symlink_to(precious)
    journal.restart()
    journal.close()
    assert precious.read_bytes() == b"precious"
    assert not journal.path.is_symlink()
    journal.path.with_suffix(".lock").symlink_to(precious)
    with pytest.raises(DataError, match="must be a file of the monitor"):
        journal.lock()


def test_a_full_disk_refuses_requests_and_recovers(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "state")
    messages = []
    ingest = Ingest("logits", 3, timed=False, journal=journal, max_bytes=10**6, on_message=messages.append)
    server = MonitorServer(("127.0.0.1", 0), ingest, {}, lambda: ingest.error, max_body=10**5)
    server.start()
    fed = []
    worker = threading.Thread(target=lambda: fed.extend(b for b in ingest.batches() if b.scores is not None))
    worker.start()
    flush, full = os.fsync, [False]

    def fsync(descriptor):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)

    def post():
        connection = http.client.HTTPConnection(*server.server_address, timeout=10)
        connection.request("POST", "/", b'{"logits": [1, 2, 3]}')
        status = connection.getresponse().status
        connection.request("GET", "/healthz") if status == 200 else None
        connection.close()
        return status

    assert post() == 200
    full[0] = True
    assert [post(), post()] == [503, 503]
    full[0] = False
    assert post() == 200
    ingest.stop()
    worker.join()
    server.shutdown()
    server.server_close()
    assert len(fed) == 2
    assert len(journal.unwritten()) == 2
    assert [("writable" in messages[0]), ("again" in messages[1]), len(messages)] == [True, True, 2]
    journal.close()


def test_kills_lose_nothing_that_was_acknowledged(scenario, artefact, tmp_path):
    logits, _ = scenario.sample(4000)
    bodies = [json.dumps({"logits": z.tolist(), "id": i}).encode() for i, z in enumerate(logits)]
    state, rng, sent = tmp_path / "state.safetensors", np.random.default_rng(0), iter(range(4000))
    acknowledged, doubtful = set(), set()
    for _ in range(3):
        with Listener(artefact, "--state", state, "--window-size", "1000000") as listener:
            stop = threading.Event()

            def send(_, listener=listener, stop=stop):
                while not stop.is_set():
                    i = next(sent)
                    doubtful.add(i)
                    try:
                        if listener.post(bodies[i])[0] == 200:
                            acknowledged.add(i)
                    except (OSError, http.client.HTTPException):
                        return

            with ThreadPoolExecutor(4) as pool:
                tasks = [pool.submit(send, k) for k in range(4)]
                time.sleep(rng.uniform(0.2, 1.5))
                listener.process.send_signal(signal.SIGKILL)
                stop.set()
                [task.result() for task in tasks]
    with Listener(artefact, "--state", state) as listener:
        assert listener.stop()[0] == 0
    pending = {int(name) for name in Monitor.load(state, artefact).pending}
    assert len(acknowledged) > 20
    assert acknowledged <= pending <= doubtful


def test_the_extra_is_named(scenario, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ImportError, match=r"driftcal\[monitor\]"):
        listening(
            ("127.0.0.1", 0),
            MonitorService(scenario.monitor()),
            Console(),
            timed=False,
            max_body=1,
            max_line=1,
            title="",
        ).__enter__()


@pytest.mark.parametrize("address", ["9108", ":9108", "localhost:", "a:b", "a:70000"])
def test_addresses_are_checked(artefact, address, capsys):
    from driftcal.cli import main

    with pytest.raises(SystemExit) as end:
        main(["monitor", str(artefact), "--listen", address])
    assert end.value.code == 2
    assert "--listen" in capsys.readouterr().err
