"""A calibrator alone as an ONNX model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from driftcal._version import __version__
from driftcal.calibrators import Calibrator, WindowedCalibrator, name_of
from driftcal.calibrators.export_maps.windowed_map import WindowedMap
from driftcal.calibrators.windowed.windowed_calibrator import WINDOW_SIZE
from driftcal.decisions import Threshold
from driftcal.errors import InputError, need
from driftcal.export.checked_map import export_map_of, windowed_map_of
from driftcal.export.onnx.calibration import ACCEPT, OUTPUTS, add_accept, add_calibration
from driftcal.export.onnx.maps.layer_pooling import add_split
from driftcal.export.onnx.maps.window_temperature import WINDOW_NAMES, add_windowed_calibration
from driftcal.export.onnx.nodes import BOOL, DOUBLE, FLOAT, FLOAT16, INT64, Nodes
from driftcal.export.onnx.verification import (
    TOLERANCE,
    open_session,
    probe_features,
    probe_logits,
    verify,
    verify_accept,
)
from driftcal.export.onnx.window_verification import probe_windows, verify_window
from driftcal.io.atomic import write_atomic

#: Opset and file version of the graph of a calibrator alone: onnxruntime reads them since 2022.
OPSET, IR_VERSION = 17, 8
#: The two forms of an exported calibrator: a map of each sample alone, and one that reads the sums of a window.
PER_SAMPLE, WINDOWED = "per-sample", "windowed"

FloatName = Literal["float16", "float32", "float64"]
_TYPES = {"float16": FLOAT16, "float32": FLOAT, "float64": DOUBLE}


@dataclass(frozen=True)
class OnnxExport:
    """An exported graph, and the largest difference from the calibrator's probabilities on `n_samples` probe samples.

    `calibrator` is the short name of the calibrator in the graph, and `form` says which form it has. `cross_validated_ece` is
    its ECE in domain and under shift with the name of that shift, if `tune` chose it. `outputs` are the names of probabilities, label and
    confidence in the graph. The windowed form has two more inputs, the previous sums of the window and the mask of the samples
    that count, and one more output, the sums of this batch: `window_names`. `accept` is the name of the output that a threshold
    adds. `path` is the written file, if there is one. `input` says what a model with its calibrator takes: preprocessing is not
    part of the graph.
    """

    model: Any = field(repr=False)
    difference: float
    n_samples: int
    calibrator: str
    outputs: tuple[str, str, str] = OUTPUTS
    path: Path | None = None
    cross_validated_ece: Mapping[str, Any] | None = None
    form: str = PER_SAMPLE
    window_names: tuple[str, str, str] | None = None
    accept: str | None = None
    input: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The export as JSON values, without the graph."""
        return {
            "path": None if self.path is None else str(self.path),
            "calibrator": self.calibrator,
            "form": self.form,
            **({} if self.input is None else {"input": self.input}),
            "cross_validated_ece": None if self.cross_validated_ece is None else dict(self.cross_validated_ece),
            "outputs": dict(zip(OUTPUTS, self.outputs, strict=True)) | ({ACCEPT: self.accept} if self.accept else {}),
            **({"window": dict(zip(WINDOW_NAMES, self.window_names, strict=True))} if self.window_names else {}),
            "max_difference": self.difference,
            "tolerance": TOLERANCE,
            "n_samples": self.n_samples,
        }


