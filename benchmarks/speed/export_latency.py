"""What calibration adds to the latency of a MobileNetV2-sized ONNX model with 1,000 classes, at batch 1 and 64.

    python -m benchmarks.speed.export_latency

Each calibrator is appended to the model as `driftcal export` does it, and its operators then move behind a switch (the
operator If), so that one and the same opened model runs with and without them: in turn, on the same input, in an order
that is drawn anew each time. Two opened models cannot be compared so closely: where the weights of each happen to lie in
memory moves its latency by up to 5 %, calibrated or not.

The figure is the median over all pairs of runs of (with − without), over the median without. All models are opened anew
several times, one after the other. The interval is 95 % of the medians of 2,000 bootstrap samples of the pairs. The first
row is a model whose switch stays off: what is measured of it is noise.

A switch is an operator of its own, and what lies behind it is planned on its own, so a third figure does without: the calibration
alone, as a model that is fed what the network gives, runs right after the network, in turn with a model that only hands on
logits; (with − without) is set against the network's runs in between ("apart").

Runs of 64 images scatter by more than calibration costs. So there it is measured within each run of the exported model, by
onnxruntime's own clock: operators run one after the other, and what a run takes from the end of the network's last operator
to its own end (with the calibration's operators that came before, if it looks inside), over the rest of the same run, is what
calibration adds; the clock's own work counts as calibration's. (With one image the clock would take longer than the operators.)

"within" is read from the intervals: yes if all lie below the bound, no if any lies above it, and otherwise cannot tell.

Bounds: 2 % for parametric calibrators, 5 % for isotonic and binned ones. Writes export_latency.md and export_latency.json beside this file;
export_latency.md keeps what is written below its table. With ``--folder`` the calibrated models are kept for the next time.
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

from benchmarks.speed.export_models import CONTROL, NETWORK, OWN, VARIANTS, Exported, apart, make, with_switch
from benchmarks.speed.measure import machine
from driftcal.calibrators import CALIBRATORS

#: Rows, threads (0: all cores), openings and pairs of runs after each.
SETTINGS = {
    "batch 1, one thread": (1, 1, 3, 200),
    "batch 1, all cores": (1, 0, 3, 1_500),
}
#: The calibration alone, after the network: openings and pairs of runs after each.
APART, APART_OPENINGS, APART_PAIRS = "batch 1, all cores, apart", 3, 400
#: What is clocked within runs, of how many.
WITHIN_RUNS, CLOCKED = "batch 64, all cores", 12
COLUMNS = (*SETTINGS, APART, WITHIN_RUNS)
SAMPLES = 2_000
HERE = Path(__file__).parent


def session(model: bytes, threads: int, drift_reference: Path | None = None) -> Any:
    """Threads that wait in a loop would take the cores from whoever else is here."""
    options = onnxruntime.SessionOptions()
    if drift_reference is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(drift_reference)
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


def after_network(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Seconds of the network, and of the network and what calibration adds to handing on logits, (pairs, 2), after one opening."""
    calibrated, plain, given = apart(path)
    network, x = session(path.with_name(NETWORK).read_bytes(), 0), rng.random((1, 3, 224, 224), np.float32)
    opened = [session(plain, 0), session(calibrated, 0)]
    found = np.empty((2 + APART_PAIRS, 2))
    for i in range(len(found)):
        taken = np.empty(2)
        for k in rng.permutation(2):
            started = time.perf_counter()
            network.run(None, {"x": x})
            ended = time.perf_counter()
            opened[k].run(None, given)
            taken[k], found[i, 0] = time.perf_counter() - ended, ended - started
        found[i, 1] = found[i, 0] + taken[1] - taken[0]
    return found[2:]  # the first two plan their memory


