"""The layers of a user's ONNX model that an appended calibrator looks at: which, how wide, and what they really gave."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from driftcal.calibrators import Calibrator
from driftcal.errors import InputError, ModelError
from driftcal.export.maps import ExportMap
from driftcal.models import Model
from driftcal.models.features import pooled
from driftcal.types import Array


def choose_layers(
    calibrator: Calibrator,
    export_map: ExportMap,
    given: Sequence[str] | None,
    recorded: Sequence[str],
    proto: Any,
    force: bool,
) -> tuple[str, ...]:
    """Names of the values of the graph that the calibrator looks at, in the order of its fit; none if it does not."""
    name, wanted = type(calibrator).__name__, len(export_map.widths)
    if given is not None and (isinstance(given, str) or not wanted):
        raise InputError(
            f"layers must be a list of names; it is {given!r}. Pass layers=[...]."
            if wanted
            else f"layers are for calibrators that look inside the model; {name} looks at logits only. Leave them out."
        )
    if given is not None and recorded and tuple(given) != tuple(recorded) and not force:
        raise InputError(
            f"layers must be those that the calibrator was tuned on, {', '.join(recorded)}; they are {', '.join(given)}. "
            "Leave them out, or pass force=True (--force) if the graph is a twin with other names."
        )
    layers = tuple(recorded if given is None else given)
    if len(layers) != wanted:
        raise InputError(
            f"layers must name the {wanted} values of the ONNX graph that {name} looks at, in the order of its fit; there are {len(layers)} names. "
            "Save the CalibratedModel that driftcal.tune(..., layers=[...]) gives, or pass layers=[...], some of driftcal.open_model(path).layers."
        )
    known = [value for node in proto.graph.node for value in node.output if value]
    for layer in layers:
        if layer not in known:
            near = difflib.get_close_matches(layer, known, n=3, cutoff=0.3) or known[-3:]
            raise ModelError(
                f"layers must be values of the ONNX graph; {layer!r}, which {name} looks at, is not among its {len(known)} "
                f"(near: {', '.join(near)}). Tune on this very file, or pass force=True (--force) and layers=[...] (--layers) with its names for them."
            )
    return layers


def pooled_layers(model: Model, export_map: ExportMap, layers: Sequence[str], values: Sequence[Array]) -> list[Array]:
    """What driftcal makes of the values that layers gave; layers of other widths than in the fit are refused."""
    features = [pooled(part, model.preprocessing.channels_first) for part in values]
    for layer, part, width in zip(layers, features, export_map.widths, strict=True):
        if part.shape[1] != width:
            raise ModelError(
                f"layer {layer!r} must have the width it had in the fit, {width}; it has {part.shape[1]}. "
                "Name the layers of the fit in their order, or tune again."
            )
    return features
