"""A user's ONNX classifier with its calibrator at the end: one file that answers honest probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.serialization import load, notes
from driftcal.core.validation import as_array
from driftcal.errors import ArtefactError, InputError, ModelError, need
from driftcal.export.maps import ExportMap, export_map_of
from driftcal.export.onnx.features import add_means, add_pooled
from driftcal.export.onnx.file import (
    IR_VERSION,
    OPSET,
    OnnxExport,
    describe,
    open_session,
    output_infos,
    prove,
    to_onnx,
)
from driftcal.export.onnx.graph import OUTPUTS, add_calibration, batch_of, names_in
from driftcal.export.onnx.layers import choose_layers, pooled_layers
from driftcal.export.onnx.nodes import Nodes
from driftcal.io.atomic import as_target, write_atomic
from driftcal.models import Model, open_model
from driftcal.models.onnx import output_name, widened
from driftcal.models.outputs import SMALLEST_PROBABILITY, Outputs, refuse_probabilities, to_logits
from driftcal.pipeline.calibrated_model import CalibratedModel, check_same_model
from driftcal.types import AnyArray, Array, Logits

#: The oldest opset in which all operators of a calibration have their present form.
_OLDEST_OPSET = 13
#: A protobuf message, and so a file without weights beside it, ends here.
_LARGEST_FILE = 2**31 - 1
_PROBE_ROWS = 8
#: The way out where rows cannot be made up.
_EXAMPLES = "Pass inputs=... (--inputs FILE), some rows as the model wants them."
_FLOAT, _DOUBLE = 1, 11  # TensorProto.FLOAT, DOUBLE


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

    The model keeps its input and its outputs and also answers `probabilities` (float64), `label` (the column) and
    `confidence`; where it has values of these names already, the new ones are called ``calibrated_…``. The calibration
    runs in float64 whatever the model's own type is. `calibrator` is a file written by `save`, or one in memory. A file
    that was tuned on another model, or does not say on which, is refused unless `force`. Weights that lie beside the
    model move into the new file, up to protobuf's 2 GB.

    `outputs` says what the model ends in, "logits" or "probabilities" (after a softmax or sigmoid): without it what the calibrator's
    file records, else logits. A model whose answers look otherwise is refused.

    A calibrator that looks inside the model is joined to the layers it was tuned on, pooled as `driftcal.pooled_features` does it. They are
    values of the graph; `layers` names them where the calibrator does not know them, or, with `force`, where the graph has other names for
    them.

    At the end the new model runs on `inputs` (as its input wants them; random ones by default) and is compared with
    the calibrator on the logits (and features) it really emits. More than 1e-6 apart, and nothing is written.
    """
    source = Path(model_path)
    _check_files(source, calibrator, output)
    fitted, recorded, tuned_on = _calibrator(calibrator, force)
    export_map = export_map_of(fitted)
    steps = {key: recorded[key] for key in ("preprocessing", "outputs")} if recorded else {}
    model = open_model(source, **{**steps, **({} if outputs is None else {"outputs": outputs})})
    if recorded and not force:
        check_same_model(model, recorded, calibrator if isinstance(calibrator, str | os.PathLike) else "the calibrator")

    proto = _read(source)
    inside = choose_layers(fitted, export_map, layers, tuned_on, proto, force)
    session = open_session(widened(proto, inside))
    logits_name = output_name(proto.graph.output)
    probe = _probe(session.get_inputs()[0], steps.get("preprocessing") or {}) if inputs is None else inputs
    feed = {session.get_inputs()[0].name: _as_type(probe, session.get_inputs()[0].type)}
    before, *values = _answers(session, [logits_name, *inside], feed)
    if force or not recorded:  # of the model it was tuned on, the tuning has seen more rows
        _check_outputs(model, before, said=outputs is not None)
    _check_columns(model, before, fitted)
    pooled_layers(model, export_map, inside, values)

    names = _append(proto, fitted, export_map, model, (logits_name, before), dict(zip(inside, values, strict=True)))
    _check_size(proto, source)  # a calibrator may bring many numbers of its own
    # what the layers gave is read in the same run: another one may round otherwise
    emitted, *found = _answers(open_session(widened(proto, inside)), [logits_name, *names, *inside], feed)
    _check_unchanged("logits", emitted, before)
    logits, features = _logits(model, emitted), pooled_layers(model, export_map, inside, found[3:])
    difference = max(prove(fitted, logits, found[:3], features), to_onnx(fitted).difference)
    content = proto.SerializeToString()
    if inside:  # the file itself does not give its layers
        _check_unchanged("probabilities", _answers(open_session(content), [names[0]], feed)[0], found[0])
    path = write_atomic(output, content)
    return OnnxExport(proto, difference, len(logits) + 256, names, path, export_map.note)