def clocked(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Microseconds of runs of 64 images without what calibration takes in them, and with it, (runs, 2)."""
    x = rng.random((64, 3, 224, 224), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        opened = session(path.read_bytes(), 0, Path(folder) / "profile")
        for _ in range(2 + CLOCKED):
            opened.run(None, {"x": x})
        events = json.loads(Path(opened.end_profiling()).read_text())
    operators = [event for event in events if event["name"].endswith("_kernel_time")]
    found = []
    for run in [event for event in events if event["name"] == "model_run"][2:]:  # the first two plan its memory
        end = run["ts"] + run["dur"]
        inside = [event for event in operators if run["ts"] <= event["ts"] < end]
        last = max(event["ts"] + event["dur"] for event in inside if not event["name"].startswith(OWN))
        before = sum(event["dur"] for event in inside if event["name"].startswith(OWN) and event["ts"] < last)
        found.append((run["dur"] - (end - last) - before, run["dur"]))
    return np.array(found)


def summary(found: np.ndarray) -> dict[str, Any]:
    """What the second column takes longer than the first, as a share: the median, and 95 % of those of bootstrap samples."""
    more, rng = found[:, 1] - found[:, 0], np.random.default_rng(0)
    plain = float(np.median(found[:, 0]))
    medians = np.median(more[rng.integers(len(more), size=(SAMPLES, len(more)))], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975]) / plain
    return {"added": float(np.median(more)) / plain, "interval": [float(low), float(high)], "plain": plain}


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
    for model in exported:
        if model.name != CONTROL:
            found[model.name, APART] = [after_network(model.path, rng) for _ in range(APART_OPENINGS)]
            found[model.name, WITHIN_RUNS] = [clocked(model.path, rng)]
            told = "; ".join(f"{c} {summary(np.concatenate(found[model.name, c]))['added']:+.2%}" for c in COLUMNS)
            print(f"{model.name}: {told}", flush=True)
    lines = []
    for model in exported:
        line: dict[str, Any] = {"calibrator": model.name, "alike": model.alike, "bound": model.bound}
        line["difference"] = model.difference
        line |= {
            setting: summary(np.concatenate(seen)) for (name, setting), seen in found.items() if name == model.name
        }
        lines.append(line | {"within": within(line)})
    return lines


def within(line: dict[str, Any]) -> str:
    """Whether the figures lie within the bound, as far as their intervals can tell."""
    bound = line["bound"]
    if bound is None:
        return "no bound"
    intervals = [line[setting]["interval"] for setting in COLUMNS]
    if any(low > bound for low, _ in intervals):
        return "no"
    return "yes" if all(high <= bound for _, high in intervals) else "cannot tell"


def table(lines: list[dict[str, Any]], where: str) -> str:
    """The lines as export_latency.md shows them."""
    rows = [["calibrator", "bound", *COLUMNS, "within"]]
    rows.append(["---"] * len(rows[0]))
    for line in lines:
        cells = []
        for part in (line.get(column) for column in COLUMNS):
            ends = (part["added"], *part["interval"]) if part else ()
            cells.append("{:+.1%} ({:+.1%} to {:+.1%})".format(*ends) if part else "")
        bound = f"{line['bound']:.0%}" if line["bound"] else "none"
        rows.append([", ".join([line["calibrator"], *line["alike"]]), bound, *cells, line["within"]])
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    nets = "; ".join(
        f"{setting}: {1e3 * np.median([line[setting]['plain'] for line in lines]):.1f} ms, {openings} × {rounds} pairs of runs each"
        for setting, (_, _, openings, rounds) in SETTINGS.items()
    )
    return (
        f"# Latency of exported calibrators\n\nMade by `python -m benchmarks.speed.export_latency`; {where}.\n"
        f"Added to the plain model's latency, with 95 % intervals. The plain model takes, {nets}.\n\n{body}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000, help="tuning rows")
    parser.add_argument("--calibrators", nargs="+", default=[*CALIBRATORS, *VARIANTS], metavar="NAME")
    parser.add_argument("--folder", type=Path, help="where calibrated models are kept for the next time")
    parser.add_argument("--prepare", action="store_true", help="make the calibrated models only")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        exported = make(given.calibrators, given.rows, given.folder or Path(spare))
        if given.prepare:
            return
        lines = measure([Exported(CONTROL, exported[0].path, 0.0), *exported])
    where = f"onnxruntime {version('onnxruntime')}, {machine()}"
    print(table(lines, where))
    if not given.dry:
        kept = (HERE / "export_latency.md").read_text().split("\n## ", 1)[1:]
        (HERE / "export_latency.md").write_text("\n## ".join([table(lines, where), *kept]))
        (HERE / "export_latency.json").write_text(json.dumps({"where": where, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
