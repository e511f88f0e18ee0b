"""Recorded scores in place of a model: the "inputs" are the scores themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from driftcal.core import validation
from driftcal.core.score_type import has_one_column, resolve_score_type, to_logits
from driftcal.errors import InputError, LogitsError
from driftcal.io.fingerprint import fingerprint
from driftcal.models.model import Model
from driftcal.models.outputs import Outputs
from driftcal.models.preprocessing import Preprocessing
from driftcal.types import AnyArray, Array, Logits

#: The framework of a model that is recorded scores.
SCORES = "scores"
_BATCH_SIZE = 1 << 16


class _ScoresBackend:
    """Returns its inputs."""

    framework = SCORES
    layout = "flat"
    takes_tables = False
    takes_text = False
    takes_dictionaries = False
    fixed_batch: int | None = None
    largest_batch: int | None = None
    classes: tuple[Any, ...] | None = None
    device = "cpu"

    def configured(self, *, outputs: Outputs, name: str | None) -> _ScoresBackend:
        return self

    def run(self, batch: Array) -> Array:
        return batch

    def layers(self) -> tuple[str, ...]:
        return ()

    def digest(self, run: Callable[[], Array]) -> str:
        return fingerprint({"framework": SCORES})


class ScoresModel(Model):
    """A model that returns its inputs as logits: for scores that were recorded elsewhere.

    Inputs are scores (n, C) with a column per class, or (n,), those of class 1. `outputs` says whether they are logits
    or probabilities.
    """

    def __init__(self, outputs: Outputs | str, n_classes: int, class_names: Sequence[Any] | None = None) -> None:
        super().__init__(
            _ScoresBackend(),
            preprocessing=Preprocessing(layout="flat"),
            outputs=cast(Outputs, outputs),
            batch_size=_BATCH_SIZE,
            name=SCORES,
            class_names=class_names,
        )
        self._n_classes = n_classes
        self.open_again = partial(ScoresModel, outputs, n_classes, class_names)

    @classmethod
    def of(
        cls, scores: AnyArray, score_type: str | None = None, class_names: Sequence[Any] | None = None
    ) -> ScoresModel:
        """The model for scores like these; scores with one column need `score_type`."""
        outputs = resolve_score_type(scores, score_type)
        n_classes = 2 if has_one_column(scores) else np.shape(scores)[-1]
        return cls(outputs, n_classes, class_names)

    def prepare(self, inputs: AnyArray) -> ScoresModel:
        """Nothing: the number of classes is known."""
        return self

    def logits(self, inputs: AnyArray) -> Logits:
        """The scores as logits (n, C)."""
        if np.ndim(inputs) > 2:
            raise LogitsError(
                f"scores must be (n, classes) or (n,); their shape is {np.shape(inputs)}. Reshape them to a sample per line."
            )
        if self.outputs == "logits" and has_one_column(inputs) and self.n_classes != 2:
            raise LogitsError(f"scores must have {self.n_classes} columns; they have one.")
        logits, _ = validation.as_logits(to_logits(inputs, self.outputs))
        validation.finite_logits(logits, self.n_classes)
        return logits


def score_columns(scores: AnyArray) -> Array:
    """Scores as an array with an axis of columns, as a source holds them."""
    array = validation.as_array(scores, "scores", LogitsError)
    if array.ndim not in (1, 2) or array.dtype.kind not in validation.REAL_KINDS:
        raise InputError(
            f"scores must be numbers of shape (n, classes) or (n,); they are {array.dtype} of shape {array.shape}."
        )
    return array[:, None] if array.ndim == 1 else array
