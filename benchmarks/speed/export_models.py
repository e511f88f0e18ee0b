"""MobileNetV2 with every calibrator that has an ONNX form appended to it: the files whose latency is measured.

Tuned on 20,000 random rows of 1,000 classes. DAC and DAC-PTS read the ends of the model's last three stages, 96, 160 and 320
channels, and compare with 3,000 training rows; MD-TS reads the 1,280 features that are classified, as its authors do.

Three calibrators are measured in a second, dearer form: MD-TS that reads the three stages, beta calibration with three numbers a
class, which its default gives to a class with 100 rows of its own, and Dirichlet calibration with a matrix, which its default
gives to 1,000 classes from a million tuning rows on. That one's million numbers take long to tune and are made up, on the grid
of a fit: latency does not depend on their values.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, load, numpy_helper

from benchmarks.speed.mobilenet_onnx import CLASSES, mobilenet
from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.calibrators.scaling.dirichlet import to_grid
from driftcal.export import append_to_onnx
from driftcal.export.onnx.graph import OUTPUTS

#: Layers that calibrators look at, and training rows that they compare with.
STAGES, REFERENCE = 3, 3_000
#: Isotonic and binned ones, and the spline, which is read from a table just as these are.
TABLES = {"ts-ir", "ir", "irm", "hb", "pbmc", "spline", "ladder-irm"}
#: Dearer forms of three calibrators.
MATRIX, STAGED, FREE = "dirichlet, matrix", "md-ts, three stages", "beta, three numbers"
VARIANTS = {MATRIX: "dirichlet", STAGED: "md-ts", FREE: "beta"}
#: The first model, whose switch stays off: what is measured of it is noise.
CONTROL = "nothing"
#: The file of the model without calibration, beside the others.
NETWORK = "net.onnx"
#: How the names of the calibration's operators and constants begin; the network's do not.
OWN = ("driftcal/", *OUTPUTS)
#: No bound: calibrators that keep training rows are neither parametric nor binned.
UNBOUNDED = {CONTROL, "dac", "dac-pts"}


@dataclass(frozen=True)
class Exported:
    """A calibrated model; `alike` are other calibrators with the very same graph but for its numbers."""

    name: str
    path: Path
    difference: float
    alike: tuple[str, ...] = ()

    @property
    def bound(self) -> float | None:
        """What it may add to the latency."""
        return None if self.name in UNBOUNDED else 0.05 if self.name in TABLES else 0.02


def make(names: list[str], rows: int, folder: Path) -> list[Exported]:
    """The calibrated models, files in `folder`; what lies there already is taken as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    plain, found = folder / NETWORK, {}
    layers, data = mobilenet(plain), _tuning_data(rows)
    for name in names:
        path, note = folder / f"{name}.onnx", folder / f"{name}.json"
        if not note.exists():
            started = time.perf_counter()
            inside = _inside(name, layers)
            export = append_to_onnx(
                plain, fitted(name, *data, list(inside.values())), path, layers=list(inside) or None
            )
            note.write_text(json.dumps({"difference": export.difference}))
            print(f"{name}: tuned and appended in {time.perf_counter() - started:.0f} s", flush=True)
        export = Exported(name, path, json.loads(note.read_text())["difference"])
        form = _form(path)
        first = found.get(form, export)
        found[form] = Exported(
            first.name, first.path, first.difference, (*first.alike, name) if first is not export else ()
        )
    return list(found.values())


def with_switch(path: Path) -> bytes:
    """The calibrated model with the calibration's operators behind an input "switch": without them, their outputs are empty."""
    model = load(path)
    graph, outputs = model.graph, {value.name: value for value in model.graph.output}
    own = [node for node in graph.node if node.name.startswith(OWN)]
    names = [name for name in OUTPUTS if any(name in node.output for node in own)]
    then = helper.make_graph(
        own, "on", [], [outputs[name] for name in names], [part for part in graph.initializer if part.name.startswith(OWN)]
    )  # fmt: skip
    empty = []
    for name in names:
        kind = helper.tensor_dtype_to_np_dtype(outputs[name].type.tensor_type.elem_type)
        rank = len(outputs[name].type.tensor_type.shape.dim)
        nothing = numpy_helper.from_array(np.empty([0] * rank, kind))
        empty.append(helper.make_node("Constant", [], [f"no_{name}"], value=nothing))
    off = [helper.make_tensor_value_info(f"no_{n}", outputs[n].type.tensor_type.elem_type, None) for n in names]
    switch = helper.make_node(
        "If", ["switch"], [f"if_{name}" for name in names],
        then_branch=then, else_branch=helper.make_graph(empty, "off", [], off),
    )  # fmt: skip
    inputs = [*graph.input, helper.make_tensor_value_info("switch", TensorProto.BOOL, [])]
    kept = [value for name, value in outputs.items() if name not in names]
    ends = [helper.make_tensor_value_info(f"if_{n}", outputs[n].type.tensor_type.elem_type, None) for n in names]
    nodes, weights = _network(graph)
    return _written(model, [*nodes, switch], inputs, [*kept, *ends], weights)


