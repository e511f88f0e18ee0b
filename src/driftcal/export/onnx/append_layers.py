"""The layers of a user's ONNX model that an appended calibrator reads: their names, widths and pooled values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from driftcal.calibrators import Calibrator
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.errors import InputError, ModelError
from driftcal.models import Model
from driftcal.models.features import pooled
from driftcal.types import Array


def choose_layers(
    calibrator: Calibrator,
    export_map: ExportMap,
    layers: Sequence[str] | None,
    recorded: Sequence[str],
    proto: Any,
    force: bool,
) -> tuple[str, ...]:
    """Names of the graph's values that the calibrator reads, in the order of its fit; none if it reads logits only.

    `layers` are the user's, `recorded` those of the calibrator's file.
    """
    name, n_layers = type(calibrator).__name__, len(export_map.layer_widths)
    if layers is not None and (isinstance(layers, str) or not n_layers):
        raise InputError(
            f"layers must be a list of names; it is {layers!r}. Pass layers=[...]."
            if n_layers
            else f"layers are for calibrators that read layer features; {name} reads logits only. Leave them out."
        )
    if layers is not None and recorded and tuple(layers) != tuple(recorded) and not force:
        raise InputError(
            f"layers must be those that the calibrator was tuned on, {', '.join(recorded)}; they are {', '.join(layers)}. "
            "Leave them out, or pass force=True (--force) if this graph is the same model with other names."
        )
    layer_names = tuple(recorded if layers is None else layers)
    if len(layer_names) != n_layers:
        raise InputError(
            f"layers must name the {n_layers} values of the ONNX graph that {name} reads, in the order of its fit; there are {len(layer_names)} names. "
            "Save the CalibratedModel that driftcal.tune(..., features=...) gives, or pass layers=[...], some of driftcal.open_model(path).layers."
        )
    values = [value for node in proto.graph.node for value in node.output if value]
    for layer in layer_names:
        if layer not in values:
            nearest = difflib.get_close_matches(layer, values, n=3, cutoff=0.3) or values[-3:]
            raise ModelError(
                f"layers must be values of the ONNX graph; {layer!r}, which {name} reads, is not among its {len(values)} "
                f"(nearest: {', '.join(nearest)}). Tune on this file, or pass force=True (--force) and layers=[...] (--layers) with their names in it."
            )
    return layer_names


def pooled_layers(model: Model, export_map: ExportMap, layers: Sequence[str], values: Sequence[Array]) -> list[Array]:
    """The features that driftcal pools from the values of layers; other widths than in the fit are refused."""
    features = [pooled(layer_values, model.preprocessing.channels_first) for layer_values in values]
    for layer, of_layer, width in zip(layers, features, export_map.layer_widths, strict=True):
        if of_layer.shape[1] != width:
            raise ModelError(
                f"layer {layer!r} must have the width it had in the fit, {width}; it has {of_layer.shape[1]}. "
                "Name the layers of the fit in their order, or tune again."
            )
    return features
