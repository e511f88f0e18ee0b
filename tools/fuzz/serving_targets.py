"""What a listening monitor reads: requests in all their forms, and the journal that they are kept in."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import make_calibrator
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.serving.ingest import Ingest, Request
from driftcal.monitor.serving.journal import Journal
from tools.fuzz.mutation import mutate_value

_LOGITS = np.random.default_rng(0).normal(size=(60, 3)) * 2
_LABELS = (_LOGITS + np.random.default_rng(1).gumbel(size=_LOGITS.shape)).argmax(axis=1)
_LINE = {"logits": [[1.0, 2.0, 3.0], [0.5, 0.1, 0.2]], "id": ["a", "b"], "time": 1.7e9, "label": [1, None]}
_V1 = {"predictions": [[1.5, 0.2, 0.1], {"logits": [0.1, 3, 1]}], "id": "a"}
_V2 = {"outputs": [{"name": "logits", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}], "id": "a"}
_EVENT = {"specversion": "1.0", "type": "x.response", "id": "a", "time": "2026-01-01T00:00:00Z", "data": _V1}
_ENCODED = {"specversion": "1.0", "id": "a", "data_base64": base64.b64encode(json.dumps(_V2).encode()).decode()}
#: Bodies of requests.
BODIES: dict[str, Any] = {
    "line": _LINE,
    "v1": _V1,
    "v2": _V2,
    "event": _EVENT,
    "encoded": _ENCODED,
    "batch": [_EVENT, _LINE],
}


def write_bodies(seeds: Path) -> list[Path]:
    """One file per kind of request."""
    for name, body in BODIES.items():
        (seeds / f"{name}.json").write_text(json.dumps(body))
    return [seeds / f"{name}.json" for name in BODIES]


def mutate_body(rng: random.Random, seed: Path, target: Path) -> bool:
    """Write a body with changed values; False if JSON cannot hold them."""
    value = json.loads(seed.read_text())
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = mutate_value(rng, value)
    try:
        target.write_text(json.dumps(value))
    except (TypeError, ValueError, OverflowError):
        return False
    return True


class Listener:
    """A monitor with a journal in `folder`, without a network."""

    def __init__(self, folder: Path) -> None:
        self.calibrator = make_calibrator("ts").fit(_LOGITS, _LABELS)
        self.state = Monitor(self.calibrator, window_size=20).save(folder / "state.safetensors")
        self.headers = [{}, {"type": "x.response"}, {"type": "x.request"}, {"type": "t", "id": "7", "time": "now"}]

    def take(self, path: Path) -> None:
        """Read one body as a request, with and without the headers of an event, and use what it holds."""
        monitor = Monitor(self.calibrator, window_size=20)
        for event in self.headers:
            for timed in (False, True):
                ingest = Ingest("logits", 3, timed=timed, journal=None, max_bytes=1 << 25)
                for batch in ingest._read([Request(path.read_bytes(), event, arrival=1.7e9)]):
                    monitor.add_batch(batch)
        monitor.windows(), monitor.summary()

    def replay(self, path: Path) -> None:
        """Read a file as the journal of the state."""
        journal = Journal(self.state)
        journal.path.write_bytes(path.read_bytes())
        monitor = Monitor.load(self.state, self.calibrator)
        for batch in Ingest("logits", 3, timed=False, journal=journal, max_bytes=1 << 25).replay():
            monitor.add_batch(batch)
        monitor.summary()

    def journal_of(self, records: list[bytes], path: Path) -> None:
        """Write a journal that belongs to the state, with right checksums."""
        journal = Journal(self.state)
        journal.append(records)
        journal.close()
        path.write_bytes(journal.path.read_bytes())

    def mutate_journal(self, rng: random.Random, _: Path, target: Path) -> bool:
        """Write a journal with right checksums and changed records."""
        head: Any = {"event": rng.choice(self.headers), "arrival": 1.7e9}
        head = mutate_value(rng, head) if rng.random() < 0.7 else head
        body = mutate_value(rng, rng.choice(list(BODIES.values())))
        try:
            self.journal_of([json.dumps(head).encode() + rng.choice((b"\n", b"")) + json.dumps(body).encode()], target)
        except (TypeError, ValueError, OverflowError):
            return False
        return True
