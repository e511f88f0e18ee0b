"""MobileNetV2 with a calibrator appended to it, for every calibrator that has an ONNX form.

Calibrators are tuned on 20,000 random samples of 1,000 classes. DAC and DAC-PTS read the ends of the model's last three stages,
96, 160 and 320 channels, and compare with 3,000 training samples; MD-TS reads the 1,280 features before the classifier, as its
authors do.

Three calibrators have a second, more expensive variant: MD-TS that reads the three stages, beta calibration with three parameters
per class, which is its default for a class with 100 samples, and Dirichlet calibration with a matrix, which is its default for
1,000 classes from a million tuning samples on. Tuning that matrix takes long, so its numbers are random: latency does not depend on their values.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, load, numpy_helper

from benchmarks.speed.mobilenet_onnx import CLASSES, mobilenet
from driftcal.calibrators import CALIBRATORS, Calibrator, WindowedCalibrator, make_calibrator
from driftcal.export import append_to_onnx
from driftcal.export.onnx.calibration import OUTPUTS

#: Layers that calibrators read, and training samples that they compare with.
N_STAGES, N_REFERENCE = 3, 3_000
#: Isotonic and binned calibrators, and the spline, which is read from a table like these.
TABLE_CALIBRATORS = {"ts-ir", "ir", "irm", "hb", "pbmc", "spline"}
#: Variant -> calibrator.
MATRIX, THREE_STAGES, THREE_PARAMETERS = "dirichlet, matrix", "md-ts, three stages", "beta, three numbers"
VARIANTS = {MATRIX: "dirichlet", THREE_STAGES: "md-ts", THREE_PARAMETERS: "beta"}
#: The model whose switch stays off.
CONTROL = "nothing"
#: The file of the model without calibration.
NETWORK = "net.onnx"
#: Prefixes of the names of the calibration's operators and constants.
CALIBRATION_PREFIXES = ("driftcal/", *OUTPUTS)
#: Calibrators without a bound: those that keep training samples are neither parametric nor binned.
UNBOUNDED = {CONTROL, "dac", "dac-pts"}


@dataclass(frozen=True)
class ExportedModel:
    """A calibrated model. `same_graph` are other calibrators whose graphs differ in their numbers only."""

    name: str
    path: Path
    difference: float
    same_graph: tuple[str, ...] = ()

    @property
    def bound(self) -> float | None:
        """The share of the latency that it may add."""
        return None if self.name in UNBOUNDED else 0.05 if self.name in TABLE_CALIBRATORS else 0.02


def export_models(names: list[str], n_samples: int, folder: Path) -> list[ExportedModel]:
    """The calibrated models as files in `folder`; files that exist are used again."""
    folder.mkdir(parents=True, exist_ok=True)
    plain, by_form = folder / NETWORK, {}
    layers, data = mobilenet(plain), _tuning_samples(n_samples)
    for name in names:
        path, metadata = folder / f"{name}.onnx", folder / f"{name}.json"
        if not metadata.exists():
            start = time.perf_counter()
            widths = _layers_read(name, layers)
            export = append_to_onnx(
                plain, fitted(name, *data, list(widths.values())), path, layers=list(widths) or None
            )
            metadata.write_text(json.dumps({"difference": export.difference}))
            print(f"{name}: tuned and appended in {time.perf_counter() - start:.0f} s", flush=True)
        form = _graph_form(path)
        if form in by_form:
            by_form[form] = replace(by_form[form], same_graph=(*by_form[form].same_graph, name))
        else:
            by_form[form] = ExportedModel(name, path, json.loads(metadata.read_text())["difference"])
    return list(by_form.values())


def with_switch(path: Path) -> bytes:
    """The calibrated model with the calibration's operators behind an input "switch"; if it is off, their outputs are empty."""
    model = load(path)
    graph, outputs = model.graph, {value.name: value for value in model.graph.output}
    own = [node for node in graph.node if node.name.startswith(CALIBRATION_PREFIXES)]
    names = [name for name in OUTPUTS if any(name in node.output for node in own)]
    then = helper.make_graph(
        own, "on", [], [outputs[name] for name in names], [part for part in graph.initializer if part.name.startswith(CALIBRATION_PREFIXES)]
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
    return _serialized(model, [*nodes, switch], inputs, [*kept, *ends], weights)


def calibration_alone(path: Path) -> tuple[bytes, bytes, dict[str, np.ndarray]]:
    """A model of the calibration's operators, a model that only returns logits, and the network's outputs for an image."""
    model = load(path)
    graph, info = model.graph, helper.make_tensor_value_info
    own = [node for node in graph.node if node.name.startswith(CALIBRATION_PREFIXES)]
    constants = [part for part in graph.initializer if part.name.startswith(CALIBRATION_PREFIXES)]
    computed = {part.name for part in constants} | {name for node in own for name in node.output}
    read = sorted({name for node in own for name in node.input} - computed)
    nodes, weights = _network(graph)
    ends = [info(name, TensorProto.FLOAT, None) for name in read]
    network = onnxruntime.InferenceSession(_serialized(model, nodes, list(graph.input), ends, weights))
    values = network.run(read, {"x": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)})
    outputs = {"raw_logits" if name == "logits" else name: value for name, value in zip(read, values, strict=True)}
    inputs = [info(name, TensorProto.FLOAT, value.shape) for name, value in outputs.items()]
    identity = helper.make_node("Identity", ["raw_logits"], ["logits"])
    logits = [value for value in graph.output if value.name == "logits"]
    calibration = _serialized(model, [identity, *own], inputs, list(graph.output), constants)
    return calibration, _serialized(model, [identity], inputs, logits, []), outputs


