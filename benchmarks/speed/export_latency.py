"""The latency that calibration adds to a MobileNetV2-sized ONNX model with 1,000 classes, at batch 1 and 64.

    python -m benchmarks.speed.export_latency

Each calibrator is appended to the model as `driftcal export` does it. Its operators are then moved behind a switch (the operator
If), so that one opened model runs with and without them: alternately, on the same input, in random order. Two opened models
cannot be compared so closely: the positions of their weights in memory change the latency by up to 5 %.

The result is the median of (with − without) over all pairs of runs, divided by the median without. All models are opened anew
several times in turn. The interval holds 95 % of the medians of 2,000 bootstrap samples of the pairs. The first row is a model
whose switch stays off: it shows the noise of the measurement.

A switch is an operator itself and changes the memory plan, so a third measurement does without ("apart"): the calibration
alone, as a model that gets the network's outputs, runs right after the network, alternately with a model that only returns
logits; (with − without) is divided by the duration of the network's runs in between.

Runs of 64 images vary by more than calibration costs. So it is measured within each run of the exported model, by
onnxruntime's own profiler. Operators run one after the other. What calibration adds is the time from the end of the network's
last operator to the end of the run (and the calibration's operators before that, if it reads features), divided by the rest of
the same run; the profiler's own work counts as calibration's. (With one image the profiler would take longer than the operators.)

"within" follows from the intervals: yes if all are below the bound, no if any is above it, otherwise cannot tell.

Bounds: 2 % for parametric calibrators, 5 % for isotonic and binned ones. Writes export_latency.md and export_latency.json beside this
file; the findings in export_latency.md stay. With ``--folder`` the calibrated models are kept for the next run.
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

from benchmarks.measure import machine, table_head, table_row, write_page
from benchmarks.speed.export_models import (
    CALIBRATION_PREFIXES,
    CONTROL,
    NETWORK,
    VARIANTS,
    ExportedModel,
    calibration_alone,
    export_models,
    with_switch,
)
from driftcal.calibrators import CALIBRATORS

#: Images, threads (0: all cores), openings, and pairs of runs after each opening.
SETTINGS = {
    "batch 1, one thread": (1, 1, 3, 200),
    "batch 1, all cores": (1, 0, 3, 1_500),
}
#: The calibration alone, after the network: openings, and pairs of runs after each opening.
APART, APART_OPENINGS, APART_PAIRS = "batch 1, all cores, apart", 3, 400
#: What the profiler measures within runs, and in how many.
WITHIN_RUNS, PROFILED_RUNS = "batch 64, all cores", 12
COLUMNS = (*SETTINGS, APART, WITHIN_RUNS)
N_RESAMPLES = 2_000


def session(model: bytes, threads: int, profile: Path | None = None) -> Any:
    """An opened model; its threads do not wait in a loop, which would take the cores from other programs."""
    options = onnxruntime.SessionOptions()
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options)


def pairs(model: bytes, setting: str, rng: np.random.Generator, switches: tuple[bool, bool]) -> np.ndarray:
    """Seconds of runs without and with calibration after one opening, (pairs, 2)."""
    batch, threads, _, rounds = SETTINGS[setting]
    opened, x = session(model, threads), rng.random((batch, 3, 224, 224), np.float32)

    def seconds(switch: bool) -> float:
        start = time.perf_counter()
        opened.run(None, {"x": x, "switch": np.array(switch)})
        return time.perf_counter() - start

    for switch in (*switches, *switches):  # only the second run has its final memory plan
        seconds(switch)
    times = np.empty((rounds, 2))
    for i in range(rounds):
        for k in rng.permutation(2):
            times[i, k] = seconds(switches[k])
    return times


def after_network(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Seconds of the network, and of the network with what calibration adds to returning logits, (pairs, 2)."""
    calibrated, plain, outputs = calibration_alone(path)
    network, x = session(path.with_name(NETWORK).read_bytes(), 0), rng.random((1, 3, 224, 224), np.float32)
    opened = [session(plain, 0), session(calibrated, 0)]
    times = np.empty((2 + APART_PAIRS, 2))
    for i in range(len(times)):
        after_network_seconds = np.empty(2)
        for k in rng.permutation(2):
            start = time.perf_counter()
            network.run(None, {"x": x})
            end = time.perf_counter()
            opened[k].run(None, outputs)
            after_network_seconds[k], times[i, 0] = time.perf_counter() - end, end - start
        times[i, 1] = times[i, 0] + after_network_seconds[1] - after_network_seconds[0]
    return times[2:]  # the first two plan their memory


