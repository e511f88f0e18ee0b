"""A user's ONNX classifier with a calibrator at the end: one file that outputs calibrated probabilities."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.windowed_map import WindowedMap
from driftcal.decisions import Threshold
from driftcal.errors import InputError, ModelError
from driftcal.export.checked_map import export_map_of, windowed_map_of
from driftcal.export.onnx.append_layers import choose_layers, pooled_layers
from driftcal.export.onnx.calibration import ACCEPT, OUTPUTS, add_accept, add_calibration
from driftcal.export.onnx.maps.layer_pooling import add_means, add_unit
from driftcal.export.onnx.maps.window_temperature import WINDOW_NAMES, add_windowed_calibration
from driftcal.export.onnx.model_graph import batch_of, check_size, names_in, opset_of, read_model
from driftcal.export.onnx.model_input import input_text
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
from driftcal.export.onnx.to_onnx import (
    FloatName,
    OnnxExport,
    accept_info,
    output_infos,
    sums_info,
    to_onnx,
    window_infos,
    write_metadata,
)
from driftcal.export.onnx.tuned_calibrator import Tuned, load_tuned
from driftcal.export.onnx.verification import open_session, verify, verify_accept
from driftcal.export.onnx.window_verification import probe_batches, verify_window
from driftcal.io.atomic import as_target, write_atomic
from driftcal.models import Model, open_model
from driftcal.models.boosters import BOOSTER_FILES
from driftcal.models.onnx.onnx_backend import output_name, with_more_outputs
from driftcal.models.outputs import Outputs
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
    windowed: bool = False,
) -> OnnxExport:
    """Write the ONNX model to `output` with its calibrator at the end.

    The model keeps its input and its outputs. It also outputs `probabilities` (float64), `label` (the column) and
    `confidence`, and the boolean `accept` if the calibrated model or its file has a threshold; if it has values of these
    names already, the new ones are called ``calibrated_…``. The calibration runs in float64 for any type of the model.
    Weights in a file beside the model move into the new file, up to protobuf's 2 GB.

    At the end the new model runs on `inputs` and is compared with the calibrator on the logits (and features) of that
    run. If they differ by more than 1e-6, nothing is written.

    Parameters
    ----------
    model_path
        The model, a file that ends in .onnx.
    calibrator
        A file written by `save`, a calibrated model, or a calibrator in memory.
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
    windowed
        Export the windowed form: with two more inputs and one more output for the sums of the window, as in `to_onnx`.
        By default the per-sample form is exported.
    """
    source = Path(model_path)
    _check_files(source, calibrator, output)
    tuned = load_tuned(calibrator, force=force, windowed=windowed)
    export_map = windowed_map_of(tuned.calibrator) if windowed else export_map_of(tuned.calibrator)
    recorded = tuned.model or {}
    options = {key: recorded[key] for key in ("preprocessing", "outputs") if key in recorded}
    model = open_model(source, **{**options, **({} if outputs is None else {"outputs": outputs})})
    if recorded and not force:
        check_same_model(model, recorded, calibrator if isinstance(calibrator, str | os.PathLike) else "the calibrator")

    proto = read_model(source)
    layer_map = ExportMap() if isinstance(export_map, WindowedMap) else export_map
    layer_names = choose_layers(tuned.calibrator, layer_map, layers, tuned.layers, proto, force)
    session = open_session(with_more_outputs(proto, layer_names))
    declared, logits_name = session.get_inputs()[0], output_name(proto.graph.output)
    examples = probe_inputs(declared, options.get("preprocessing") or {}) if inputs is None else inputs
    feed = {declared.name: as_input_type(examples, declared.type)}
    raw, *values = run_session(session, [logits_name, *layer_names], feed)
    if force or not recorded:  # otherwise the tuning has checked more samples
        check_outputs(model, raw, is_declared=outputs is not None)
    check_columns(model, raw, tuned.calibrator)
    pooled_layers(model, layer_map, layer_names, values)  # refuses other widths before the graph is changed

    layer_values = dict(zip(layer_names, values, strict=True))
    new_names, window_names, accept = _append(
        proto, export_map, model, (logits_name, raw), layer_values, tuned.threshold
    )
    accept_names = [] if accept is None else [accept]
    write_metadata(proto, tuned.calibrator, tuned.cross_validated_ece, tuned.threshold)
    check_size(proto, source)  # a calibrator may add many numbers
    # the values of the layers are read in the same run, because another run may round differently
    new_session = open_session(with_more_outputs(proto, layer_names))
    if window_names is not None:
        difference, n_samples = _verify_windows(
            new_session,
            tuned,
            model,
            feed,
            (logits_name, raw),
            [*new_names, window_names[2], *accept_names],
            window_names,
        )
    else:
        new_raw, probabilities, label, confidence, *others = run_session(
            new_session, [logits_name, *new_names, *layer_names, *accept_names], feed
        )
        new_values = others[: len(layer_names)]
        _check_unchanged("logits", new_raw, raw)
        logits, features = logits_of(model, new_raw), pooled_layers(model, layer_map, layer_names, new_values)
        difference, n_samples = (
            verify(tuned.calibrator, logits, (probabilities, label, confidence), features),
            len(logits),
        )
        if tuned.threshold is not None:
            of_layers: dict[str, Any] = {"features": features} if features else {}
            expected = tuned.calibrator.predict_proba(logits, **of_layers).max(axis=1)
            verify_accept(tuned.threshold, others[-1], confidence, expected)
    calibrator_alone = to_onnx(tuned.calibrator, windowed=windowed, threshold=tuned.threshold)
    content = proto.SerializeToString()
    if layer_names:  # the file itself does not output its layers
        probabilities_name, _, _ = new_names
        of_file = run_session(open_session(content), [probabilities_name], feed)[0]
        _check_unchanged("probabilities", of_file, probabilities)
    return OnnxExport(
        proto,
        max(difference, calibrator_alone.difference),
        n_samples + calibrator_alone.n_samples,
        calibrator_alone.calibrator,
        new_names,
        write_atomic(output, content),
        tuned.cross_validated_ece,
        calibrator_alone.form,
        window_names,
        accept,
        input_text(declared, model.preprocessing if recorded else None),
    )


def export_file(
    calibrator: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    logits: FloatName = "float32",
    windowed: bool = False,
) -> OnnxExport:
    """The calibrator of a file as an ONNX model from logits to probabilities, as :func:`to_onnx` writes it.

    Parameters
    ----------
    calibrator
        A file that `save`, `tune` or `fit` wrote.
    output
        The file to write.
    logits
        The type of the graph's input.
    windowed
        Export the windowed form, as in `to_onnx`. By default the per-sample form is exported.
    """
    tuned = load_tuned(calibrator, force=True, windowed=windowed)
    exported = to_onnx(tuned.calibrator, output, logits=logits, windowed=windowed, threshold=tuned.threshold)
    return replace(exported, cross_validated_ece=tuned.cross_validated_ece)


def _verify_windows(
    session: Any,
    tuned: Tuned,
    model: Model,
    feed: Mapping[str, Array],
    logits: tuple[str, Array],
    names: list[str],
    window_names: tuple[str, str, str],
) -> tuple[float, int]:
    """The largest difference on the model's own logits, alone and after other samples, and the samples compared.

    `names` are those of the outputs that `verify_window` compares.
    """
    logits_name, raw = logits
    sums, mask, _ = window_names
    differences = []
    for window in probe_batches(tuned.calibrator, logits_of(model, raw)):
        window_feed = {**feed, sums: window.previous, mask: window.mask}
        new_raw, *outputs = run_session(session, [logits_name, *names], window_feed)
        _check_unchanged("logits", new_raw, raw)
        same_run = replace(window, logits=logits_of(model, new_raw))  # another run may round differently
        differences.append(verify_window(tuned.calibrator, same_run, outputs, tuned.threshold))
    return max(differences), len(differences) * len(raw)


def _check_files(model: Path, calibrator: Any, output: str | os.PathLike[str]) -> None:
    """Refuse a file that is no ONNX model, and an output that would replace an input."""
    as_target(output)
    target = Path(output).resolve()
    if target == model.resolve():
        raise InputError(f"output must be another file than the model {str(model)!r}. Choose a new name.")
    if isinstance(calibrator, str | os.PathLike) and target == Path(calibrator).resolve():
        raise InputError(f"output must be another file than the calibrator {str(calibrator)!r}. Choose a new name.")
    if model.suffix in BOOSTER_FILES:
        raise ModelError(
            f"the model must be an ONNX file; {str(model)!r} holds trees. Export the calibrator alone, and run it behind the booster: "
            "driftcal export CALIBRATOR -o calibrator.onnx."
        )
    if model.suffix != ".onnx" and model.is_file():
        raise ModelError(
            f"the model must be an ONNX file, which ends in .onnx; it is {str(model)!r}. Export it to ONNX first, or put "
            "driftcal.export.to_torch(calibrator) behind a torch net."
        )


def _append(
    proto: Any,
    export_map: ExportMap | WindowedMap,
    model: Model,
    logits: tuple[str, Array],
    layers: Mapping[str, Array],
    threshold: Threshold | None,
) -> tuple[tuple[str, str, str], tuple[str, str, str] | None, str | None]:
    """Add the calibration to `proto`; returns the names of the new outputs, of `WINDOW_NAMES` and of `ACCEPT`.

    `logits` and `layers` are names of values in the graph, with examples of the values.
    """
    logits_name, raw = logits
    used = set(names_in(proto.graph))
    prefix = "driftcal/"
    while any(name.startswith(prefix) for name in used):
        prefix = f"driftcal_{prefix}"
    probabilities, label, confidence = (_unused_name(name, used) for name in OUTPUTS)
    names, window_names = (probabilities, label, confidence), None
    nodes, graph = Nodes(prefix, opset_of(proto)), proto.graph
    float64_logits, batch = add_logits(nodes, logits_name, raw, model.outputs), batch_of(graph, logits_name)
    if isinstance(export_map, WindowedMap):
        sums, mask, batch_sums = (_unused_name(name, used) for name in WINDOW_NAMES)
        window_names = (sums, mask, batch_sums)
        add_windowed_calibration(nodes, export_map, float64_logits, (sums, mask), (*names, batch_sums))
        graph.input.extend(window_infos(export_map, (sums, mask), batch))
    else:
        channels_first = model.preprocessing.channels_first
        # as driftcal.pooled_features; calibrators divide by the length a second time
        features = [add_unit(nodes, [add_means(nodes, *layer, channels_first)]) for layer in layers.items()]
        add_calibration(nodes, export_map, float64_logits, names, features)
    accept = None if threshold is None else _unused_name(ACCEPT, used)
    if threshold is not None and accept is not None:
        add_accept(nodes, threshold, confidence, accept)
    graph.node.extend(nodes.nodes)
    graph.initializer.extend(nodes.initializers)
    graph.output.extend(output_infos(names, export_map.n_classes, batch))
    if isinstance(export_map, WindowedMap) and window_names is not None:
        graph.output.append(sums_info(export_map, window_names[2]))
    if accept is not None:
        graph.output.append(accept_info(accept, batch))
    return names, window_names, accept


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