def _check_files(model: Path, calibrator: Any, output: str | os.PathLike[str]) -> None:
    """Refuse what is no ONNX model, and to write over what is read."""
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


def _calibrator(given: Any, force: bool) -> tuple[Calibrator, Mapping[str, Any] | None, Sequence[str]]:
    """The calibrator, and what is known about the model it was tuned on and the layers it looks at."""
    if isinstance(given, CalibratedModel):
        return given.calibrator, given.model.metadata(), given.layers
    if not isinstance(given, str | os.PathLike):
        return given, None, ()  # in memory: the caller knows where it comes from
    noted = notes(given)["notes"]
    recorded = noted.get("model")
    if recorded is None and not force:
        raise ArtefactError(
            f"{given} must say which model it was tuned on; it is a calibrator alone. Save a CalibratedModel, or pass force=True (--force)."
        )
    return load(given), recorded, noted.get("layers", ())


def _read(path: Path) -> Any:
    """The model with all weights in memory, at an opset whose operators we know."""
    onnx = need("onnx", "onnx")
    try:
        proto = onnx.load(path)
    except Exception as error:  # protobuf, the file system and onnx's own checks all have their classes
        raise ModelError(
            f"{str(path)!r} cannot be read with its weights: {str(error).splitlines()[0][:300]}"
        ) from error
    _check_size(proto, path)
    opset = _opset(proto)
    if not opset:
        proto.opset_import.append(onnx.helper.make_opsetid("", OPSET))
    elif opset < _OLDEST_OPSET:
        try:
            proto = onnx.version_converter.convert_version(proto, OPSET)
        except Exception as error:  # the converter is native code with exceptions of its own
            raise ModelError(
                f"{str(path)!r} has opset {opset}; a calibrator needs {_OLDEST_OPSET} or later, and onnx could not convert it: "
                f"{str(error).splitlines()[0][:200]} Export the model anew with opset {OPSET}."
            ) from error
    proto.ir_version = max(proto.ir_version, IR_VERSION)
    return proto


def _check_size(proto: Any, path: Path) -> None:
    if proto.ByteSize() > _LARGEST_FILE:
        raise ModelError(
            f"{str(path)!r} holds more than 2 GB with its weights and the calibrator, more than one ONNX file can. Append the output of to_onnx(calibrator) "
            "with your own tools, or run it as a second model."
        )


def _opset(proto: Any) -> int:
    """The opset of a model's standard operators; 0 if it has none."""
    return next((int(entry.version) for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), 0)


def _append(
    proto: Any,
    calibrator: Calibrator,
    export_map: ExportMap,
    model: Model,
    logits: tuple[str, Array],
    inside: dict[str, Array],
) -> tuple[str, str, str]:
    """Add the calibration to `proto`; the names of the new outputs.

    `logits` and the layers `inside` are known by their names and by what they gave once.
    """
    logits_name, answers = logits
    taken = set(names_in(proto.graph))
    prefix = "driftcal/"
    while any(name.startswith(prefix) for name in taken):
        prefix = f"driftcal_{prefix}"
    chosen = []
    for name in OUTPUTS:
        while name in taken:
            name = f"calibrated_{name}"
        chosen.append(name)
    names = (chosen[0], chosen[1], chosen[2])
    nodes = Nodes(prefix, _opset(proto))
    means = [add_means(nodes, layer, values, model.preprocessing.channels_first) for layer, values in inside.items()]
    features = add_pooled(nodes, means, export_map.widths)
    add_calibration(nodes, export_map, _to_logits(nodes, logits_name, answers, model.outputs), names, features)
    graph = proto.graph
    graph.node.extend(nodes.nodes)
    graph.initializer.extend(nodes.initializers)
    graph.output.extend(output_infos(names, export_map.n_classes, batch_of(graph, logits_name)))
    describe(proto, calibrator, export_map.note)
    return names


