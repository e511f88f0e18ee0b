"""Samples per second of the monitor on streams of JSON lines: plain, with garbage, with labels, with late labels.

    python -m benchmarks.speed.monitor_throughput        # about a minute

A stream is made in memory beforehand. Measured is the time from the first byte to the last report: reading, parsing, calibrating,
summing, matching labels and reporting windows. CPU seconds of the process are measured, so other processes matter little.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

import driftcal
from benchmarks.measure import machine, seconds_of, table_head, table_row, write_page
from driftcal.monitor.monitor import Monitor
from driftcal.monitor.reading.json_lines import json_batches
from driftcal.monitor.serving.service import MonitorService

N_CLASSES = 10
GARBAGE = (
    b'{"logits": [1, 2',
    b"\xff\xfe",
    b'{"logits": [NaN, 1, 2]}',
    b'{"logits": "none"}',
    b'{"label": 1}',
    b"17",
    b'{"logits": [1, 2, 3]}',
)


def make_monitor(**settings: Any) -> Monitor:
    """A monitor of ten classes with a drift reference of four levels."""
    rng = np.random.default_rng(0)
    y = rng.integers(N_CLASSES, size=2000)
    levels = [4 * np.eye(N_CLASSES)[y] + noise * rng.normal(size=(2000, N_CLASSES)) for noise in (1, 3, 6, 20)]
    calibrator = driftcal.TemperatureScaling().fit(np.concatenate(levels), np.tile(y, 4))
    temperature = driftcal.TemperatureScaling().fit(levels[0], y).temperature_
    reference = driftcal.DriftReference.of(levels, y, calibrator, temperature=temperature)
    return Monitor(calibrator, drift_reference=reference, **settings)


def make_streams(n_samples: int) -> dict[str, bytes]:
    """Each stream by its name; all hold the same samples."""
    rng = np.random.default_rng(1)
    y = rng.integers(N_CLASSES, size=n_samples)
    logits = (4 * np.eye(N_CLASSES)[y] + rng.normal(size=(n_samples, N_CLASSES))).round(6).tolist()

    def sample(i: int, *, label: bool = False, name: bool = False) -> bytes:
        fields = {
            "logits": logits[i],
            **({"id": f"request-{i}"} if name else {}),
            **({"label": int(y[i])} if label else {}),
        }
        return json.dumps(fields).encode()

    def late(i: int) -> bytes:
        return json.dumps({"id": f"request-{i}", "label": int(y[i])}).encode()

    plain, garbage, every_other, alternating, mixed = [], [], [], [], []
    for i in range(n_samples):
        plain.append(sample(i))
        garbage.append(sample(i))
        if i % 4 == 3:
            garbage.append(GARBAGE[i // 4 % len(GARBAGE)])
        every_other.append(sample(i, label=i % 2 == 0))
        alternating.append(sample(i, name=True))
        if i >= 100:  # the label of a sample comes a hundred samples later
            alternating.append(late(i - 100))
        mixed.append(sample(i, name=i % 3 == 0, label=i % 3 == 1))
        if i % 3 == 0 and i >= 99:
            mixed.append(late(i - 99))
        if i % 5 == 4:
            mixed.append(GARBAGE[i // 5 % len(GARBAGE)])
    streams = {
        "no labels": plain,
        "one line in five is garbage": garbage,
        "every other sample has a label": every_other,
        "samples and late labels alternate": alternating,
        "all of these mixed": mixed,
    }
    return {name: b"\n".join(lines) + b"\n" for name, lines in streams.items()}


def run(stream: bytes) -> None:
    """Monitor a stream to its end."""
    for _ in MonitorService(make_monitor_cached()).run(json_batches(io.BytesIO(stream), "logits", n_classes=N_CLASSES)):
        pass


_MADE: list[Monitor] = []


def make_monitor_cached() -> Monitor:
    """A new monitor; the calibrator is fitted once."""
    if not _MADE:
        _MADE.append(make_monitor())
    return Monitor(_MADE[0].calibrator, drift_reference=_MADE[0].drift_reference)


def main() -> None:
    """Measure every stream in turn and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-page", action="store_true", help="only print")
    arguments = parser.parse_args()
    streams = make_streams(arguments.samples)
    run(streams["all of these mixed"][:100_000])  # loads compiled code
    seconds: dict[str, list[float]] = {name: [] for name in streams}
    for _ in range(arguments.rounds):
        for name, stream in streams.items():
            seconds[name].append(seconds_of(lambda stream=stream: run(stream), time.process_time))  # type: ignore[misc]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    rows = [table_head(["stream", "lines", "samples per second", "lines per second", "time / no labels"])]
    for name, stream in streams.items():
        lines = stream.count(b"\n")
        rows.append(
            table_row(
                [
                    name,
                    f"{lines:,}",
                    f"{arguments.samples / medians[name]:,.0f}",
                    f"{lines / medians[name]:,.0f}",
                    f"{medians[name] / medians['no labels']:.2f}×",
                ]
            )
        )
    text = "\n".join(rows)
    print(text)
    if not arguments.no_page:
        page = (
            "# Throughput of the monitor\n\n    python -m benchmarks.speed.monitor_throughput\n\n"
            f"{arguments.samples:,} samples of {N_CLASSES} classes as lines of JSON, windows of 500 samples, one process; CPU time, "
            f"median of {arguments.rounds} rounds.\n\n{text}\n\n{machine()}\n"
        )
        write_page(Path(__file__).with_suffix(".md"), page)


if __name__ == "__main__":
    main()
