"""The scores in whatever a framework's model returns, and the logits they make."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from driftcal.core.validation import looks_like_probabilities
from driftcal.errors import ImagesError, ModelError
from driftcal.types import AnyArray, Array, Float64, Logits

#: What a model returns.
Outputs = Literal["logits", "probabilities"]

#: A probability that a model rounded to 0 is small, not impossible: its logarithm is taken of this, about -87.3. It is the
#: smallest normal float32. (-inf would mask the class.)
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
                "one you mean, and open that."
            )
        return scores(output[0])
    return output


def log_probabilities(probabilities: AnyArray) -> Float64:
    """Logarithms of probabilities, which are valid logits; 0 counts as `SMALLEST_PROBABILITY`."""
    logarithms: Float64 = np.log(np.maximum(np.asarray(probabilities, np.float64), SMALLEST_PROBABILITY))
    return logarithms


def refuse_probabilities(raw: Array, outputs: Outputs) -> None:
    """Raise where a model's raw outputs look like something other than what `outputs` says."""
    single = raw.shape[1] == 1
    in_range = bool(((raw >= 0) & (raw <= 1)).all())
    normalised = in_range and (single or looks_like_probabilities(raw))
    if outputs == "logits" and normalised:
        observed = "its single column lies in [0, 1]" if single else "they lie in [0, 1] and sum to 1 per sample"
        raise ModelError(
            f"the model must return logits, but {observed}: these look like probabilities. Open it with "
            'outputs="probabilities", or better, export it without its last softmax or sigmoid.'
        )
    if outputs == "probabilities" and not normalised and not np.isnan(raw).any():  # to_logits says where NaN is
        raise ModelError(
            'outputs="probabilities" needs values in [0, 1] that sum to 1 per sample; the model returned values from '
            f"{raw.min():.4g} to {raw.max():.4g}. If these are logits, leave the argument out."
        )


def to_logits(raw: Array, outputs: Outputs, start: int, inputs: Array | None = None) -> Logits:
    """float32 logits (n, C) from raw outputs; a single column becomes two.

    `start` is the number of the first sample and `inputs` what the model was given, both for error messages.
    """
    values = raw.astype(np.float64) if outputs == "probabilities" else raw.astype(np.float32)
    if values.shape[1] == 1:
        other = 1 - values if outputs == "probabilities" else np.zeros_like(values)
        values = np.concatenate([other, values], axis=1)
    top = values.max(axis=1) if len(values) else np.zeros(0)
    unusable = np.flatnonzero(~np.isfinite(top))
    if len(unusable):
        _refuse_missing_inputs(inputs, start)
        raise ModelError(
            f"the model must return finite scores; sample {start + int(unusable[0])} has NaN or infinity, or only -inf. Look at "
            "that input, and at overflow in half precision."
        )
    if outputs == "probabilities":
        if not looks_like_probabilities(values):
            raise ModelError(
                'outputs="probabilities" needs values in [0, 1] that sum to 1 per sample; those of samples '
                f"{start}..{start + len(values) - 1} do not."
            )
        values = log_probabilities(values)
    return values.astype(np.float32)


def _refuse_missing_inputs(inputs: Array | None, start: int) -> None:
    if inputs is None:
        return
    missing = np.flatnonzero(np.isnan(inputs.reshape(len(inputs), -1)).any(axis=1))
    if len(missing):
        raise ImagesError(
            f"inputs must not hold NaN, which this model does not accept; sample {start + int(missing[0])} does. "
            "Fill the missing values, or drop the sample."
        )