def _to_logits(nodes: Nodes, name: str, answers: Array, kind: str) -> str:
    """From what the model answers to float64 (n, classes) logits, step by step as driftcal reads them."""
    probabilities = kind == "probabilities"
    if answers.dtype == np.float64 and not probabilities:
        name = nodes("Cast", name, to=_FLOAT)
    wide = nodes("Cast", name, to=_DOUBLE)
    if answers.ndim == 1:
        wide = nodes("Unsqueeze", wide, np.array([1]))
    if answers.ndim == 1 or answers.shape[1] == 1:
        zeros = nodes("Expand", np.zeros(1), nodes("Shape", wide))
        other = nodes("Sub", np.ones(1), wide) if probabilities else zeros
        wide = nodes("Concat", other, wide, axis=1)
    if not probabilities:
        return wide
    logs = nodes("Log", nodes("Max", wide, np.array(SMALLEST_PROBABILITY)))
    return nodes("Cast", nodes("Cast", logs, to=_FLOAT), to=_DOUBLE)


def _probe(declared: Any, preprocessing: Mapping[str, Any]) -> Array:
    """Random inputs of the declared shape; free axes get 8 rows, 3 channels, and the preprocessing's size or 224."""
    shape = [axis if isinstance(axis, int) and axis > 0 else None for axis in declared.shape]
    if not shape:
        raise ModelError(
            f"the model must declare the shape of its input to be tried; {declared.name!r} has none. {_EXAMPLES}"
        )
    usual: list[int] = [224] * len(shape)
    if len(shape) == 4:
        channels_last = shape[3] in (1, 3) and shape[1] not in (1, 3)
        size = preprocessing.get("size") or (224, 224)
        usual = [0, *size, 3] if channels_last else [0, 3, *size]
    usual[0] = _PROBE_ROWS
    whole = [axis or fallback for axis, fallback in zip(shape, usual, strict=True)]
    return np.random.default_rng(0).random(whole, np.float32)


def _as_type(inputs: AnyArray, declared: str) -> Array:
    rows, kinds = as_array(inputs, "inputs"), {"tensor(float16)": np.float16, "tensor(double)": np.float64}
    if rows.dtype.kind not in "fiub" or not rows.size:
        raise InputError(f"inputs must be rows of numbers; they are {rows.dtype} of shape {rows.shape}. {_EXAMPLES}")
    return np.asarray(rows, kinds.get(declared, np.float32))


def _answers(session: Any, names: list[str], feed: dict[str, Array]) -> list[Array]:
    try:
        found: list[Array] = session.run(names, feed)
    except Exception as error:  # onnxruntime raises classes of its own
        shapes = ", ".join(str(value.shape) for value in feed.values())
        raise ModelError(
            f"the model cannot be tried on inputs of shape {shapes}: {str(error).splitlines()[0][:300].rstrip('. ')}. {_EXAMPLES}"
        ) from error
    return found


def _check_unchanged(what: str, now: Array, before: Array) -> None:
    """Refuse a graph that computes something else than before, more than rounding explains."""
    size = float(np.abs(before, where=np.isfinite(before), out=np.zeros(before.shape)).max(initial=0))
    if not np.allclose(now, before, atol=1e-3 * size):
        raise ModelError(
            f"the model's own {what} changed when the calibrator was appended. Nothing was written. Please report it."
        )


def _check_outputs(model: Model, answers: Array, *, said: bool) -> None:
    """Refuse probabilities taken for logits, and the other way round.

    A single column may lie in [0, 1] by chance: whoever says what it is, is believed.
    """
    columns = _columns(answers)
    if columns.shape[1] > 1 or not said:
        refuse_probabilities(columns, model.outputs)


def _check_columns(model: Model, answers: Array, calibrator: Calibrator) -> None:
    columns = _logits(model, answers).shape[1]
    if columns != calibrator.n_features_in_:
        raise ModelError(
            f"the calibrator must have as many classes as the model; it has {calibrator.n_features_in_} and the model answers {columns}. "
            "Was it tuned on another model?"
        )


def _logits(model: Model, answers: Array) -> Logits:
    """The logits that driftcal reads from what the model answered."""
    return to_logits(_columns(answers), model.outputs, 0)


def _columns(answers: Array) -> Array:
    columns = answers[:, None] if answers.ndim == 1 else answers
    if columns.ndim != 2:
        raise ModelError(
            f"the model must answer (n, classes); it answered shape {answers.shape}. Export its last layer."
        )
    return columns
