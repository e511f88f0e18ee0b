"""A calibrator alone as an ONNX model, and the proof every export ends with: the same numbers, or no file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from driftcal._version import __version__
from driftcal.calibrators import CALIBRATORS, Calibrator
from driftcal.errors import InputError, ModelError, need
from driftcal.export.maps import ExportMap, export_map_of
from driftcal.export.onnx.features import add_split
from driftcal.export.onnx.graph import OUTPUTS, add_calibration
from driftcal.export.onnx.nodes import Nodes
from driftcal.io.atomic import write_atomic
from driftcal.types import Array, Logits

#: The largest difference from the calibrator's own probabilities that an exported graph may show.
TOLERANCE = 1e-6
#: Opset and file version of a graph of its own: what onnxruntime has read since 2022.
OPSET, IR_VERSION = 17, 8

FloatName = Literal["float16", "float32", "float64"]
_TYPES = {"float16": 10, "float32": 1, "float64": 11}  # TensorProto.FLOAT16, FLOAT, DOUBLE


@dataclass(frozen=True)
class OnnxExport:
    """An exported graph and its proof: the largest difference in probability seen on so many probe rows.

    `outputs` are the names of probabilities, label and confidence in the graph; `path` is where it was written, if it was;
    `note` is what its user has to know, that an adaptive calibrator does not adapt there.
    """

    model: Any
    difference: float
    rows: int
    outputs: tuple[str, str, str] = OUTPUTS
    path: Path | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "path": None if self.path is None else str(self.path),
            "outputs": dict(zip(OUTPUTS, self.outputs, strict=True)),
            "max_difference": self.difference,
            "tolerance": TOLERANCE,
            "probe_rows": self.rows,
            "note": self.note or None,
        }


def to_onnx(
    calibrator: Calibrator, path: str | os.PathLike[str] | None = None, *, logits: FloatName = "float32"
) -> OnnxExport:
    """`calibrator` as an ONNX model from (n, classes) logits to `probabilities`, `label` and `confidence`.

    Inside all is float64, the input is what `logits` says. The label is a column number: the logits' argmax where the
    calibrator keeps accuracy. A calibrator that looks at a model's layers has a second input, `features`: float32 (n, F), layers
    side by side in the order of the fit, pooled to one vector each; their lengths do not matter. The graph is run on
    probe rows; if it differs by more than 1e-6 from the calibrator nothing is written.

    >>> from driftcal import TemperatureScaling
    >>> ts = TemperatureScaling().fit([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 1])
    >>> to_onnx(ts).difference < 1e-9
    True
    """
    onnx = need("onnx", "onnx")
    export_map = export_map_of(calibrator)
    if logits not in _TYPES:
        raise InputError(f"logits must be one of {', '.join(_TYPES)}; it is {logits!r}.")
    nodes = Nodes("driftcal/", OPSET)
    info = onnx.helper.make_tensor_value_info
    wide = nodes("Cast", "logits", to=_TYPES["float64"])
    inputs, layers = [info("logits", _TYPES[logits], ["n", export_map.n_classes])], []
    if export_map.widths:
        inputs.append(info("features", _TYPES["float32"], ["n", sum(export_map.widths)]))
        layers = add_split(nodes, nodes("Cast", "features", to=_TYPES["float64"]), export_map.widths)
    add_calibration(nodes, export_map, wide, features=layers)
    graph = onnx.helper.make_graph(
        nodes.nodes, "driftcal", inputs, output_infos(OUTPUTS, export_map.n_classes), nodes.initializers
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    describe(model, calibrator, export_map.note)
    onnx.checker.check_model(model)
    probe = probe_logits(export_map.n_classes).astype(logits)
    features = probe_features(export_map, len(probe))
    feed = {"logits": probe, **({"features": np.concatenate(features, axis=1)} if features else {})}
    found = open_session(model.SerializeToString()).run(list(OUTPUTS), feed)
    difference = prove(calibrator, probe, found, features)
    where = None if path is None else write_atomic(path, model.SerializeToString())
    return OnnxExport(model, difference, len(probe), path=where, note=export_map.note)


def output_infos(names: tuple[str, str, str], n_classes: int, batch: str | int = "n") -> list[Any]:
    """The declared types of probabilities, label and confidence."""
    info = need("onnx", "onnx").helper.make_tensor_value_info
    probabilities, label, confidence = names
    return [
        info(probabilities, _TYPES["float64"], [batch, n_classes]),
        info(label, 7, [batch]),  # TensorProto.INT64
        info(confidence, _TYPES["float64"], [batch]),
    ]


def describe(model: Any, calibrator: Calibrator, remark: str) -> None:
    """Write into the model what calibrated it, what its columns stand for, and the remark if there is one."""
    note = {
        "driftcal.version": __version__,
        "driftcal.calibrator": next(name for name, kind in CALIBRATORS.items() if kind is type(calibrator)),
        "driftcal.classes": json.dumps(calibrator.classes_.tolist(), ensure_ascii=False),
    }
    if remark:
        note["driftcal.note"] = remark
    kept = {entry.key: entry.value for entry in model.metadata_props if not entry.key.startswith("driftcal.")}
    need("onnx", "onnx").helper.set_model_props(model, {**kept, **note})


def open_session(content: bytes) -> Any:
    """An onnxruntime session on the CPU; what it refuses is a ModelError."""
    runtime = need("onnxruntime", "onnx")
    options = runtime.SessionOptions()
    # a proof is short: threads that wait for more must not burn a core
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # its warnings are about graph style, its errors come as exceptions anyway
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises classes of its own for every kind of damage
        raise ModelError(f"onnxruntime cannot open the calibrated model: {str(error).splitlines()[0][:400]}") from error


def probe_logits(n_classes: int) -> Logits:
    """Fixed logits that try a map hard: usual rows, sure rows, ties, ±1e4, scores that underflow, masked classes."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(256, n_classes)) * np.repeat([1, 3, 10, 100], 64)[:, None]
    rows[64:96] = np.round(rows[64:96])
    rows[192:224] = rng.uniform(-1e4, 1e4, size=(32, n_classes))
    rows[224:240] = rng.uniform(-800, 0, size=(16, n_classes))
    masked = rng.random((16, n_classes)) < 0.5
    masked[np.arange(16), rng.integers(n_classes, size=16)] = False
    rows[240:] = np.where(masked, -np.inf, rows[:16])
    rows[0], rows[255] = 0, -np.inf
    rows[255, -1] = 2
    probe: Logits = rows.astype(np.float32)
    return probe


