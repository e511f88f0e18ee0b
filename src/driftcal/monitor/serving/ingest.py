"""The requests of a listening monitor: a bounded queue in, batches out, and an answer once nothing can be lost."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from driftcal.core.scalars import is_number
from driftcal.errors import DataError
from driftcal.monitor.reading.json_lines import JsonLineReader, parse_json
from driftcal.monitor.reading.line_reader import MAX_LINE, QUIET_SECONDS
from driftcal.monitor.reading.stream_batch import StreamBatch
from driftcal.monitor.serving.journal import Journal

#: Requests that are flushed to the disk together. A flush takes milliseconds, a request much less.
_MAX_GROUP = 256


@dataclass(eq=False)
class Request:
    """A body that waits to be read, and later what became of it."""

    body: bytes
    #: Headers of a CloudEvent in binary mode, without "ce-".
    event: dict[str, str] = field(default_factory=dict)
    arrival: float = field(default_factory=time.time)
    done: threading.Event = field(default_factory=threading.Event)
    status: int = 503
    answer: dict[str, Any] = field(default_factory=dict)

    def record(self) -> bytes:
        """The request as a record of the journal."""
        return json.dumps({"event": self.event, "arrival": self.arrival}).encode() + b"\n" + self.body

    @classmethod
    def of_record(cls, record: bytes) -> Request:
        """The request that `record` wrote."""
        head, _, body = record.partition(b"\n")
        values = _parsed(head)
        event, arrival = (values.get("event"), values.get("arrival")) if isinstance(values, dict) else (None, None)
        if not (
            isinstance(event, dict) and all(isinstance(text, str) for text in event.values()) and is_number(arrival)
        ):
            raise DataError(
                "the journal beside the state must hold requests, as a monitor writes it; it does not. Move it away, or "
                "pass another --state."
            )
        return cls(body, event, float(arrival))


class Ingest:
    """Takes requests from many threads, and gives their content to one monitor in order.

    Parameters
    ----------
    score_type, n_classes : of the monitor.
    timed : whether samples without a time get that of their arrival.
    journal : keeps what is acknowledged; None if there is no state file.
    max_bytes : bytes of all bodies that are in memory at once; more are refused.
    on_message : receives a message when the journal cannot be written.
    """

    def __init__(
        self,
        score_type: str,
        n_classes: int,
        *,
        timed: bool,
        journal: Journal | None,
        max_bytes: int,
        max_line: int = MAX_LINE,
        on_message: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.score_type, self.n_classes, self.timed = score_type, n_classes, timed
        self.journal, self.max_bytes, self.max_line, self.on_message = journal, max_bytes, max_line, on_message
        self.bytes_in_memory = 0
        self.error: str | None = None
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._stopping = threading.Event()

    def reserve(self, n_bytes: int) -> bool:
        """Whether there is memory for a body of this size; `release` it afterwards."""
        with self._lock:
            if self._stopping.is_set() or self.bytes_in_memory + n_bytes > self.max_bytes:
                return False
            self.bytes_in_memory += n_bytes
            return True

    def release(self, n_bytes: int) -> None:
        """Give back what was reserved."""
        with self._lock:
            self.bytes_in_memory -= n_bytes

    def submit(self, request: Request, timeout: float) -> None:
        """Wait until a request was handled; `request` then holds status and answer."""
        self._queue.put(request)
        if not request.done.wait(timeout):
            request.answer = {"error": "the monitor is busy"}

    def stop(self) -> None:
        """Refuse further requests; those in the queue are still handled."""
        with self._lock:
            self._stopping.set()

    def request_stop(self) -> None:
        """As `stop`, from a signal handler, which must not wait for a lock."""
        self._stopping.set()

    def replay(self) -> Iterator[StreamBatch]:
        """The batches of acknowledged requests that the state file does not hold."""
        if self.journal is not None:
            for record in self.journal.unwritten():
                yield from self._read([Request.of_record(record)])

    def batches(self) -> Iterator[StreamBatch]:
        """Batches as requests arrive; empty ones while it is quiet. Requests are answered once their batches are used."""
        while True:
            group = self._next_group()
            if not group:
                if self._stopping.is_set():
                    return
                yield StreamBatch()
                continue
            batches = self._read(group)
            if self._keep(group):
                for i, batch in enumerate(batches):
                    batch.more = i + 1 < len(batches)  # the state must hold a group completely or not at all
                    yield batch
                for request in group:
                    request.status = 400 if request.answer["rejected"] and not _n_used(request.answer) else 200
            for request in group:
                request.done.set()

    def _next_group(self) -> list[Request]:
        group: list[Request] = []
        try:
            group.append(self._queue.get(timeout=0.05 if self._stopping.is_set() else QUIET_SECONDS))
            while len(group) < _MAX_GROUP:
                group.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return group

    def _keep(self, group: list[Request]) -> bool:
        """Write a group to the journal; if that fails, its requests are refused."""
        if self.journal is None:
            return True
        try:
            self.journal.append(request.record() for request in group)
        except OSError as error:
            if self.error is None:
                self.on_message(
                    f"{self.journal.path} must be writable; writing it failed: {error.strerror}. Requests are refused "
                    "until it can be written."
                )
            self.error = f"the journal cannot be written: {error.strerror}"
            for request in group:
                request.status, request.answer = 503, {"error": self.error}
            return False
        if self.error is not None:
            self.error = None
            self.on_message("the journal could be written again; requests are accepted.")
        return True

    def _read(self, group: list[Request]) -> list[StreamBatch]:
        """The batches of a group; each request gets its counts as answer."""
        reader = JsonLineReader(self.score_type, self.n_classes)
        totals = reader.builder.totals
        for request in group:
            before = Counter(totals)
            reader.arrival_time = (lambda at=request.arrival: at) if self.timed else None
            self._read_request(reader, request)
            counts = totals - before
            samples, labels = counts.pop("samples", 0), counts.pop("labels", 0)
            request.answer = {"samples": samples, "labels": labels, "rejected": dict(counts)}
        return reader.builder.take()

    def _read_request(self, reader: JsonLineReader, request: Request) -> None:
        if request.event:
            value = _parsed(request.body)
            if value is None:
                reader.builder.reject("not JSON")
            else:
                reader.read_value({"specversion": "1.0", **request.event, "data": value})
            return
        lines = request.body.split(b"\n")
        if len(lines) > 1 and (value := _parsed(request.body)) is not None:  # one value over several lines
            reader.read_value(value)
            return
        for line in lines:
            reader.read(None if len(line) > self.max_line else line)


def _n_used(answer: dict[str, Any]) -> int:
    return int(answer["samples"] + answer["labels"])


def _parsed(body: bytes) -> Any:
    """The JSON value of a body; None if it is none."""
    try:
        return parse_json(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
