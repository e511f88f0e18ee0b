"""What calibration adds to the latency of a MobileNetV2-sized ONNX model with 1,000 classes, at batch 1 and 64.

    python -m benchmarks.speed.export --folder FOLDER --prepare
    python -m benchmarks.speed.export --folder FOLDER

The first line tunes the calibrators and appends each to the model, some minutes (anew only in a new FOLDER); the second measures. What is
compared is what a caller sees: whole runs of the calibrated model and of the plain one, in turn on the same input. Between two
runs of the plain model run three calibrated ones, in an order that is drawn anew each round; each is compared with the mean
of the two. The figure is the median over all rounds of (calibrated − plain) / plain. One of the "calibrated" models is the plain
one again: its figure shows how far noise goes.

Where weights happen to lie in memory moves latency by up to 2 %, so all models are opened anew again and again. All live
in one arena, so that their activations, hundreds of megabytes with 64 images, lie in the same memory. A single image
comes after another one, as in a service, so that the model's weights are as warm as they get. The interval is 95 % of
the medians of 2,000 bootstrap samples of openings and of rounds within them. "within" is read from it: yes if it lies
below the bound in all settings, no if above it in any, and otherwise cannot tell. "share" is a check for 64 images: what onnxruntime's own
clock gives the calibration's operators of a run, over the rest of it. (With one image the clock takes longer than they.)

Bounds: 2 % for parametric calibrators, 5 % for isotonic and binned ones. Writes EXPORT.md and export.json beside this file;
EXPORT.md keeps what is written below its table.
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

from benchmarks.speed.exported import CONTROL, Exported, make
from benchmarks.speed.measure import machine
from driftcal.calibrators import CALIBRATORS
from driftcal.deploy.onnx_graph import OUTPUTS

#: Rows, threads (0: all cores), rounds after each opening, timed runs of a model in a round, and the part of the time.
SETTINGS = {
    "batch 1, one thread": (1, 1, 6, 3, 0.15),
    "batch 1, all cores": (1, 0, 6, 3, 0.15),
    "batch 64, all cores": (64, 0, 5, 1, 0.7),
}
#: Calibrated models between two runs of the plain one.
BETWEEN = 3
#: How the names of the calibration's operators begin; the network's have none.
OWN = ("driftcal/", *OUTPUTS)
SAMPLES = 2_000
#: With fewer openings a bootstrap of them is too narrow to say anything.
ENOUGH = 5
HERE = Path(__file__).parent


def share_one_arena() -> None:
    """Memory that all sessions of this process take turns in."""
    kind = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    onnxruntime.create_and_register_allocator(kind, onnxruntime.OrtArenaCfg(0, -1, -1, -1))


def session(model: Path, threads: int, profile: Path | None = None) -> Any:
    """Idle threads sleep, or those of one model would disturb the other."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.use_env_allocators", "1")
    return onnxruntime.InferenceSession(str(model), options)


def opening(plain: Path, models: Sequence[Path], setting: str, rng: np.random.Generator) -> tuple[list[float], Any]:
    """Milliseconds of the plain model, and what each other one takes longer as a share, (rounds, models), after one opening."""
    batch, threads, rounds, repeats, _ = SETTINGS[setting]
    x = rng.random((batch, 3, 224, 224), np.float32)
    files = [plain, *models]
    sessions: list[Any] = [None] * len(files)
    for k in rng.permutation(len(files)):
        sessions[k] = session(files[k], threads)
    for _ in range(2):  # the second run is the first with its final plan of memory
        for k in rng.permutation(len(files)):
            sessions[k].run(None, {"x": x})

    def seconds(k: int) -> float:
        if batch == 1:
            sessions[k].run(None, {"x": x})  # the weights of this model replace the last one's in the caches
        taken = []
        for _ in range(repeats):
            started = time.perf_counter()
            sessions[k].run(None, {"x": x})
            taken.append(time.perf_counter() - started)
        return float(np.median(taken))

    bases, added = [seconds(0)], np.empty((rounds, len(models)))
    for i in range(rounds):
        order = rng.permutation(len(models))
        for low in range(0, len(order), BETWEEN):
            part = order[low : low + BETWEEN]
            taken = [seconds(k + 1) for k in part]
            bases.append(seconds(0))
            added[i, part] = np.array(taken) / np.mean(bases[-2:]) - 1
    return [1e3 * base for base in bases], added