def to_onnx(
    calibrator: Calibrator,
    path: str | os.PathLike[str] | None = None,
    *,
    logits: FloatName = "float32",
    windowed: bool = False,
    threshold: Threshold | None = None,
) -> OnnxExport:
    """`calibrator` as an ONNX model from (n, classes) logits to `probabilities`, `label` and `confidence`.

    The graph computes in float64. The label is a column number: the argmax of the
    logits if the calibrator keeps the accuracy, otherwise that of the probabilities. A calibrator that reads layer
    features has a second input, `features`: float32 (n, F), layers side by side in the order of the fit, pooled to one
    vector each, of any length. The graph is run on probe samples. If it differs by more than 1e-6 from the calibrator,
    nothing is written.

    Parameters
    ----------
    calibrator
        A fitted calibrator.
    path
        The file to write. None: no file.
    logits
        The type of the graph's input.
    windowed
        Export a windowed calibrator in its windowed form. The graph has two more inputs: `window_sums`, float64 (k,), the sums
        over the previous samples of the window, and `sample_mask`, bool (n,), which samples count. It has one more output:
        `batch_sums`, float64 (k,), the sums over the samples of this batch that count. The caller keeps the window.
    threshold
        Add the output `accept`, bool (n,): whether the confidence reaches this threshold.

    >>> from driftcal import TemperatureScaling
    >>> ts = TemperatureScaling().fit([[2.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 1])
    >>> to_onnx(ts).difference < 1e-9
    True
    """
    onnx = need("onnx", "onnx")
    if logits not in _TYPES:
        raise InputError(f"logits must be one of {', '.join(_TYPES)}; it is {logits!r}.")
    if windowed:
        return _windowed_to_onnx(calibrator, path, logits, threshold)
    export_map = export_map_of(calibrator)
    nodes = Nodes("driftcal/", OPSET)
    info = onnx.helper.make_tensor_value_info
    float64_logits = nodes("Cast", "logits", to=DOUBLE)
    inputs, layers = [info("logits", _TYPES[logits], ["n", export_map.n_classes])], []
    if export_map.layer_widths:
        inputs.append(info("features", FLOAT, ["n", sum(export_map.layer_widths)]))
        layers = add_split(nodes, nodes("Cast", "features", to=DOUBLE), export_map.layer_widths)
    add_calibration(nodes, export_map, float64_logits, features=layers)
    outputs = output_infos(OUTPUTS, export_map.n_classes)
    accept = _add_accept(nodes, outputs, threshold)
    graph = onnx.helper.make_graph(nodes.nodes, "driftcal", inputs, outputs, nodes.initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    write_metadata(model, calibrator, threshold=threshold)
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    probe = probe_logits(export_map.n_classes).astype(logits)
    features = probe_features(export_map, len(probe))
    feed = {"logits": probe, **({"features": np.concatenate(features, axis=1)} if features else {})}
    values = open_session(content).run([*OUTPUTS, *accept], feed)
    difference = verify(calibrator, probe, values[:3], features)
    if threshold is not None:
        options: dict[str, Any] = {"features": features} if features else {}
        verify_accept(threshold, values[3], values[2], calibrator.predict_proba(probe, **options).max(axis=1))
    written = None if path is None else write_atomic(path, content)
    return OnnxExport(
        model, difference, len(probe), name_of(calibrator), path=written, accept=accept[0] if accept else None
    )


def _add_accept(nodes: Nodes, outputs: list[Any], threshold: Threshold | None) -> list[str]:
    """Add the output of a threshold to a calibrator alone; returns its name, or nothing without one."""
    if threshold is None:
        return []
    add_accept(nodes, threshold, OUTPUTS[2])
    outputs.append(accept_info(ACCEPT))
    return [ACCEPT]


def _windowed_to_onnx(
    calibrator: Calibrator, path: str | os.PathLike[str] | None, logits: FloatName, threshold: Threshold | None
) -> OnnxExport:
    onnx = need("onnx", "onnx")
    windowed_map = windowed_map_of(calibrator)
    n_classes, info = windowed_map.n_classes, onnx.helper.make_tensor_value_info
    nodes, (sums, mask, batch_sums) = Nodes("driftcal/", OPSET), WINDOW_NAMES
    add_windowed_calibration(
        nodes, windowed_map, nodes("Cast", "logits", to=DOUBLE), (sums, mask), (*OUTPUTS, batch_sums)
    )
    inputs = [info("logits", _TYPES[logits], ["n", n_classes]), *window_infos(windowed_map, (sums, mask), "n")]
    outputs = [*output_infos(OUTPUTS, n_classes), sums_info(windowed_map, batch_sums)]
    accept = _add_accept(nodes, outputs, threshold)
    graph = onnx.helper.make_graph(nodes.nodes, "driftcal", inputs, outputs, nodes.initializers)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    write_metadata(model, calibrator, threshold=threshold)
    onnx.checker.check_model(model)
    content = model.SerializeToString()
    session = open_session(content)
    difference, n_samples = 0.0, 0
    for window in probe_windows(calibrator, probe_logits(n_classes).astype(logits)):
        feed = {"logits": window.logits, sums: window.previous, mask: window.mask}
        values = session.run([*OUTPUTS, batch_sums, *accept], feed)
        difference = max(difference, verify_window(calibrator, window, values, threshold))
        n_samples += len(window.logits)
    written = None if path is None else write_atomic(path, content)
    return OnnxExport(
        model,
        difference,
        n_samples,
        name_of(calibrator),
        path=written,
        form=WINDOWED,
        window_names=WINDOW_NAMES,
        accept=accept[0] if accept else None,
    )


def window_infos(windowed_map: WindowedMap, names: tuple[str, str], batch: str | int) -> list[Any]:
    """The declared types of the previous sums and of the mask."""
    info = need("onnx", "onnx").helper.make_tensor_value_info
    return [info(names[0], DOUBLE, [windowed_map.n_statistics]), info(names[1], BOOL, [batch])]


def sums_info(windowed_map: WindowedMap, name: str) -> Any:
    """The declared type of the sums of a batch."""
    return need("onnx", "onnx").helper.make_tensor_value_info(name, DOUBLE, [windowed_map.n_statistics])


def accept_info(name: str, batch: str | int = "n") -> Any:
    """The declared type of the output of a threshold."""
    return need("onnx", "onnx").helper.make_tensor_value_info(name, BOOL, [batch])


def output_infos(names: tuple[str, str, str], n_classes: int, batch: str | int = "n") -> list[Any]:
    """The declared types of probabilities, label and confidence."""
    info = need("onnx", "onnx").helper.make_tensor_value_info
    probabilities, label, confidence = names
    return [
        info(probabilities, DOUBLE, [batch, n_classes]),
        info(label, INT64, [batch]),
        info(confidence, DOUBLE, [batch]),
    ]


def write_metadata(
    model: Any,
    calibrator: Calibrator,
    cross_validated_ece: Mapping[str, Any] | None = None,
    threshold: Threshold | None = None,
) -> None:
    """Write the name, form and ECE of the calibrator, the class of each column and the threshold into the metadata."""
    metadata = {
        "driftcal.version": __version__,
        "driftcal.calibrator": name_of(calibrator),
        **_form_metadata(calibrator),
        "driftcal.classes": json.dumps(calibrator.classes_.tolist(), ensure_ascii=False),
        **({"driftcal.cross_validated_ece": json.dumps(dict(cross_validated_ece))} if cross_validated_ece else {}),
        **({} if threshold is None else {"driftcal.threshold": json.dumps(threshold.to_dict())}),
    }
    others = {entry.key: entry.value for entry in model.metadata_props if not entry.key.startswith("driftcal.")}
    need("onnx", "onnx").helper.set_model_props(model, {**others, **metadata})


def _form_metadata(calibrator: Calibrator) -> dict[str, str]:
    if not isinstance(calibrator, WindowedCalibrator):
        return {"driftcal.form": PER_SAMPLE}
    return {
        "driftcal.form": WINDOWED,
        "driftcal.window_statistics": json.dumps(list(calibrator.statistic_names)),
        "driftcal.window_size": str(WINDOW_SIZE),
        "driftcal.min_window": str(calibrator.min_window),
    }
