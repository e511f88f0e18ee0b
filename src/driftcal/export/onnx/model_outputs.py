"""The outputs of a user's ONNX model for example inputs, and their conversion to logits: in Python and as nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftcal.calibrators import Calibrator
from driftcal.core.messages import first_line
from driftcal.core.validation import NUMBER_KINDS, as_array
from driftcal.errors import InputError, ModelError
from driftcal.export.onnx.nodes import DOUBLE, FLOAT, Nodes, number
from driftcal.models import Model
from driftcal.models.outputs import SMALLEST_PROBABILITY, check_kind_of_outputs, to_logits
from driftcal.types import AnyArray, Array, Logits

_N_PROBES = 8
#: The way out if inputs cannot be generated.
_WAY_OUT = "Pass inputs=... (--inputs FILE), some samples as the model takes them."


def probe_inputs(declared: Any, preprocessing: Mapping[str, Any]) -> Array:
    """Random inputs of the declared shape; free axes become 8 samples, 3 channels, the preprocessing's size or 224."""
    declared_shape = [axis if isinstance(axis, int) and axis > 0 else None for axis in declared.shape]
    if not declared_shape:
        raise ModelError(
            f"the model must declare the shape of its input to be tried; {declared.name!r} has none. {_WAY_OUT}"
        )
    defaults: list[int] = [224] * len(declared_shape)
    if len(declared_shape) == 4:
        channels_last = declared_shape[3] in (1, 3) and declared_shape[1] not in (1, 3)
        size = preprocessing.get("size") or (224, 224)
        defaults = [0, *size, 3] if channels_last else [0, 3, *size]
    defaults[0] = _N_PROBES
    shape = [axis or default for axis, default in zip(declared_shape, defaults, strict=True)]
    return np.random.default_rng(0).random(shape, np.float32)


def as_input_type(inputs: AnyArray, declared: str) -> Array:
    """Inputs in the float type that a graph declares."""
    samples, types = as_array(inputs, "inputs"), {"tensor(float16)": np.float16, "tensor(double)": np.float64}
    if samples.dtype.kind not in NUMBER_KINDS or not samples.size:
        raise InputError(
            f"inputs must be samples of numbers; they are {samples.dtype} of shape {samples.shape}. {_WAY_OUT}"
        )
    return np.asarray(samples, types.get(declared, np.float32))


def run_session(session: Any, names: list[str], feed: dict[str, Array]) -> list[Array]:
    """The named values of a graph; an error of onnxruntime becomes a ModelError."""
    try:
        values: list[Array] = session.run(names, feed)
    except Exception as error:  # onnxruntime has many classes of errors
        shapes = ", ".join(str(value.shape) for value in feed.values())
        raise ModelError(
            f"the model cannot be tried on inputs of shape {shapes}: {first_line(error).rstrip('. ')}. {_WAY_OUT}"
        ) from error
    return values


def check_outputs(model: Model, raw: Array, *, is_declared: bool) -> None:
    """Refuse probabilities from a model that should output logits, and the reverse.

    A single column may lie in [0, 1] by chance. It is not checked if the user has said what it is (`is_declared`).
    """
    columns = _columns(raw)
    if columns.shape[1] > 1 or not is_declared:
        check_kind_of_outputs(columns, model.outputs)


def check_columns(model: Model, raw: Array, calibrator: Calibrator) -> None:
    """Refuse a model with another number of classes than the calibrator."""
    n_columns = logits_of(model, raw).shape[1]
    if n_columns != calibrator.n_features_in_:
        raise ModelError(
            f"the calibrator must have as many classes as the model; it has {calibrator.n_features_in_} and the model outputs {n_columns}. "
            "Was it tuned on another model?"
        )


def logits_of(model: Model, raw: Array) -> Logits:
    """The logits that driftcal computes from the raw outputs of the model."""
    return to_logits(_columns(raw), model.outputs, 0)


def _columns(raw: Array) -> Array:
    """Raw outputs as (n, C) or (n, 1)."""
    columns = raw[:, None] if raw.ndim == 1 else raw
    if columns.ndim != 2:
        raise ModelError(
            f"the model must output (n, classes); its output has shape {raw.shape}. Export its last layer."
        )
    return columns


def add_logits(nodes: Nodes, name: str, raw: Array, outputs: str) -> str:
    """Add the nodes from the output `name` of the model to float64 (n, C) logits, with the same steps as `logits_of`.

    `raw` is an example of the output.
    """
    is_probabilities = outputs == "probabilities"
    if raw.dtype == np.float64 and not is_probabilities:
        name = nodes("Cast", name, to=FLOAT)
    values = nodes("Cast", name, to=DOUBLE)
    if raw.ndim == 1:
        values = nodes("Unsqueeze", values, np.array([1]))
    if raw.ndim == 1 or raw.shape[1] == 1:
        zeros = nodes("Expand", np.zeros(1), nodes("Shape", values))
        class_0 = nodes("Sub", np.ones(1), values) if is_probabilities else zeros
        values = nodes("Concat", class_0, values, axis=1)
    if not is_probabilities:
        return values
    log_probs = nodes("Log", nodes("Max", values, number(SMALLEST_PROBABILITY)))
    return nodes("Cast", nodes("Cast", log_probs, to=FLOAT), to=DOUBLE)
