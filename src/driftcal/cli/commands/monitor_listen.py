"""``driftcal monitor --listen``: the monitor as an HTTP endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from driftcal.cli.console import Console
from driftcal.cli.signals import on_signals
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.serving.http_server import MonitorServer
from driftcal.monitor.serving.ingest import Ingest
from driftcal.monitor.serving.journal import Journal
from driftcal.monitor.serving.metrics_page import metrics_page
from driftcal.monitor.serving.prometheus import MetricFamily
from driftcal.monitor.serving.service import MonitorService

#: Signals that end the command.
_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
#: Bodies in memory at once, as a multiple of the largest one.
_BODIES_IN_MEMORY = 8


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:9108`` or ``[::1]:9108``."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(
            f"must be a host and a port, like 127.0.0.1:9108; it is {text!r}.", param_hint="--listen"
        )
    return host.strip("[]"), int(port)


@contextmanager
def listening(
    address: tuple[str, int],
    service: MonitorService,
    console: Console,
    *,
    timed: bool,
    max_body: int,
    max_line: int,
    title: str,
) -> Iterator[Iterator[StreamBatch]]:
    """Inside, the monitor listens; the value is the batches that arrive. They end when the command is stopped."""
    from driftcal.report.timeline import timeline_html

    monitor = service.monitor
    journal = None if service.state_path is None else Journal(service.state_path)
    ingest = Ingest(
        monitor.settings.score_type,
        monitor.n_classes,
        timed=timed,
        journal=journal,
        max_bytes=_BODIES_IN_MEMORY * max_body,
        max_line=max_line,
        on_message=console.message,
    )

    def families() -> list[MetricFamily]:
        codes = [({"code": code}, float(n)) for code, n in sorted(server.responses.items())]
        return [
            *service.metric_families(),
            *([MetricFamily("http_responses_total", "counter", "Responses by status.", codes)] if codes else []),
            MetricFamily("http_connections", "gauge", "Open connections.", [({}, float(server.n_connections))]),
            MetricFamily("queued_bytes", "gauge", "Bytes of bodies in memory.", [({}, float(ingest.bytes_in_memory))]),
        ]

    def report(_: str) -> tuple[str, bytes]:
        with service.lock:
            return "text/html; charset=utf-8", timeline_html(monitor, title=title).encode()

    pages = {"/metrics": metrics_page(families), "/report": report}
    if journal is not None:
        journal.lock()
        n_before = monitor.n_samples
        for batch in ingest.replay():
            monitor.add_batch(batch)
        if monitor.n_samples > n_before:
            console.message(f"{monitor.n_samples - n_before:,} samples were in the journal of the last run")
        service.on_write = journal.restart
        service.write()  # a folder that cannot be written is noticed now
    server = MonitorServer(address, ingest, pages, lambda: ingest.error or service.write_error, max_body=max_body)
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    server.start()
    console.message(f"listening on http://{host}:{server.server_port}")
    try:
        with on_signals(_STOPPING, ingest.request_stop):  # the requests that have arrived are handled first
            yield ingest.batches()
    finally:
        ingest.stop()
        server.shutdown()
        server.server_close()
        if journal is not None:
            journal.close()