def apart(path: Path) -> tuple[bytes, bytes, dict[str, np.ndarray]]:
    """A model of the calibration's operators alone, one that only hands on logits, and what the network gives both for an image."""
    model = load(path)
    graph, info = model.graph, helper.make_tensor_value_info
    own = [node for node in graph.node if node.name.startswith(OWN)]
    constants = [part for part in graph.initializer if part.name.startswith(OWN)]
    known = {part.name for part in constants} | {name for node in own for name in node.output}
    read = sorted({name for node in own for name in node.input} - known)
    nodes, weights = _network(graph)
    ends = [info(name, TensorProto.FLOAT, None) for name in read]
    network = onnxruntime.InferenceSession(_written(model, nodes, list(graph.input), ends, weights))
    values = network.run(read, {"x": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)})
    given = {"given" if name == "logits" else name: value for name, value in zip(read, values, strict=True)}
    inputs = [info(name, TensorProto.FLOAT, value.shape) for name, value in given.items()]
    hand_on = helper.make_node("Identity", ["given"], ["logits"])
    logits = [value for value in graph.output if value.name == "logits"]
    calibration = _written(model, [hand_on, *own], inputs, list(graph.output), constants)
    return calibration, _written(model, [hand_on], inputs, logits, []), given


def _network(graph: Any) -> tuple[list[Any], list[Any]]:
    """The operators and weights that are not the calibration's."""
    nodes = [node for node in graph.node if not node.name.startswith(OWN)]
    return nodes, [part for part in graph.initializer if not part.name.startswith(OWN)]


def _written(model: Any, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any]) -> bytes:
    """Another graph as a model like this one."""
    graph = helper.make_graph(nodes, model.graph.name, inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    written: bytes = made.SerializeToString()
    return written


def _inside(name: str, layers: dict[str, int]) -> dict[str, int]:
    """Those of the model's layers that a calibrator looks at."""
    *stages, classified = layers.items()
    if not CALIBRATORS[VARIANTS.get(name, name)].needs_features:
        return {}
    return dict([classified] if name == "md-ts" else stages[-STAGES:])


def fitted(name: str, logits: np.ndarray, labels: np.ndarray, widths: list[int]) -> Calibrator:
    """The calibrator, tuned on three levels where it needs them, and on random features where it looks at layers so wide."""
    rows, kind, beside = len(logits), VARIANTS.get(name, name), {}
    if name == MATRIX:
        calibrator: Any = make_calibrator(kind)
        mixing = 1e-3 * np.random.default_rng(3).normal(size=(CLASSES, CLASSES))
        calibrator.matrix_ = to_grid(0.6 * np.eye(CLASSES) + mixing)
        calibrator.intercepts_ = np.linspace(-1, 1, CLASSES)
        calibrator.classes_, calibrator.n_features_in_ = np.arange(CLASSES), CLASSES
        return calibrator
    if CALIBRATORS[kind].needs_levels:
        beside["levels"] = np.arange(rows) % 3
    if CALIBRATORS[kind].needs_features:
        rng = np.random.default_rng(2)
        beside["features"] = [rng.normal(size=(rows, width)) for width in widths]
        if CALIBRATORS[kind].needs_reference:
            beside["reference"] = [rng.normal(size=(REFERENCE, width)) for width in widths]
    params: dict[str, Any] = {"tied_below": 1} if name == FREE else {}
    return make_calibrator(kind, **params).fit(logits, labels, **beside)


def _tuning_data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(rows, CLASSES)).astype(np.float32)
    return logits, np.argmax(0.7 * logits + rng.gumbel(size=logits.shape), axis=1)


def _form(path: Path) -> str:
    """Operators and the shapes of constants: two graphs that agree in these take the same time."""
    graph = load(path).graph
    nodes = [(node.op_type, *node.input, *node.output) for node in graph.node]
    return str((nodes, [(item.name, item.data_type, *item.dims) for item in graph.initializer]))
