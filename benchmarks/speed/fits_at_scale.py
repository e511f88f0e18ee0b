"""Fits and metrics on memory maps of 10,000 to 1,000,000 samples × 1,000 classes: seconds and anonymous memory.

    python -m benchmarks.speed.fits_at_scale FOLDER      # needs 4 GB of disk; about 8 minutes

Every measurement runs in a new process, so that memory of one does not count for another. The file is read once beforehand,
so that reading from disk is not measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import driftcal
from benchmarks.measure import PeakMemory, machine, seconds_of, table_head, table_row
from benchmarks.speed.calibrator_fits import make_logits

CLASSES = 1000
#: Number of samples -> measurements per round: short ones vary most.
SIZES = {10_000: 5, 100_000: 3, 1_000_000: 1}
ROUNDS = 5
TASKS = ("ts", "ets", "ir", "irm", "metrics")


def make_map(folder: Path, n_samples: int) -> None:
    """Write logits as a .npy file that numpy can map, in chunks, and labels beside it."""
    path = folder / "logits.npy"
    if path.exists() and np.load(path, mmap_mode="r").shape == (n_samples, CLASSES):
        return
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n_samples, CLASSES))
    labels = np.empty(n_samples, np.int64)
    for start in range(0, n_samples, 10_000):
        stop = min(start + 10_000, n_samples)
        out[start:stop], labels[start:stop] = make_logits(stop - start, CLASSES, seed=start)
    out.flush()
    np.save(folder / "labels.npy", labels)


def measure(folder: Path, n_samples: int, task: str) -> None:
    """Run one task on the first samples; prints seconds and peak memory as JSON."""
    logits = np.load(folder / "logits.npy", mmap_mode="r")[:n_samples]
    labels = np.load(folder / "labels.npy")[:n_samples]

    def run(z: np.ndarray, y: np.ndarray) -> None:
        if task == "metrics":
            driftcal.metrics.evaluate(y, z)
        else:
            driftcal.make_calibrator(task).fit(z, y)

    run(logits[:300], labels[:300])  # loads compiled code
    with PeakMemory() as peak:
        seconds = seconds_of(lambda: run(logits, labels))
    print(json.dumps({"seconds": seconds, "megabytes": peak.megabytes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("SAMPLES", "TASK"), help="measure one task in this process")
    options = parser.parse_args()
    if options.one:
        measure(options.folder, int(options.one[0]), options.one[1])
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    make_map(options.folder, max(SIZES))
    with open(options.folder / "logits.npy", "rb") as file:
        while file.read(1 << 26):
            pass
    sizes = [f"{size:,} samples" for size in SIZES]
    print(table_head(["task", *sizes, "per sample, last / first", "peak anonymous memory"]))
    for task in TASKS:
        command = [sys.executable, "-m", "benchmarks.speed.fits_at_scale", str(options.folder), "--one"]
        # sizes alternate, so that a slow minute of the machine affects all of them
        by_size: dict[int, list[dict[str, float]]] = {size: [] for size in SIZES}
        for _ in range(ROUNDS):
            for size, repeats in SIZES.items():
                outputs = [subprocess.check_output([*command, str(size), task]) for _ in range(repeats)]
                by_size[size] += [json.loads(output) for output in outputs]
        # (rounds, sizes)
        seconds = np.transpose(
            [np.median(np.reshape([one["seconds"] for one in runs], (ROUNDS, -1)), axis=1) for runs in by_size.values()]
        )
        growth = seconds[:, -1] / seconds[:, 0] * min(SIZES) / max(SIZES)
        cells = [f"{median:.3g} s" for median in np.median(seconds, axis=0)]
        growth_text = f"{np.median(growth):.2f}× ({min(growth):.2f} to {max(growth):.2f})"
        peak = max(one["megabytes"] for runs in by_size.values() for one in runs)
        print(table_row([task, *cells, growth_text, f"{peak:.0f} MB"]), flush=True)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
