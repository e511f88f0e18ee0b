"""What calibration adds to the latency of a MobileNetV2-sized ONNX model with 1,000 classes, at batch 1 and 64.

    python -m benchmarks.speed.export

Each calibrator is appended to the model as `driftcal export` does it, and its operators then move behind a switch (the
operator If), so that one and the same opened model runs with and without them: in turn, on the same input, in an order
that is drawn anew each time. Two opened models cannot be compared so closely: where the weights of each happen to lie in
memory moves its latency by up to 5 %, calibrated or not. The switch itself costs a few microseconds when it is on, which
count as the calibration's.

The figure is the median over all pairs of runs of (with − without), over the median without. All models are opened anew
several times, one after the other. The interval is 95 % of the medians of 2,000 bootstrap samples of the pairs. "within" is
read from it: yes if it lies below the bound in all settings, no if above it in any, and otherwise cannot tell. The first
row is a model whose switch stays off: what is measured of it is noise.

Bounds: 2 % for parametric calibrators, 5 % for isotonic and binned ones. Writes EXPORT.md and export.json beside this file;
EXPORT.md keeps what is written below its table. With ``--folder`` the calibrated models are kept for the next time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.speed.exported import CONTROL, Exported, make, with_switch
from benchmarks.speed.measure import machine
from driftcal.calibrators import CALIBRATORS

#: Rows, threads (0: all cores), openings and pairs of runs after each.
SETTINGS = {
    "batch 1, one thread": (1, 1, 3, 60),
    "batch 1, all cores": (1, 0, 3, 60),
    "batch 64, all cores": (64, 0, 3, 12),
}
SAMPLES = 2_000
HERE = Path(__file__).parent


def session(model: bytes, threads: int) -> Any:
    """Threads that wait in a loop would take the cores from whoever else is here."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options)


def pairs(model: bytes, setting: str, rng: np.random.Generator, switches: tuple[bool, bool]) -> np.ndarray:
    """Seconds of runs without and with calibration, (pairs, 2), after one opening."""
    batch, threads, _, rounds = SETTINGS[setting]
    opened, x = session(model, threads), rng.random((batch, 3, 224, 224), np.float32)

    def seconds(switch: bool) -> float:
        started = time.perf_counter()
        opened.run(None, {"x": x, "switch": np.array(switch)})
        return time.perf_counter() - started

    for switch in (*switches, *switches):  # the second run is the first with its final plan of memory
        seconds(switch)
    found = np.empty((rounds, 2))
    for i in range(rounds):
        for k in rng.permutation(2):
            found[i, k] = seconds(switches[k])
    return found


def summary(found: np.ndarray) -> dict[str, Any]:
    """What the second column takes longer than the first, as a share: the median, and 95 % of those of bootstrap samples."""
    more, rng = found[:, 1] - found[:, 0], np.random.default_rng(0)
    plain = float(np.median(found[:, 0]))
    medians = np.median(more[rng.integers(len(more), size=(SAMPLES, len(more)))], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975]) / plain
    return {
        "added": float(np.median(more)) / plain, "interval": [float(low), float(high)], "plain_ms": 1e3 * plain,
    }  # fmt: skip


def measure(exported: Sequence[Exported]) -> list[dict[str, Any]]:
    """A line of figures for each calibrator."""
    rng, started = np.random.default_rng(1), time.perf_counter()
    files = {model.name: with_switch(model.path) for model in exported}
    found: dict[tuple[str, str], list[np.ndarray]] = {}
    steps = [(o, s, m) for s in SETTINGS for o in range(SETTINGS[s][2]) for m in exported]
    for number, (_, setting, model) in enumerate(sorted(steps, key=lambda step: step[0]), 1):
        switches = (False, model.name != CONTROL)
        seen = pairs(files[model.name], setting, rng, switches)
        found.setdefault((model.name, setting), []).append(seen)
        passed, told = time.perf_counter() - started, summary(seen)["added"]
        print(f"{number} of {len(steps)}, {passed / 60:.1f} min: {setting}, {model.name} {told:+.1%}", flush=True)
    lines = []
    for model in exported:
        line: dict[str, Any] = {"calibrator": model.name, "alike": model.alike, "bound": model.bound}
        line["difference"] = model.difference
        line |= {setting: summary(np.concatenate(found[model.name, setting])) for setting in SETTINGS}
        lines.append(line | {"within": within(line)})
    return lines


def within(line: dict[str, Any]) -> str:
    """Whether the figures lie within the bound, as far as their intervals can tell."""
    bound, intervals = line["bound"], [line[setting]["interval"] for setting in SETTINGS]
    if bound is None:
        return "no bound"
    if any(low > bound for low, _ in intervals):
        return "no"
    return "yes" if all(high <= bound for _, high in intervals) else "cannot tell"


def table(lines: list[dict[str, Any]], where: str) -> str:
    """The lines as EXPORT.md shows them."""
    rows = [["calibrator", "bound", *SETTINGS, "within"]]
    rows.append(["---"] * len(rows[0]))
    for line in lines:
        parts = [line[setting] for setting in SETTINGS]
        ends = [(part["added"], *part["interval"]) for part in parts]
        cells = [f"{middle:+.1%} ({low:+.1%} to {high:+.1%})" for middle, low, high in ends]
        bound = f"{line['bound']:.0%}" if line["bound"] else "none"
        rows.append([", ".join([line["calibrator"], *line["alike"]]), bound, *cells, line["within"]])
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    nets = "; ".join(
        f"{setting}: {np.median([line[setting]['plain_ms'] for line in lines]):.1f} ms, {openings} × {rounds} pairs of runs each"
        for setting, (_, _, openings, rounds) in SETTINGS.items()
    )
    return (
        f"# Latency of exported calibrators\n\nMade by `python -m benchmarks.speed.export`; {where}.\n"
        f"Added to the plain model's latency, end to end, with 95 % intervals. The plain model takes, {nets}.\n\n{body}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000, help="tuning rows")
    parser.add_argument("--calibrators", default=",".join(CALIBRATORS))
    parser.add_argument("--folder", type=Path, help="where calibrated models are kept for the next time")
    parser.add_argument("--prepare", action="store_true", help="make the calibrated models only")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        exported = make(given.calibrators.split(","), given.rows, given.folder or Path(spare))
        if given.prepare:
            return
        lines = measure([Exported(CONTROL, exported[0].path, 0.0), *exported])
    where = f"onnxruntime {version('onnxruntime')}, {machine()}"
    print(table(lines, where))
    if not given.dry:
        kept = (HERE / "EXPORT.md").read_text().split("\n## ", 1)[1:]
        (HERE / "EXPORT.md").write_text("\n## ".join([table(lines, where), *kept]))
        (HERE / "export.json").write_text(json.dumps({"where": where, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
