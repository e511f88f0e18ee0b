"""Images per second and core of all 28 shifts, beside imagecorruptions and per-image scipy in the same run.

    pip install imagecorruptions-imaug==1.1.5
    python -m benchmarks.speed.shifts

Seconds are CPU seconds of all threads, so the numbers are per core and other programs on the machine count little. The speed-up
by wall clock of the same run is below them: on a busy machine it is lower, because our threads wait for cores. Rounds alternate
between the two sides; the number of a shift is the median over rounds of the mean over its levels. Ours gets batches of
float32; the others take one image at a time. At 32 pixels both use the 224-pixel parameters, the only ones that
imagecorruptions has.

Writes shifts.md and shifts.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy.ndimage import affine_transform
from sklearn.datasets import load_sample_images

import driftcal
from benchmarks.measure import table_head, table_row
from driftcal.core.parallel import n_cores
from driftcal.shifts.affine import AFFINE, affine_map
from driftcal.shifts.corruptions.corruption import CORRUPTIONS

SIZES = {32: (500, 4), 224: (32, 1)}  # side -> images of our batch, images of the other package


def photographs(n: int, side: int) -> np.ndarray:
    rng, crops, both = np.random.default_rng(0), [], load_sample_images().images
    for i in range(n):
        whole = both[i % 2]
        y, x = rng.integers(0, whole.shape[0] - side), rng.integers(0, whole.shape[1] - side)
        crops.append(whole[y : y + side, x : x + side])
    return np.stack(crops)


def seconds(task: Callable[[], object]) -> np.ndarray:
    """CPU seconds and wall-clock seconds."""
    start = np.array([time.process_time(), time.perf_counter()])
    task()
    return np.array([time.process_time(), time.perf_counter()]) - start


def scipy_per_image(image: np.ndarray, name: str, level: int) -> np.ndarray:
    """An image channel by channel, the faster of the two ways to call scipy."""
    matrix, offset = affine_map(name, level, *image.shape[:2])
    channels = (affine_transform(image[..., c], matrix, offset, order=1, mode="nearest") for c in range(3))
    return np.stack(list(channels), axis=-1)


def measure(name: str, side: int, rounds: int) -> dict[str, float | str]:
    import imagecorruptions

    many, few = SIZES[side]
    whole = photographs(many, side)
    batch = whole.astype(np.float32) / np.float32(255)
    affine = name in AFFINE
    shift = driftcal.get_shift(name) if affine else driftcal.get_shift(name, table="imagenet-c")
    levels = (1, 3, 5, 7, 9) if affine else (1, 2, 3, 4, 5)

    def peer(level: int) -> None:
        for i in range(few):
            if affine:
                scipy_per_image(batch[i], name, level)
            else:
                imagecorruptions.corrupt(whole[i], severity=level, corruption_name=name)

    for level in levels:  # compile, fill caches
        shift(batch, level)
        peer(level)
    ours, theirs = [], []
    for _ in range(rounds):
        our_seconds, peer_seconds = np.zeros(2), np.zeros(2)
        for level in levels:
            our_seconds += seconds(lambda level=level: shift(batch, level)) / many
            peer_seconds += seconds(lambda level=level: peer(level)) / few
        ours.append(our_seconds / len(levels))
        theirs.append(peer_seconds / len(levels))
    speed_up = np.median(np.array(theirs) / np.array(ours), axis=0)
    return {
        "shift": name,
        "side": side,
        "ours_per_second": 1 / float(np.median(ours, axis=0)[0]),
        "peer": "scipy" if affine else "imagecorruptions-imaug",
        "peer_per_second": 1 / float(np.median(theirs, axis=0)[0]),
        "times_faster": float(speed_up[0]),
        "times_faster_by_wall_clock": float(speed_up[1]),
    }


def as_markdown(rows: list[dict], record: dict) -> str:
    def geometric(side: int, names: dict, field: str) -> float:
        ratios = [row[field] for row in rows if row["side"] == side and row["shift"] in names]
        return float(np.exp(np.mean(np.log(ratios))))

    lines = ["# Speed of the shifts: images per second and core", "", __doc__.split("\n\n")[2].replace("\n", " "), ""]
    titles = ["shift", "peer", "ours, 32 px", "peer, 32 px", "×", "ours, 224 px", "peer, 224 px", "×"]
    lines.append(table_head(titles, 8))
    for name in [*AFFINE, *CORRUPTIONS]:
        small, large = (next(r for r in rows if r["shift"] == name and r["side"] == side) for side in (32, 224))
        cells = [f"{name}", str(small["peer"])]
        for row in (small, large):
            cells += [f"{row['ours_per_second']:,.0f}", f"{row['peer_per_second']:,.0f}", f"{row['times_faster']:.1f}"]
        lines.append(table_row(cells))
    lines += ["", table_head(["geometric mean", "32 px", "224 px", "32 px, wall clock", "224 px, wall clock"], 5)]
    for label, names in (("nine affine shifts", AFFINE), ("19 corruptions", CORRUPTIONS)):
        fields = [(side, field) for field in ("times_faster", "times_faster_by_wall_clock") for side in SIZES]
        lines.append(table_row([label, *(f"{geometric(side, names, f):.1f}×" for side, f in fields)]))
    for label, field in (("CPU time", "times_faster"), ("wall clock", "times_faster_by_wall_clock")):
        for side in SIZES:
            for kind, names in (("affine", AFFINE), ("corruptions", CORRUPTIONS)):
                lowest = min((r[field], r["shift"]) for r in rows if r["side"] == side and r["shift"] in names)
                lines += ["", f"Lowest speed-up by {label}, {kind}, {side} px: {lowest[1]}, {lowest[0]:.2f}×."]
    facts = ", ".join(f"{key} {value}" for key, value in record.items())
    return "\n".join([*lines, "", f"Made with: {facts}.", ""])


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for side in SIZES:
        for name in [*AFFINE, *CORRUPTIONS]:
            rows.append(measure(name, side, arguments.rounds))
            print(f"{side:>4} {name:<18} {rows[-1]['times_faster']:8.1f} x", flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    record = {
        "driftcal": driftcal.__version__,
        "commit": commit.stdout.strip(),
        "Python": platform.python_version(),
        **{package: version(package) for package in ("numpy", "scipy", "numba", "imagecorruptions-imaug")},
        "machine": platform.machine(),
        "cores": n_cores(),
        "seconds": round(time.perf_counter() - start),
    }
    (arguments.output / "shifts.json").write_text(json.dumps({**record, "rows": rows}, indent=1) + "\n")
    (arguments.output / "shifts.md").write_text(as_markdown(rows, record))


if __name__ == "__main__":
    main()
