"""What calibration adds to the latency of a MobileNetV2-sized ONNX model with 1,000 classes, at batch 1 and 64.

    python -m benchmarks.speed.export

The net has MobileNetV2's layers and random weights: latency does not depend on their values. Each calibrator is appended to
it. "end to end" is what a caller sees: both models in turn on the same inputs, the median over rounds of
(calibrated − plain) / plain. Where a model's weights happen to lie in memory moves its latency by up to 2 %, so both are
opened anew several times: the figure is the median over these openings, the range beside it their least and most.
With 64 images a run takes so long that other work on the machine hides a percent; there "share" is exact: what
onnxruntime's own clock gives the calibration's operators of a run, over the rest of the same run. (With one image its
clock would take longer than the operators.)
Bounds: 2 % for parametric calibrators, 5 % for isotonic and binned ones. Those that look inside the model
(``--calibrators dac,dac-pts,md-ts --dry``) have none: they read the ends of its last three stages, 96, 160 and 320 channels,
and compare them with 3,000 training rows.

Writes EXPORT.md and export.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, save

from benchmarks.speed.measure import machine
from driftcal.calibrators import CALIBRATORS, PAPER_CALIBRATORS, make_calibrator
from driftcal.deploy import append_to_onnx
from driftcal.deploy.onnx_graph import OUTPUTS

CLASSES = 1_000
PARAMETRIC = {"base", "ts", "ets", "ps"}
#: Rows, threads (0: all cores) and rounds after each opening.
SETTINGS = {"batch 1, one thread": (1, 1, 60), "batch 1, all cores": (1, 0, 60), "batch 64, all cores": (64, 0, 4)}
OPENINGS = {1: 7, 64: 3}
#: Layers that calibrators look at, and training rows that they compare with.
STAGES, REFERENCE = 3, 3_000
#: How the names of the calibration's operators begin; the network's have none.
OWN = ("driftcal/", *OUTPUTS)
#: MobileNetV2, table 2: expansion, channels, repeats, stride
BLOCKS = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]


class Net:
    """Convolutions with batch normalisation folded in, as an exported MobileNetV2 has them."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights = [numpy_helper.from_array(np.float32(bound), name) for name, bound in (("zero", 0), ("six", 6))]

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        spread = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        self.weights.append(numpy_helper.from_array(self.rng.normal(0, spread, shape).astype(np.float32), name))
        return name

    def conv(self, x: str, into: int, out: int, size: int, stride: int = 1, groups: int = 1, relu: bool = True) -> str:
        pad = [size // 2] * 4
        kernel = self.weight(out, into // groups, size, size)
        x = self.node("Conv", x, kernel, self.weight(out), pads=pad, strides=[stride] * 2, group=groups)
        return self.node("Clip", x, "zero", "six") if relu else x


def mobilenet(path: Path) -> list[str]:
    """MobileNetV2 for 224-pixel images, 3.5 million weights, into a file; the names of its stages' ends."""
    net, ends = Net(), []
    x, width = net.conv("x", 3, 32, 3, 2), 32
    for expansion, channels, repeats, first in BLOCKS:
        for stride in [first] + [1] * (repeats - 1):
            inner = width * expansion
            y = net.conv(x, width, inner, 1) if expansion > 1 else x
            y = net.conv(y, inner, inner, 3, stride, groups=inner)
            y = net.conv(y, inner, channels, 1, relu=False)
            x = net.node("Add", x, y) if stride == 1 and width == channels else y
            width = channels
        ends.append(x)
    x = net.node("Flatten", net.node("GlobalAveragePool", net.conv(x, width, 1280, 1)))
    net.nodes.append(helper.make_node("Gemm", [x, net.weight(1280, CLASSES), net.weight(CLASSES)], ["logits"]))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        net.nodes,
        "mobilenet_v2",
        [info("x", TensorProto.FLOAT, ["n", 3, 224, 224])],
        [info("logits", TensorProto.FLOAT, ["n", CLASSES])],
        net.weights,
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return ends


def session(model: str, threads: int, profile: Path | None = None) -> Any:
    """Idle threads sleep, or those of one model would disturb the other."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options)


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def shares(path: Path, threads: int, x: np.ndarray, rounds: int, folder: Path) -> list[float]:
    """What the calibration's operators took of each run, over what the model's own took."""
    clocked = session(str(path), threads, folder / "profile")
    for _ in range(rounds + 1):
        clocked.run(None, {"x": x})
    events = json.loads(Path(clocked.end_profiling()).read_text())
    whole = [event for event in events if event["name"] == "model_run"][1:]  # the first warms up
    own = [event for event in events if event["name"].startswith(OWN) and event["name"].endswith("_kernel_time")]
    found = []
    for run in whole:
        inside = sum(event["dur"] for event in own if run["ts"] <= event["ts"] < run["ts"] + run["dur"])
        found.append(inside / (run["dur"] - inside))
    return found


def latency(path: Path, calibrated: Path, threads: int, x: np.ndarray, rounds: int) -> tuple[float, float]:
    """Seconds of the plain model, and what the calibrated one takes longer, as a share: medians over rounds."""
    models = [session(str(model), threads) for model in (path, calibrated)]
    for _ in range(2):
        for model in models:
            model.run(None, {"x": x})
    times = np.empty((rounds, 2))
    for i in range(rounds):
        for k in (0, 1) if i % 2 else (1, 0):  # whoever comes first may find a cooler machine
            times[i, k] = seconds(lambda model=models[k]: model.run(None, {"x": x}))
    plain = float(np.median(times[:, 0]))
    return plain, float(np.median(times[:, 1] - times[:, 0])) / plain


def beside(name: str, rows: int) -> dict[str, Any]:
    """Features of tuning rows and of training rows: latency does not depend on their values."""
    rng, widths = np.random.default_rng(2), [channels for _, channels, *_ in BLOCKS[-STAGES:]]
    features, reference = ([rng.normal(size=(n, width)) for width in widths] for n in (rows, REFERENCE))
    return {"features": features, **({"reference": reference} if CALIBRATORS[name].needs_reference else {})}


def measure(rows: int, calibrators: list[str], folder: Path) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(rows, CLASSES)).astype(np.float32)
    labels = np.argmax(0.7 * logits + rng.gumbel(size=logits.shape), axis=1)
    path, found = folder / "net.onnx", []
    layers = mobilenet(path)[-STAGES:]
    for name in calibrators:
        inside = CALIBRATORS[name].needs_features
        calibrator = make_calibrator(name).fit(logits, labels, **(beside(name, rows) if inside else {}))
        export = append_to_onnx(path, calibrator, folder / f"{name}.onnx", layers=layers if inside else None)
        bound = None if inside else 0.02 if name in PARAMETRIC else 0.05
        line = {"calibrator": name, "bound": bound, "difference": export.difference}
        for setting, (batch, threads, rounds) in SETTINGS.items():
            x = rng.random((batch, 3, 224, 224), np.float32)
            plain, extra = zip(
                *(latency(path, export.path, threads, x, rounds) for _ in range(OPENINGS[batch])), strict=True
            )
            line[setting] = {
                "plain_ms": 1e3 * statistics.median(plain),
                "added": statistics.median(extra),
                "interval": [min(extra), max(extra)],
                "share": statistics.median(shares(export.path, threads, x, rounds, folder)) if batch > 1 else None,
            }
        print(line, flush=True)
        found.append(line)
    return found


def added(part: dict[str, Any]) -> str:
    low, high = part["interval"]
    return f"{part['added']:+.1%} ({low:+.1%} to {high:+.1%})"


def table(lines: list[dict[str, Any]], where: str) -> str:
    head = ["calibrator", "bound"]
    for setting, (batch, *_) in SETTINGS.items():
        head += [f"{setting}: net", *(["share"] if batch > 1 else []), "end to end"]
    rows = [head, ["---"] * len(head)]
    for line in lines:
        cells = [line["calibrator"], f"{line['bound']:.0%}" if line["bound"] else "none"]
        for setting in SETTINGS:
            part = line[setting]
            cells += [f"{part['plain_ms']:.1f} ms", *([f"{part['share']:.1%}"] if part["share"] else []), added(part)]
        rows.append(cells)
    body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"# Latency of exported calibrators\n\nMade by `python -m benchmarks.speed.export`; {where}.\n\n{body}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000, help="tuning rows")
    parser.add_argument("--calibrators", default=",".join(PAPER_CALIBRATORS))
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = measure(given.rows, given.calibrators.split(","), Path(folder))
    where = f"onnxruntime {version('onnxruntime')}, {machine()}"
    print(table(lines, where))
    if not given.dry:
        here = Path(__file__).parent
        (here / "EXPORT.md").write_text(table(lines, where))
        (here / "export.json").write_text(json.dumps({"where": where, "lines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