def summary(openings: Sequence[np.ndarray]) -> dict[str, Any]:
    """The median over rounds, and 95 % of the medians of bootstrap samples of openings and rounds."""
    rounds, rng = np.array(openings), np.random.default_rng(0)  # (openings, rounds)
    n, each = rounds.shape
    which = rng.integers(n, size=(SAMPLES, n, 1)), rng.integers(each, size=(SAMPLES, n, each))
    medians = np.median(rounds[which].reshape(SAMPLES, -1), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return {"added": float(np.median(rounds)), "interval": [float(low), float(high)]}


def share(path: Path, threads: int, batch: int) -> float:
    """What the calibration's operators take of a run, over what the model's own take: the median over three runs."""
    with tempfile.TemporaryDirectory() as folder:
        clocked = session(path, threads, Path(folder) / "profile")
        x = np.random.default_rng(0).random((batch, 3, 224, 224), np.float32)
        for _ in range(4):
            clocked.run(None, {"x": x})
        events = json.loads(Path(clocked.end_profiling()).read_text())
    own = [event for event in events if event["name"].startswith(OWN) and event["name"].endswith("_kernel_time")]
    found = []
    for run in [event for event in events if event["name"] == "model_run"][1:]:  # the first warms up
        inside = sum(event["dur"] for event in own if run["ts"] <= event["ts"] < run["ts"] + run["dur"])
        found.append(inside / (run["dur"] - inside))
    return float(np.median(found))


def measure(plain: Path, exported: Sequence[Exported], minutes: float) -> list[dict[str, Any]]:
    """Openings of all settings in turn, until the time is up; a line of figures for each calibrator."""
    rng, started = np.random.default_rng(1), time.perf_counter()
    shares = {model.name: share(model.path, 0, 64) for model in exported}
    bases: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    added: dict[str, list[np.ndarray]] = {setting: [] for setting in SETTINGS}
    spent = dict.fromkeys(SETTINGS, 0.0)
    while True:
        setting = min(SETTINGS, key=lambda setting: spent[setting] / SETTINGS[setting][-1])
        before = time.perf_counter()
        own, more = opening(plain, [model.path for model in exported], setting, rng)
        bases[setting] += own
        added[setting].append(more)
        spent[setting] += time.perf_counter() - before
        passed = (time.perf_counter() - started) / 60
        middle = ", ".join(
            f"{name} {value:+.1%}" for name, value in zip((m.name for m in exported), np.median(more, 0), strict=True)
        )
        print(f"{passed:.1f} of {minutes:g} min, {setting}, net {np.median(own):.1f} ms: {middle}", flush=True)
        if passed >= minutes and all(added.values()):
            break
    lines = []
    for k, model in enumerate(exported):
        line: dict[str, Any] = {"calibrator": model.name, "alike": model.alike, "bound": model.bound}
        line |= {"difference": model.difference, "share": shares[model.name]}
        for setting in SETTINGS:
            line[setting] = summary([more[:, k] for more in added[setting]])
            line[setting] |= {"plain_ms": float(np.median(bases[setting])), "openings": len(added[setting])}
        line["within"] = within(line)
        lines.append(line)
    return lines


def within(line: dict[str, Any]) -> str:
    """Whether the figures lie within the bound, as far as their intervals can tell."""
    bound, intervals = line["bound"], [line[setting]["interval"] for setting in SETTINGS]
    if bound is None:
        return "no bound"
    if any(line[setting]["openings"] < ENOUGH for setting in SETTINGS):
        return "cannot tell"
    if any(low > bound for low, _ in intervals):
        return "no"
    return "yes" if all(high <= bound for _, high in intervals) else "cannot tell"


def table(lines: list[dict[str, Any]], where: str) -> str:
    """The lines as EXPORT.md shows them."""
    rows = [["calibrator", "bound", *SETTINGS, "share at 64", "within"]]
    rows.append(["---"] * len(rows[0]))
    for line in lines:
        parts = [line[setting] for setting in SETTINGS]
        ends = [(part["added"], *part["interval"]) for part in parts]
        cells = [f"{middle:+.1%} ({low:+.1%} to {high:+.1%})" for middle, low, high in ends]
        bound = f"{line['bound']:.0%}" if line["bound"] else "none"
        rows.append(
            [", ".join([line["calibrator"], *line["alike"]]), bound, *cells, f"{line['share']:.1%}", line["within"]]
        )
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    first = lines[0]
    nets = "; ".join(
        f"{setting}: {first[setting]['plain_ms']:.1f} ms, {first[setting]['openings']} openings of {SETTINGS[setting][2]} rounds"
        for setting in SETTINGS
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
    parser.add_argument("--minutes", type=float, default=15, help="how long to measure")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as spare:
        plain, exported = make(given.calibrators.split(","), given.rows, given.folder or Path(spare))
        if given.prepare:
            return
        share_one_arena()
        lines = measure(plain, [Exported(CONTROL, plain, 0.0), *exported], given.minutes)
    where = f"onnxruntime {version('onnxruntime')}, {machine()}"
    print(table(lines, where))
    if not given.dry:
        kept = (HERE / "EXPORT.md").read_text().split("\n## ", 1)[1:]
        (HERE / "EXPORT.md").write_text("\n## ".join([table(lines, where), *kept]))
        (HERE / "export.json").write_text(json.dumps({"where": where, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