def _network(graph: Any) -> tuple[list[Any], list[Any]]:
    """The operators and weights that are not the calibration's."""
    nodes = [node for node in graph.node if not node.name.startswith(CALIBRATION_PREFIXES)]
    return nodes, [part for part in graph.initializer if not part.name.startswith(CALIBRATION_PREFIXES)]


def _serialized(model: Any, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: list[Any]) -> bytes:
    """A model with another graph and the same versions."""
    graph = helper.make_graph(nodes, model.graph.name, inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    data: bytes = made.SerializeToString()
    return data


def _layers_read(name: str, layers: dict[str, int]) -> dict[str, int]:
    """The layers that a calibrator reads, with their widths."""
    *stages, before_classifier = layers.items()
    if not CALIBRATORS[VARIANTS.get(name, name)].needs_features:
        return {}
    return dict([before_classifier] if name == "md-ts" else stages[-N_STAGES:])


def fitted(name: str, logits: np.ndarray, labels: np.ndarray, widths: list[int]) -> Calibrator:
    """The tuned calibrator, with three levels if it needs levels, and random features of these widths if it needs features."""
    n_samples, kind, extra_inputs = len(logits), VARIANTS.get(name, name), {}
    if name == MATRIX:
        calibrator: Any = make_calibrator(kind)
        mixing = 1e-3 * np.random.default_rng(3).normal(size=(CLASSES, CLASSES))
        calibrator.matrix_ = 0.6 * np.eye(CLASSES) + mixing
        calibrator.intercepts_ = np.linspace(-1, 1, CLASSES)
        calibrator.classes_, calibrator.n_features_in_ = np.arange(CLASSES), CLASSES
        calibrator.score_type_ = "logits"
        return calibrator
    if CALIBRATORS[kind].needs_levels:
        extra_inputs["levels"] = np.arange(n_samples) % 3
    if CALIBRATORS[kind].needs_features:
        rng = np.random.default_rng(2)
        extra_inputs["features"] = [rng.normal(size=(n_samples, width)) for width in widths]
        if CALIBRATORS[kind].needs_reference:
            extra_inputs["reference"] = [rng.normal(size=(N_REFERENCE, width)) for width in widths]
    params: dict[str, Any] = {"tied_below": 1} if name == THREE_PARAMETERS else {}
    tuned = make_calibrator(kind, **params).fit(logits, labels, **extra_inputs)
    return tuned.per_sample() if isinstance(tuned, WindowedCalibrator) else tuned


def _tuning_samples(n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(n_samples, CLASSES)).astype(np.float32)
    return logits, np.argmax(0.7 * logits + rng.gumbel(size=logits.shape), axis=1)


def _graph_form(path: Path) -> str:
    """The operators and the shapes of constants: graphs that agree in these take the same time."""
    graph = load(path).graph
    nodes = [(node.op_type, *node.input, *node.output) for node in graph.node]
    return str((nodes, [(item.name, item.data_type, *item.dims) for item in graph.initializer]))