def profiled_runs(path: Path, rng: np.random.Generator) -> np.ndarray:
    """Microseconds of runs of 64 images without their calibration, and with it, (runs, 2)."""
    x = rng.random((64, 3, 224, 224), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        opened = session(path.read_bytes(), 0, Path(folder) / "profile")
        for _ in range(2 + PROFILED_RUNS):
            opened.run(None, {"x": x})
        events = json.loads(Path(opened.end_profiling()).read_text())
    operators = [event for event in events if event["name"].endswith("_kernel_time")]
    times = []
    for run in [event for event in events if event["name"] == "model_run"][2:]:  # the first two plan its memory
        end = run["ts"] + run["dur"]
        inside = [event for event in operators if run["ts"] <= event["ts"] < end]
        last = max(event["ts"] + event["dur"] for event in inside if not event["name"].startswith(CALIBRATION_PREFIXES))
        before = sum(
            event["dur"] for event in inside if event["name"].startswith(CALIBRATION_PREFIXES) and event["ts"] < last
        )
        times.append((run["dur"] - (end - last) - before, run["dur"]))
    return np.array(times)


def summary(times: np.ndarray) -> dict[str, Any]:
    """How much longer the second column takes than the first, as a share: the median and its bootstrap interval."""
    added, rng = times[:, 1] - times[:, 0], np.random.default_rng(0)
    plain = float(np.median(times[:, 0]))
    medians = np.median(added[rng.integers(len(added), size=(N_RESAMPLES, len(added)))], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975]) / plain
    return {"added": float(np.median(added)) / plain, "interval": [float(low), float(high)], "plain": plain}


def measure(exported: Sequence[ExportedModel]) -> list[dict[str, Any]]:
    """A line of results for each calibrator."""
    rng, start = np.random.default_rng(1), time.perf_counter()
    files = {model.name: with_switch(model.path) for model in exported}
    times: dict[tuple[str, str], list[np.ndarray]] = {}
    steps = [(o, s, m) for s in SETTINGS for o in range(SETTINGS[s][2]) for m in exported]
    for number, (_, setting, model) in enumerate(sorted(steps, key=lambda step: step[0]), 1):
        switches = (False, model.name != CONTROL)
        one_opening = pairs(files[model.name], setting, rng, switches)
        times.setdefault((model.name, setting), []).append(one_opening)
        minutes, added = (time.perf_counter() - start) / 60, summary(one_opening)["added"]
        print(f"{number} of {len(steps)}, {minutes:.1f} min: {setting}, {model.name} {added:+.1%}", flush=True)
    for model in exported:
        if model.name != CONTROL:
            times[model.name, APART] = [after_network(model.path, rng) for _ in range(APART_OPENINGS)]
            times[model.name, WITHIN_RUNS] = [profiled_runs(model.path, rng)]
            added = [f"{c} {summary(np.concatenate(times[model.name, c]))['added']:+.2%}" for c in COLUMNS]
            print(f"{model.name}: {'; '.join(added)}", flush=True)
    lines = []
    for model in exported:
        line: dict[str, Any] = {"calibrator": model.name, "alike": model.same_graph, "bound": model.bound}
        line["difference"] = model.difference
        line |= {
            setting: summary(np.concatenate(parts)) for (name, setting), parts in times.items() if name == model.name
        }
        lines.append(line | {"within": within(line)})
    return lines


def within(line: dict[str, Any]) -> str:
    """Whether the latency is within the bound, by its intervals."""
    bound = line["bound"]
    if bound is None:
        return "no bound"
    intervals = [line[setting]["interval"] for setting in COLUMNS]
    if any(low > bound for low, _ in intervals):
        return "no"
    return "yes" if all(high <= bound for _, high in intervals) else "cannot tell"


def as_markdown(lines: list[dict[str, Any]], made_with: str) -> str:
    """The page."""
    titles = ["calibrator", "bound", *COLUMNS, "within"]
    rows = [table_head(titles, len(titles))]
    for line in lines:
        cells = []
        for part in (line.get(column) for column in COLUMNS):
            numbers = (part["added"], *part["interval"]) if part else ()
            cells.append("{:+.1%} ({:+.1%} to {:+.1%})".format(*numbers) if part else "")
        bound = f"{line['bound']:.0%}" if line["bound"] else "none"
        rows.append(table_row([", ".join([line["calibrator"], *line["alike"]]), bound, *cells, line["within"]]))
    body = "\n".join(rows)
    settings = "; ".join(
        f"{setting}: {1e3 * np.median([line[setting]['plain'] for line in lines]):.1f} ms, {openings} × {rounds} pairs of runs each"
        for setting, (_, _, openings, rounds) in SETTINGS.items()
    )
    return (
        f"# Latency of exported calibrators\n\nMade by `python -m benchmarks.speed.export_latency`; {made_with}.\n"
        f"Added to the plain model's latency, with 95 % intervals. The plain model takes, {settings}.\n\n{body}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=20_000, help="tuning samples")
    parser.add_argument("--calibrators", nargs="+", default=[*CALIBRATORS, *VARIANTS], metavar="NAME")
    parser.add_argument("--folder", type=Path, help="keeps calibrated models for the next run")
    parser.add_argument("--prepare", action="store_true", help="only make the calibrated models")
    parser.add_argument("--dry-run", action="store_true", help="print the page instead of writing it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        exported = export_models(arguments.calibrators, arguments.samples, arguments.folder or Path(spare))
        if arguments.prepare:
            return
        lines = measure([ExportedModel(CONTROL, exported[0].path, 0.0), *exported])
    made_with = f"onnxruntime {version('onnxruntime')}, {machine()}"
    print(as_markdown(lines, made_with))
    if not arguments.dry_run:
        folder = Path(__file__).parent
        write_page(folder / "export_latency.md", as_markdown(lines, made_with))
        (folder / "export_latency.json").write_text(json.dumps({"where": made_with, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
