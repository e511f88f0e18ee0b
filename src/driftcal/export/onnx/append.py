"""A user's ONNX classifier with a calibrator at the end: one file that outputs calibrated probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.serialization import load_file
from driftcal.errors import ArtefactError, InputError, ModelError
from driftcal.export.checked_map import export_map_of
from driftcal.export.onnx.append_layers import choose_layers, pooled_layers
from driftcal.export.onnx.calibration import OUTPUTS, add_calibration
from driftcal.export.onnx.layer_pooling import add_means, add_unit
from driftcal.export.onnx.model_graph import batch_of, check_size, names_in, opset_of, read_model
from driftcal.export.onnx.model_outputs import (
    add_logits,
    as_input_type,
    check_columns,
    check_outputs,
    logits_of,
    probe_inputs,
    run_session,
)
from driftcal.export.onnx.nodes import Nodes
from driftcal.export.onnx.to_onnx import FloatName, OnnxExport, output_infos, to_onnx, write_metadata
from driftcal.export.onnx.verification import open_session, verify
from driftcal.io.atomic import as_target, write_atomic
from driftcal.models import Model, open_model
from driftcal.models.onnx import output_name, with_more_outputs
from driftcal.models.outputs import Outputs
from driftcal.models.scores import SCORES
from driftcal.pipeline.calibrated_model import CalibratedModel, check_same_model
from driftcal.types import AnyArray, Array


def append_to_onnx(
    model_path: str | os.PathLike[str],
    calibrator: Calibrator | CalibratedModel | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    layers: Sequence[str] | None = None,
    force: bool = False,
    inputs: AnyArray | None = None,
    outputs: Outputs | None = None,
) -> OnnxExport:
    """Write the ONNX model to `output` with its calibrator at the end.

    The model keeps its input and its outputs. It also outputs `probabilities` (float64), `label` (the column) and
    `confidence`; if it has values of these names already, the new ones are called ``calibrated_…``. The calibration
    runs in float64 for any type of the model. Weights in a file beside the model move into the new file, up to
    protobuf's 2 GB.

    At the end the new model runs on `inputs` and is compared with the calibrator on the logits (and features) of that
    run. If they differ by more than 1e-6, nothing is written.

    Parameters
    ----------
    model_path
        The model, a file that ends in .onnx.
    calibrator
        A file written by `save`, a calibrated model, or a calibrator in memory. The per-sample form is exported.
    output
        The file to write.
    layers
        Names of the graph's values from which the calibrator reads features. Needed if its file does not name them, or,
        with `force`, if this graph has other names for them.
    force
        Also accept a calibrator whose file names another model, or none.
    inputs
        Inputs for the comparison, as the model takes them. None: random ones.
    outputs
        The outputs of the model: "logits", or "probabilities" after a softmax or sigmoid. None: those in the
        calibrator's file, otherwise logits. A model whose outputs look like the other kind is refused.
    """
    source = Path(model_path)
    _check_files(source, calibrator, output)
    tuned = _load(calibrator, force)
    export_map = export_map_of(tuned.calibrator)
    recorded = tuned.model or {}
    options = {key: recorded[key] for key in ("preprocessing", "outputs") if key in recorded}
    model = open_model(source, **{**options, **({} if outputs is None else {"outputs": outputs})})
    if recorded and not force:
        check_same_model(model, recorded, calibrator if isinstance(calibrator, str | os.PathLike) else "the calibrator")

    proto = read_model(source)
    layer_names = choose_layers(tuned.calibrator, export_map, layers, tuned.layers, proto, force)
    session = open_session(with_more_outputs(proto, layer_names))
    declared, logits_name = session.get_inputs()[0], output_name(proto.graph.output)
    examples = probe_inputs(declared, options.get("preprocessing") or {}) if inputs is None else inputs
    feed = {declared.name: as_input_type(examples, declared.type)}
    raw, *values = run_session(session, [logits_name, *layer_names], feed)
    if force or not recorded:  # otherwise the tuning has checked more samples
        check_outputs(model, raw, is_declared=outputs is not None)
    check_columns(model, raw, tuned.calibrator)
    pooled_layers(model, export_map, layer_names, values)  # refuses other widths before the graph is changed

    layer_values = dict(zip(layer_names, values, strict=True))
    new_names = _append(proto, export_map, model, (logits_name, raw), layer_values)
    write_metadata(proto, tuned.calibrator, tuned.cross_validated_ece)
    check_size(proto, source)  # a calibrator may add many numbers
    # the values of the layers are read in the same run, because another run may round differently
    new_session = open_session(with_more_outputs(proto, layer_names))
    new_raw, probabilities, label, confidence, *new_values = run_session(
        new_session, [logits_name, *new_names, *layer_names], feed
    )
    _check_unchanged("logits", new_raw, raw)
    logits, features = logits_of(model, new_raw), pooled_layers(model, export_map, layer_names, new_values)
    difference = verify(tuned.calibrator, logits, (probabilities, label, confidence), features)
    calibrator_alone = to_onnx(tuned.calibrator)
    content = proto.SerializeToString()
    if layer_names:  # the file itself does not output its layers
        probabilities_name, _, _ = new_names
        of_file = run_session(open_session(content), [probabilities_name], feed)[0]
        _check_unchanged("probabilities", of_file, probabilities)
    return OnnxExport(
        proto,
        max(difference, calibrator_alone.difference),
        len(logits) + calibrator_alone.n_samples,
        calibrator_alone.calibrator,
        new_names,
        write_atomic(output, content),
        tuned.cross_validated_ece,
    )


def export_file(
    calibrator: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, logits: FloatName = "float32"
) -> OnnxExport:
    """The calibrator of a file as an ONNX model from logits to probabilities, as :func:`to_onnx` writes it.

    Parameters
    ----------
    calibrator
        A file that `save`, `tune` or `fit` wrote. The per-sample form is exported.
    output
        The file to write.
    logits
        The type of the graph's input.
    """
    tuned = _load(calibrator, force=True)
    return replace(to_onnx(tuned.calibrator, output, logits=logits), cross_validated_ece=tuned.cross_validated_ece)


@dataclass(frozen=True, eq=False)
class _Tuned:
    """A calibrator, the metadata of the model it was tuned on (None: unknown), the layers it reads, and its ECE."""

    calibrator: Calibrator
    model: Mapping[str, Any] | None = None
    layers: Sequence[str] = ()
    cross_validated_ece: Mapping[str, float] | None = None


def _load(calibrator: Any, force: bool) -> _Tuned:
    """The calibrator of a file, of a calibrated model, or in memory."""
    if isinstance(calibrator, CalibratedModel):
        model_metadata = dict(calibrator.model_metadata) or calibrator.model.metadata()
        return _Tuned(calibrator.calibrator, model_metadata, calibrator.layers, _recorded_ece(calibrator.metadata))
    if not isinstance(calibrator, str | os.PathLike):
        return _Tuned(calibrator)  # in memory: the model is not recorded
    file = load_file(calibrator)
    recorded = file.metadata.get("model")
    if recorded is not None and recorded.get("framework") == SCORES:  # fitted on scores: the model is unknown
        recorded = None
    if recorded is None and not force:
        raise ArtefactError(
            f"{calibrator} must record which model it was tuned on; it is a calibrator alone, or was fitted on scores. Save a CalibratedModel, or pass force=True (--force)."
        )
    return _Tuned(file.calibrator, recorded, file.metadata.get("layers", ()), _recorded_ece(file.metadata))


def _recorded_ece(metadata: Mapping[str, Any]) -> Mapping[str, float] | None:
    """The cross-validated ECE of the per-sample calibrator, if a file or a model has it."""
    ece, conditions = metadata.get("cross_validated_ece"), ("in_domain", "under_shift")
    if not isinstance(ece, Mapping) or not set(conditions) <= set(ece):
        return None
    return {condition: float(ece[condition]) for condition in conditions}


def _check_files(model: Path, calibrator: Any, output: str | os.PathLike[str]) -> None:
    """Refuse a file that is no ONNX model, and an output that would replace an input."""
    as_target(output)
    target = Path(output).resolve()
    if target == model.resolve():
        raise InputError(f"output must be another file than the model {str(model)!r}. Choose a new name.")
    if isinstance(calibrator, str | os.PathLike) and target == Path(calibrator).resolve():
        raise InputError(f"output must be another file than the calibrator {str(calibrator)!r}. Choose a new name.")
    if model.suffix != ".onnx" and model.is_file():
        raise ModelError(
            f"the model must be an ONNX file, which ends in .onnx; it is {str(model)!r}. Export it to ONNX first, or put "
            "driftcal.export.to_torch(calibrator) behind a torch net."
        )


def _append(
    proto: Any,
    export_map: ExportMap,
    model: Model,
    logits: tuple[str, Array],
    layers: Mapping[str, Array],
) -> tuple[str, str, str]:
    """Add the calibration to `proto`; returns the names of the new outputs.

    `logits` and `layers` are names of values in the graph, with examples of the values.
    """
    logits_name, raw = logits
    used = set(names_in(proto.graph))
    prefix = "driftcal/"
    while any(name.startswith(prefix) for name in used):
        prefix = f"driftcal_{prefix}"
    probabilities, label, confidence = (_unused_name(name, used) for name in OUTPUTS)
    names = (probabilities, label, confidence)
    nodes = Nodes(prefix, opset_of(proto))
    channels_first = model.preprocessing.channels_first
    # as driftcal.pooled_features; calibrators divide by the length a second time
    features = [add_unit(nodes, [add_means(nodes, *layer, channels_first)]) for layer in layers.items()]
    add_calibration(nodes, export_map, add_logits(nodes, logits_name, raw, model.outputs), names, features)
    graph = proto.graph
    graph.node.extend(nodes.nodes)
    graph.initializer.extend(nodes.initializers)
    graph.output.extend(output_infos(names, export_map.n_classes, batch_of(graph, logits_name)))
    return names


def _unused_name(name: str, used: set[str]) -> str:
    while name in used:
        name = f"calibrated_{name}"
    return name


def _check_unchanged(name: str, values: Array, expected: Array) -> None:
    """Refuse a graph whose values differ from the expected ones by more than rounding."""
    size = float(np.abs(expected, where=np.isfinite(expected), out=np.zeros(expected.shape)).max(initial=0))
    if not np.allclose(values, expected, atol=1e-3 * size):
        raise ModelError(
            f"the model's {name} changed when the calibrator was appended. Nothing was written. Please report it."
        )
