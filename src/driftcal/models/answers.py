"""The scores in whatever a framework's model returns."""

from __future__ import annotations

from typing import Any

from driftcal.errors import ModelError


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
