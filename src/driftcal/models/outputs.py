"""From the outputs of a framework's model to logits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from driftcal.core.inputs.array_dicts import ArrayDict
from driftcal.core.inputs.frames import is_frame
from driftcal.core.validation import looks_like_probabilities
from driftcal.errors import ImagesError, ModelError
from driftcal.types import AnyArray, Array, Float64, Indices, Inputs, Logits

#: The kind of a model's outputs.
Outputs = Literal["logits", "probabilities"]

#: Replaces a probability that a model has rounded to 0, because -inf would mask the class. It is the smallest normal
#: float32; its logarithm is about -87.3.
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def scores(output: Any) -> Any:
    """The tensor of scores: the output itself, its `logits`, or the only tensor in it."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        if "logits" in output:
            return output["logits"]
        output = list(output.values())
    if isinstance(output, list | tuple):
        if len(output) != 1:
            raise ModelError(
                f"the model must return one tensor of scores; it returned {len(output)}. Wrap it in a function that returns the "
                "scores, and open that."
            )
        return scores(output[0])
    return output


def log_probabilities(probabilities: AnyArray) -> Float64:
    """Logarithms of probabilities, which are valid logits; `SMALLEST_PROBABILITY` replaces 0."""
    logarithms: Float64 = np.log(np.maximum(np.asarray(probabilities, np.float64), SMALLEST_PROBABILITY))
    return logarithms


def check_kind_of_outputs(raw: Array, outputs: Outputs) -> None:
    """Refuse probabilities from a model that should return logits, and the reverse."""
    has_one_column = raw.shape[1] == 1
    in_range = bool(((raw >= 0) & (raw <= 1)).all())
    is_normalised = in_range and (has_one_column or looks_like_probabilities(raw))
    if outputs == "logits" and is_normalised:
        problem = "its single column lies in [0, 1]" if has_one_column else "they lie in [0, 1] and sum to 1 per sample"
        raise ModelError(
            f"the model must return logits, but {problem}: these look like probabilities. Open it with "
            'outputs="probabilities", or better, export it without its last softmax or sigmoid.'
        )
    if outputs == "probabilities" and not is_normalised and not np.isnan(raw).any():  # to_logits refuses NaN
        raise ModelError(
            'outputs="probabilities" needs values in [0, 1] that sum to 1 per sample; the model returned values from '
            f"{raw.min():.4g} to {raw.max():.4g}. If these are logits, leave the argument out."
        )


def to_logits(raw: Array, outputs: Outputs, start: int, inputs: Inputs | None = None) -> Logits:
    """float32 logits (n, C) from raw outputs; a single column becomes two.

    `start` is the number of the first sample and `inputs` the inputs of the model, both for error messages.
    """
    values = raw.astype(np.float64) if outputs == "probabilities" else raw.astype(np.float32)
    if values.shape[1] == 1:
        other = 1 - values if outputs == "probabilities" else np.zeros_like(values)
        values = np.concatenate([other, values], axis=1)
    top = values.max(axis=1) if len(values) else np.zeros(0)
    unusable = np.flatnonzero(~np.isfinite(top))
    if len(unusable):
        _refuse_nan_inputs(inputs, start)
        raise ModelError(
            f"the model must return finite scores; sample {start + int(unusable[0])} has NaN or infinity, or only -inf. Check "
            "that input, and overflow in half precision."
        )
    if outputs == "probabilities":
        if not looks_like_probabilities(values):
            raise ModelError(
                'outputs="probabilities" needs values in [0, 1] that sum to 1 per sample; those of samples '
                f"{start}..{start + len(values) - 1} do not."
            )
        values = log_probabilities(values)
    return values.astype(np.float32)


def samples_with_nan(inputs: Inputs) -> Indices:
    """The numbers of the samples that hold NaN."""
    if is_frame(inputs):
        return np.flatnonzero(inputs.isna().any(axis=1).to_numpy())
    if isinstance(inputs, ArrayDict):
        numbers = [a.reshape(len(a), -1) for a in inputs.arrays.values() if a.dtype.kind == "f"]
        return np.flatnonzero(np.any([np.isnan(a).any(axis=1) for a in numbers], axis=0))
    if inputs.dtype == object:  # texts
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.isnan(inputs.reshape(len(inputs), -1)).any(axis=1))


def _refuse_nan_inputs(inputs: Inputs | None, start: int) -> None:
    if inputs is None:
        return
    with_nan = samples_with_nan(inputs)
    if len(with_nan):
        raise ImagesError(
            f"inputs must not hold NaN, which this model does not accept; sample {start + int(with_nan[0])} does. "
            "Fill the missing values, or drop the sample."
        )
