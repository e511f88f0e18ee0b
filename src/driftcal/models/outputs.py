"""The scores in whatever a framework's model returns, and the logits they make."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from driftcal.checks import looks_like_probabilities
from driftcal.errors import ModelError
from driftcal.types import AnyArray, Array, Float64, Logits

Outputs = Literal["logits", "probabilities"]

#: A probability that a model rounded to 0 is small, not impossible: its logarithm is taken here, about -87.3, the
#: smallest normal float32. (-inf would mean a class that is ruled out.)
SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def scores(output: Any) -> Any:
    """The tensor of scores: the output itself, its `logits`, or the only thing in it."""
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        if "logits" in output:
            return output["logits"]
        output = list(output.values())
    if isinstance(output, list | tuple):
        if len(output) != 1:
            raise ModelError(
                f"the model must answer one tensor of scores; it answered {len(output)}. Wrap it in a function that returns the "
                "one you mean, and open that."
            )
        return scores(output[0])
    return output


def log_probabilities(probabilities: AnyArray) -> Float64:
    """Their logarithms, which are valid logits; 0 counts as `SMALLEST_PROBABILITY`."""
    found: Float64 = np.log(np.maximum(np.asarray(probabilities, np.float64), SMALLEST_PROBABILITY))
    return found


def refuse_probabilities(answers: Array, outputs: Outputs) -> None:
    """Raise where answers look like what they were not said to be."""
    single = answers.shape[1] == 1
    between = bool(((answers >= 0) & (answers <= 1)).all())
    normalised = between and (single or looks_like_probabilities(answers))
    if outputs == "logits" and normalised:
        rows = "its single column lies in [0, 1]" if single else "rows lie in [0, 1] and sum to 1"
        raise ModelError(
            f"the model must answer logits, but {rows}: these look like probabilities. Open it with "
            'outputs="probabilities", or better, export it without its last softmax or sigmoid.'
        )
    if outputs == "probabilities" and not normalised:
        raise ModelError(
            'outputs="probabilities" needs rows in [0, 1] that sum to 1; the model answered values from '
            f"{answers.min():.4g} to {answers.max():.4g}. If these are logits, leave the argument out."
        )


def to_logits(answers: Array, outputs: Outputs, start: int) -> Logits:
    """float32 logits (n, C) of answers whose first is row `start`; a single column becomes two."""
    values = answers.astype(np.float64) if outputs == "probabilities" else answers.astype(np.float32)
    if values.shape[1] == 1:
        other = 1 - values if outputs == "probabilities" else np.zeros_like(values)
        values = np.concatenate([other, values], axis=1)
    top = values.max(axis=1) if len(values) else np.zeros(0)
    bad = np.flatnonzero(~np.isfinite(top))
    if len(bad):
        raise ModelError(
            f"the model must answer finite scores; row {start + int(bad[0])} holds NaN or infinity, or only -inf. Look at "
            "that input, and at overflow in half precision."
        )
    if outputs == "probabilities":
        if not looks_like_probabilities(values):
            raise ModelError(
                f'outputs="probabilities" needs rows in [0, 1] that sum to 1; rows {start}..{start + len(values) - 1} do not.'
            )
        values = log_probabilities(values)
    return values.astype(np.float32)