def probe_features(export_map: ExportMap, n: int) -> list[Array]:
    """Fixed features of n rows for each layer of a recipe: usual ones, long and short ones, zeros, neighbours themselves."""
    rng, neighbours = np.random.default_rng(0), getattr(export_map.scores, "neighbours", None)
    found = []
    for k, width in enumerate(export_map.widths):
        rows = rng.normal(size=(n, width)) * np.repeat([1, 1e-30, 1e30, 1], -(-n // 4))[:n, None]
        rows[::3] = np.maximum(rows[::3], 0)  # as behind a ReLU
        rows[::17] = 0
        if neighbours is not None:
            rows[1::5] = neighbours.references[k][rng.integers(len(neighbours.references[k]), size=len(rows[1::5]))]
        found.append(rows.astype(np.float32))
    return found


def prove(calibrator: Calibrator, logits: Logits, found: list[Array], features: Sequence[Array] = ()) -> float:
    """The largest difference between what a graph answered to `logits` and the calibrator; raise above the tolerance.

    `features` are those of each layer, where the calibrator looks at them.
    """
    beside: dict[str, Any] = {"features": list(features)} if features else {}
    wanted, label = calibrator.predict_proba(logits, **beside), calibrator.predict(logits)
    rows = np.arange(len(wanted))
    difference = float(np.abs(found[0] - wanted).max(initial=0.0))
    difference = max(difference, float(np.abs(found[2] - found[0][rows, found[1]]).max(initial=0.0)))
    # two classes may be equally likely to the last bit but one
    lost = np.abs(wanted[rows, found[1]] - wanted.max(axis=1)) > TOLERANCE
    if calibrator.keeps_accuracy:
        lost = calibrator.classes_[found[1]] != label
    if not difference <= TOLERANCE or lost.any():
        raise ModelError(
            f"the exported graph must agree with the calibrator to {TOLERANCE:g}; on {len(rows)} probe rows the largest difference is "
            f"{difference:.3g} and {int(lost.sum())} labels differ. Nothing was written. Please report this calibrator."
        )
    return difference
