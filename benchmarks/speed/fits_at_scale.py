"""Fits and metrics on memory maps from 10,000 to 1,000,000 rows × 1,000 classes: seconds and anonymous memory.

    python -m benchmarks.speed.fits_at_scale FOLDER      # needs 4 GB of disk; about 8 minutes

Every measurement is a process of its own, so that one does not inherit the memory of another. The map is read once
beforehand: whether its pages are in memory or on a disk is not what is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.speed.calibrator_fits import make_logits
from benchmarks.speed.measure import machine

CLASSES = 1000
ROWS = (10_000, 100_000, 1_000_000)
RUNS = 5
#: How often each size is measured in a run: what takes a twentieth of a second scatters most.
TIMES = (5, 3, 1)
TASKS = ("ts", "ets", "ir", "irm", "metrics")


def make_map(folder: Path, rows: int) -> None:
    """Logits as a .npy that numpy can map, written in chunks; labels beside it."""
    path = folder / "logits.npy"
    if path.exists() and np.load(path, mmap_mode="r").shape == (rows, CLASSES):
        return
    out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, CLASSES))
    labels = np.empty(rows, np.int64)
    for start in range(0, rows, 10_000):
        stop = min(start + 10_000, rows)
        out[start:stop], labels[start:stop] = make_logits(stop - start, CLASSES, seed=start)
    out.flush()
    np.save(folder / "labels.npy", labels)


def measure(folder: Path, rows: int, task: str) -> None:
    """One task on the first `rows` rows; prints seconds and peak memory as JSON."""
    import time

    import driftcal
    from benchmarks.speed.measure import PeakMemory

    logits = np.load(folder / "logits.npy", mmap_mode="r")[:rows]
    labels = np.load(folder / "labels.npy")[:rows]

    def run(z: np.ndarray, y: np.ndarray) -> None:
        if task == "metrics":
            driftcal.metrics.evaluate(y, z)
        else:
            driftcal.make_calibrator(task).fit(z, y)

    run(logits[:300], labels[:300])  # compiled code is loaded
    with PeakMemory() as peak:
        started = time.perf_counter()
        run(logits, labels)
        seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "megabytes": peak.megabytes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("ROWS", "TASK"), help="measure one task in this process")
    options = parser.parse_args()
    if options.one:
        measure(options.folder, int(options.one[0]), options.one[1])
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    make_map(options.folder, ROWS[-1])
    with open(options.folder / "logits.npy", "rb") as file:
        while file.read(1 << 26):
            pass
    print(
        "| task | "
        + " | ".join(f"{rows:,} rows" for rows in ROWS)
        + " | per row, last / first | peak anonymous memory |"
    )
    print("|---|" + "---:|" * (len(ROWS) + 2))
    for task in TASKS:
        command = [sys.executable, "-m", "benchmarks.speed.fits_at_scale", str(options.folder), "--one"]
        # sizes take turns, so that a slow minute of the machine is one of all
        found: list[list[dict[str, float]]] = [[] for _ in ROWS]
        for _ in range(RUNS):
            for rows, times, measured in zip(ROWS, TIMES, found, strict=True):
                measured += [json.loads(subprocess.check_output([*command, str(rows), task])) for _ in range(times)]
        # (runs, sizes)
        each = np.transpose(
            [np.median(np.reshape([one["seconds"] for one in measured], (RUNS, -1)), axis=1) for measured in found]
        )
        seconds = np.median(each, axis=0)
        growth = each[:, -1] / each[:, 0] * ROWS[0] / ROWS[-1]
        cells = " | ".join(f"{size:.3g} s" for size in seconds)
        spread = f"{np.median(growth):.2f}× ({min(growth):.2f} to {max(growth):.2f})"
        peak = max(one["megabytes"] for measured in found for one in measured)
        print(f"| {task} | {cells} | {spread} | {peak:.0f} MB |", flush=True)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
