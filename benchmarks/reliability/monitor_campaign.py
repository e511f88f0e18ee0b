"""A long stream with garbage: no exception, the numbers of the good samples, and no growth of memory.

    python -m benchmarks.reliability.monitor_campaign        # 200,000 samples, 40,000 lines of garbage; about a minute

The stream is fed in pieces of random size. Afterwards the monitor is compared with one that received only the good samples.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import anonymous_memory
from benchmarks.speed.monitor_throughput import N_CLASSES, make_monitor
from driftcal.errors import DriftcalError
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.serving.service import MonitorService

#: Lines that are never samples and never labels of a pending sample.
HOSTILE = [
    b"", b"{", b"]", b"null", b"17", b'"text"', b"\xff\xfe\x00", b"\x00" * 50, b"[" * 5000, b"{}", b'{"logits": []}',
    b'{"logits": [NaN, 1, 2, 3, 4, 5, 6, 7, 8, 9]}', b'{"logits": [1e999, 1, 2, 3, 4, 5, 6, 7, 8, 9]}',
    b'{"logits": [' + b"9" * 10_000 + b"]}", b'{"logits": {"a": 1}}', b'{"logits": [[[[1]]]]}', b'{"logits": [true, false]}',
    b'{"logits": [1, 2]}', b'{"logits": ["1", "2"]}', b'{"logits": [[1, 2], [1]]}', b'{"id": "unknown", "label": 1}',
    b'{"id": ' + b"8" * 5000 + b', "label": 1}', b'{"id": "x", "label": "' + b"9" * 5000 + b'"}', b'{"id": [], "label": []}',
    b'{"id": {"a": [1]}, "label": {"b": 2}}', b'{"label": 1}', b'{"id": "a"}', b'{"time": 1e400}', b"\xef\xbb\xbf{}",
    b'{"logits": [0,0,0,0,0,0,0,0,0,0], "label": [1, 2]}', b'{"logits": null, "id": null, "label": null}',
    b'{"\\ud800": 1}', b'{"id": "\\ud800", "label": 1}', b"NaN", b"-Infinity", b'{"a":' * 900 + b"1" + b"}" * 900,
]  # fmt: skip


def garbage(rng: np.random.Generator, good: bytes) -> bytes:
    """A hostile line, random bytes, or a good line with a few bytes removed; never a usable sample."""
    kind = rng.integers(3)
    if kind == 0:
        return HOSTILE[rng.integers(len(HOSTILE))]
    if kind == 1:
        return rng.bytes(int(rng.integers(1, 200))).replace(b"\n", b" ")
    return good[: int(rng.integers(1, len(good) - 1))].replace(b"\n", b" ")


def lines(n_samples: int, n_garbage: int, seed: int) -> Iterator[tuple[bool, bytes]]:
    """Lines of the stream, and whether each is good."""
    rng = np.random.default_rng(seed)
    for i in range(n_samples):
        y = int(rng.integers(N_CLASSES))
        scores = rng.normal(size=N_CLASSES)
        scores[y] += 4
        value = {"logits": scores.round(5).tolist(), "id": 10**18 + i}
        good = json.dumps(value).encode()
        yield True, good
        if i % 2:
            yield True, json.dumps({"id": 10**18 + i - int(rng.integers(2)), "label": y}).encode()
        if rng.random() < n_garbage / n_samples:
            yield False, garbage(rng, good)


def feed(monitor: Monitor, data: bytes) -> None:
    """Feed lines to a monitor."""
    for window in MonitorService(monitor).run(json_batches(io.BytesIO(data), "logits", n_classes=N_CLASSES)):
        window.to_dict()


def main() -> None:
    """Run the campaign; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--garbage", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # limits that are reached within the first third
    monitor, clean = (make_monitor(max_pending=10_000, max_windows=100) for _ in range(2))
    rng = np.random.default_rng(arguments.seed + 1)
    pieces: list[bytes] = []
    good_pieces: list[bytes] = []
    foreign, n_garbage, size, memory = 0, 0, 1, []
    for is_good, line in lines(arguments.samples, arguments.garbage, arguments.seed):
        pieces.append(line)
        n_garbage += not is_good
        if is_good:
            good_pieces.append(line)
        if len(pieces) < size:
            continue
        size = int(rng.integers(1, 3000))
        try:
            feed(monitor, b"\n".join(pieces))
        except DriftcalError as error:
            print(f"error of driftcal: {error}", file=sys.stderr)
            foreign += 1
        except Exception as error:
            print(f"foreign exception: {error!r}", file=sys.stderr)
            foreign += 1
        feed(clean, b"\n".join(good_pieces))
        pieces, good_pieces = [], []
        memory.append(anonymous_memory() / 1e6)
    feed(monitor, b"\n".join(pieces))
    feed(clean, b"\n".join(good_pieces))
    garbage_reasons = monitor.rejected - clean.rejected
    same = monitor.summary().to_dict() | {"rejected": 0} == clean.summary().to_dict() | {"rejected": 0}
    third = len(memory) // 3
    print(f"{monitor.n_samples:,} samples used of {arguments.samples:,}; {n_garbage:,} lines of garbage")
    print(f"exceptions: {foreign}; same numbers as without garbage: {same}; labels: {monitor.summary().labelled}")
    print(f"rejected: {dict(garbage_reasons.most_common())}")
    print(f"memory: {memory[third]:.1f} MB after a third, {memory[-1]:.1f} MB at the end (two monitors)")
    sys.exit(0 if same and not foreign and monitor.n_samples == arguments.samples else 1)


if __name__ == "__main__":
    main()
