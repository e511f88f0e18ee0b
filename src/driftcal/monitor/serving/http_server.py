"""The HTTP endpoint of a monitor: samples and labels in, metrics and pages out.

The standard library's server with a thread per connection. The number of connections, their time, the size of a body and the memory of
all bodies are bounded; what is beyond is refused with a status that tells the sender to slow down or to try again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from driftcal._version import __version__
from driftcal.monitor.serving.ingest import Ingest, Request

#: Connections that are served at once; each has a thread.
MAX_CONNECTIONS = 256
#: Seconds in which a client must send a request, or the next one on the same connection.
CLIENT_SECONDS = 30.0
#: Seconds after which a client that has not sent its request may lose its place to another one, if all places are taken.
_PATIENCE = 1.0
#: The same for a client that has not sent any request yet.
_FIRST_PATIENCE = 0.1
#: Seconds in which an accepted body is handled; a sender that waits longer is told to try again.
_ANSWER_SECONDS = 60.0
#: Bytes of a refused body that are read, so that its sender sees the answer.
_DRAIN = 1 << 20

#: A page: its content type and its bytes, from the Accept header.
Page = Callable[[str], tuple[str, bytes]]


@dataclass(eq=False)
class _Connection:
    """An open connection: since when it waits for its client; None while a request is handled. Whether it ever sent one."""

    socket: socket.socket
    waiting_since: float | None
    is_new: bool = True


class MonitorServer(ThreadingHTTPServer):
    """Listens for requests.

    Parameters
    ----------
    address : host and port; port 0 is any free port.
    ingest : takes the bodies.
    pages : path -> function that gives the page.
    health : None, or what is wrong.
    max_body : bytes of the largest body.
    """

    daemon_threads = True
    request_queue_size = 1024
    allow_reuse_address = True

    def __init__(
        self,
        address: tuple[str, int],
        ingest: Ingest,
        pages: dict[str, Page],
        health: Callable[[], str | None],
        *,
        max_body: int,
        max_connections: int = MAX_CONNECTIONS,
        client_seconds: float = CLIENT_SECONDS,
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.ingest, self.pages, self.health, self.max_body = ingest, pages, health, max_body
        self.max_connections, self.client_seconds = max_connections, client_seconds
        self.responses: Counter[str] = Counter()
        self._connections: dict[int, _Connection] = {}
        self._lock = threading.Lock()
        super().__init__(address, _Handler)

    def start(self) -> None:
        """Listen in threads of its own."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    @property
    def n_connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection to a new thread; if there are too many, the slowest client or this one is refused."""
        with self._lock:
            if len(self._connections) >= self.max_connections and not self._close_slow(_FIRST_PATIENCE, only_new=True):
                self._close_slow(_PATIENCE)
            if len(self._connections) >= self.max_connections + 16:  # those that were closed are about to end
                self.count(503)
                with contextlib.suppress(OSError):
                    request.settimeout(0.1)
                    request.sendall(
                        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    )
                self.shutdown_request(request)
                return
            self._connections[id(request)] = _Connection(request, time.monotonic())
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._connections.pop(id(request), None)

    def service_actions(self) -> None:
        """Close connections whose clients are too slow; called several times a second."""
        with self._lock:
            while self._close_slow(self.client_seconds):
                pass

    def _close_slow(self, seconds: float, *, only_new: bool = False) -> bool:
        """Close the connection that waits longest for its client, if that is longer than `seconds`."""
        waiting = [
            (connection.waiting_since, key)
            for key, connection in self._connections.items()
            if connection.waiting_since is not None and (connection.is_new or not only_new)
        ]
        if not waiting or time.monotonic() - min(waiting)[0] < seconds:
            return False
        connection = self._connections[min(waiting)[1]]
        connection.waiting_since = None
        with contextlib.suppress(OSError):
            connection.socket.shutdown(socket.SHUT_RDWR)  # its thread ends, because there is nothing more to read
        self.count(408)
        return True

    def wait_for_client(self, connection: Any, waiting: bool) -> None:
        """Note whether a connection waits for its client."""
        with self._lock:
            if (entry := self._connections.get(id(connection))) is not None:
                entry.waiting_since = time.monotonic() if waiting else None
                entry.is_new = entry.is_new and waiting

    def count(self, status: int) -> None:
        """Count a response."""
        self.responses[str(status)] += 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: MonitorServer
    protocol_version = "HTTP/1.1"
    server_version = f"driftcal/{__version__}"
    timeout = CLIENT_SECONDS
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        self.server.wait_for_client(self.connection, True)
        with contextlib.suppress(ConnectionError, TimeoutError, ValueError):
            super().handle_one_request()
            return
        self.close_connection = True

    def parse_request(self) -> bool:
        """As the standard library does; headers that another server may read in another way are refused."""
        if not super().parse_request():
            return False
        # behind a line that is no header the parser stops, and with two lengths a part of a body could be a request
        if self.headers.defects or len(self.headers.get_all("Content-Length", [])) > 1:
            self._refuse(400, "each header must be a line 'name: value', and Content-Length must be there once")
            return False
        return True

    def do_GET(self) -> None:
        """Serve a page."""
        self.server.wait_for_client(self.connection, False)
        if self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # a body is not read, and must not be taken for the next request
        path = self.path.partition("?")[0]
        if path == "/healthz":
            problem = self.server.health()
            self._answer(200 if problem is None else 503, {"status": "ok" if problem is None else problem})
        elif path in self.server.pages:
            try:
                content_type, content = self.server.pages[path](self.headers.get("Accept", ""))
            except Exception as error:  # a page must not end the connection of a sender
                self._answer(500, {"error": f"the page could not be made: {error!r}"})
            else:
                self._send(200, content_type, content)
        else:
            listed = ", ".join([*self.server.pages, "/healthz"])
            self._answer(404, {"error": f"there is no such page; there are {listed}, and POST to /"})

    def do_POST(self) -> None:
        """Take samples and labels."""
        refused = self._refusal()
        if refused is not None:
            status, error = refused
            return self._refuse(status, error)
        n_bytes = int(self.headers["Content-Length"])
        ingest = self.server.ingest
        if not ingest.reserve(n_bytes):
            return self._refuse(503, "too many samples at once; try again later")
        try:
            body = self.rfile.read(n_bytes)
            if len(body) < n_bytes:
                self.close_connection = True
                return None
            self.server.wait_for_client(self.connection, False)
            request = Request(body, self._event())
            ingest.submit(request, _ANSWER_SECONDS)
            return self._answer(request.status, request.answer)
        finally:
            ingest.release(n_bytes)

    def handle_expect_100(self) -> bool:
        """Refuse a body before it is sent."""
        if (refused := self._refusal()) is not None:
            self.close_connection = True
            self._answer(*(refused[0], {"error": refused[1]}))
            return False
        return super().handle_expect_100()

    def log_message(self, *_: Any) -> None:
        """Requests are counted, not printed."""

    def _refusal(self) -> tuple[int, str] | None:
        """Status and reason, if the body of a request cannot be taken."""
        if self.path.partition("?")[0] not in ("/", "/samples"):
            return 404, "POST goes to /"
        length, largest = self.headers.get("Content-Length"), self.server.max_body
        if self.headers.get("Transfer-Encoding") or length is None:
            return 411, "send Content-Length; a body in chunks is not taken"
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            return 400, "Content-Length must be one whole number"
        if int(length) > largest:
            return (
                413,
                f"a body may have {largest:,} bytes; this one has {int(length):,}. Send fewer samples at once, or raise --max-body-mb",
            )
        if self.headers.get("Content-Encoding", "identity") != "identity":
            return 415, "send the body without compression"
        if self.headers.get("Inference-Header-Content-Length"):
            return 415, "send tensors as JSON; the binary extension of KServe is not taken"
        return None

    def _event(self) -> dict[str, str]:
        """The attributes of a CloudEvent in binary mode; empty for other requests."""
        attributes = {name[3:].lower(): value for name, value in self.headers.items() if name.lower().startswith("ce-")}
        return (
            {name: attributes[name] for name in ("id", "type", "time") if name in attributes}
            if "type" in attributes
            else {}
        )

    def _refuse(self, status: int, error: str) -> None:
        self.close_connection = True
        self._answer(status, {"error": error})
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1.0)
            left = _DRAIN
            while left > 0 and (chunk := self.rfile.read1(min(left, 1 << 16))):
                left -= len(chunk)

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(value).encode() + b"\n")

    def _send(self, status: int, content_type: str, content: bytes) -> None:
        self.server.count(status)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if status in (429, 503):
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
