"""The adapter of gradient boosting: raw margins are logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import numpy as np

from driftcal.core.messages import first_line
from driftcal.core.numerics import log_softmax
from driftcal.errors import DriftcalError, ModelError
from driftcal.models.outputs import Outputs
from driftcal.types import Array, Float64, Inputs

#: What turns margins into probabilities: a softmax over the classes, the sigmoid of the only margin, or a sigmoid per
#: class, divided by their sum.
Link = Literal["softmax", "sigmoid", "one-vs-rest"]


class Booster(Protocol):
    """What an adapter needs of a library. `slope` multiplies margins before the link (LightGBM's ``sigmoid``).

    `columns` are the names of the columns that the model was fitted with; None if it was fitted with a matrix, or if the
    library compares names itself.
    """

    framework: str
    link: Link
    slope: float
    classes: tuple[Any, ...] | None
    columns: list[str] | None

    def margins(self, batch: Inputs) -> Array:
        """Raw scores: (n,) for a sigmoid, (n, C) otherwise."""
        ...

    def digest(self) -> str:
        """SHA-256 over the trees."""
        ...


class BoosterBackend:
    """Runs a booster. Two classes have the logits [0, margin]."""

    layout = "flat"
    takes_tables = True
    takes_text = False
    takes_dictionaries = False
    fixed_batch: int | None = None
    largest_batch: int | None = None
    device = "cpu"

    def __init__(self, booster: Booster, *, outputs: Outputs = "logits") -> None:
        self.booster, self._outputs = booster, outputs
        self.framework, self.classes, self.columns = booster.framework, booster.classes, booster.columns

    def configured(self, *, outputs: Outputs, name: str | None) -> BoosterBackend:
        """The same booster with other outputs."""
        return BoosterBackend(self.booster, outputs=outputs)

    def run(self, batch: Inputs) -> Array:
        """Logits of a batch, or their softmax for ``outputs="probabilities"``."""
        with self._errors_are_ours("predict for this batch"):
            margins = self.booster.margins(batch)
        logits = self._logits(np.asarray(margins, np.float64))
        return np.exp(log_softmax(logits)) if self._outputs == "probabilities" else logits

    def layers(self) -> tuple[str, ...]:
        """Always (): trees have no layers."""
        return ()

    def digest(self, run: Callable[[], Array]) -> str:
        """SHA-256 over the trees."""
        with self._errors_are_ours("write its trees"):
            return self.booster.digest()

    @contextmanager
    def _errors_are_ours(self, task: str) -> Iterator[None]:
        """The errors of the libraries share no base, and a damaged model is often found only when it is used."""
        try:
            yield
        except DriftcalError:
            raise
        except Exception as error:
            says = first_line(error).rstrip(".")
            raise ModelError(
                f"the {self.framework} model must {task}; it says: {type(error).__name__}: {says}. Has the batch the columns "
                "of the training, and is the model intact?"
            ) from error

    def _logits(self, margins: Array) -> Float64:
        if self.booster.link == "sigmoid":
            if margins.ndim != 1:
                raise ModelError(
                    f"the {self.framework} model must give one margin per sample; it gave {margins.shape[1:]}. Models with several "
                    "targets are not supported: open a function that returns the scores of one."
                )
            return np.stack([np.zeros(len(margins)), self.booster.slope * margins], axis=1)
        if margins.ndim != 2:
            raise ModelError(
                f"the {self.framework} model must give a margin per class; it gave shape {margins.shape}. Is it a classifier?"
            )
        if self.booster.link == "softmax":
            return margins
        return -np.logaddexp(0, -self.booster.slope * margins)  # logarithms of the sigmoids


def not_a_classifier(framework: str, objective: str) -> ModelError:
    """The error for an objective whose margins are not known to be logits."""
    return ModelError(
        f"the objective of the {framework} model must be that of a classifier; it is {objective!r}. Open a function that "
        'returns logits instead: open_model(function, name="v1").'
    )
