"""What calibrators that look at a model's features share: the features of every row beside its logits."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitReport
from driftcal.calibrators.kernels.sample_scaling import moments, scale_rows
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, LogProbs, Probs, Weights

_WAY_OUT = "Pass {}=driftcal.pooled_features(model, inputs, layers)."


class FeatureCalibrator(Calibrator):
    """A calibrator that gives each row a temperature by the model's features of it, and so keeps the accuracy.

    Features are an (n, F) array, or one for each of several layers: a list, or a mapping from layers' names as
    :func:`driftcal.pooled_features` gives it. Every layer's rows are scaled to length 1 here.
    """

    keeps_accuracy = True
    needs_features = True

    widths_: Float64

    @abstractmethod
    def _fit_features(
        self, rows: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        """Learn from `rows` and the checked features of them, layers side by side."""

    @abstractmethod
    def _row_temperatures(self, features: Array, logits: Logits | None) -> Float64:
        """T of each row of checked features, and of its logits where the calibrator looks at them too."""

    def _fit_given(self, rows: LabelledLogits, features: AnyArray, reference: AnyArray, levels: AnyArray) -> FitReport:
        name = type(self).__name__
        if features is None:
            raise InputError(
                f"{name} needs the model's features of the tuning rows; there are none. " + _WAY_OUT.format("features")
            )
        if (reference is None) == self.needs_reference:
            raise InputError(
                f"{name} needs the features of training rows; there are none. " + _WAY_OUT.format("reference")
                if self.needs_reference
                else f"{name} compares nothing with training rows; reference was given. Leave it out."
            )
        own, widths = layers_of(features, "features")
        if len(own) != rows.n:
            raise InputError(f"features must have one row per row of logits; they have {len(own)}, logits {rows.n}.")
        training, other = (None, widths) if reference is None else layers_of(reference, "reference")
        if other != widths:
            raise InputError(
                f"reference must have the layers of features, of widths {widths}; its widths are {other}. "
                "Take both from the same layers of the same model."
            )
        self.widths_ = np.array(widths, np.float64)
        return self._fit_features(rows, own, training, levels)

    def _fit(self, rows: LabelledLogits) -> FitReport:
        return self._fit_given(rows, None, None, None)

    def predict_proba(self, logits: AnyArray, features: AnyArray = None) -> Probs:
        """Calibrated probabilities from logits and the features of the same rows."""
        return self._scaled(logits, features, as_log=False)

    def predict_log_proba(self, logits: AnyArray, features: AnyArray = None) -> LogProbs:
        """The same as log-probabilities, which are logits again: another calibrator can be fitted on them."""
        return self._scaled(logits, features, as_log=True)

    def temperatures(self, features: AnyArray, logits: AnyArray = None) -> Float64:
        """The temperature of each row; a calibrator that looks at logits as well needs those of the same rows."""
        return self._temperatures(features, None if logits is None else self._checked(logits)[0])

    def _temperatures(self, features: AnyArray, logits: Logits | None) -> Float64:
        own, widths = layers_of(features, "features")
        if widths != self.widths:
            raise InputError(
                f"features must have the layers of the fit, of widths {self.widths}; their widths are {widths}. "
                "Take them from the same layers, in the same order."
            )
        if logits is not None and len(own) != len(logits):
            raise InputError(
                f"features must have one row per row of logits; they have {len(own)}, logits {len(logits)}."
            )
        return self._row_temperatures(own, logits)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many numbers each layer has."""
        return tuple(int(width) for width in self.widths_)

    def _scaled(self, logits: AnyArray, features: AnyArray, *, as_log: bool) -> Float64:
        scores, shape = self._checked(logits)
        if features is None:
            raise InputError(
                f"{type(self).__name__} needs the model's features of the same rows; there are none. "
                + _WAY_OUT.format("features")
            )
        temperatures = self._temperatures(features, scores)
        out = np.empty(scores.shape)
        scale_rows(validation.for_kernel(scores), 1 / temperatures, out, as_log)
        return out.reshape(*shape, scores.shape[1])

    def _map(self, logits: Logits, out: Float64) -> None:
        raise InputError(f"{type(self).__name__} needs features beside logits; there are none.")


def layers_of(features: AnyArray, name: str) -> tuple[Array, tuple[int, ...]]:
    """Layers side by side as float32, every layer's rows of length 1, and their widths.

    >>> layers_of({"a": [[3.0, 4.0]], "b": [[2.0]]}, "features")
    (array([[0.6, 0.8, 1. ]], dtype=float32), (2, 1))
    """
    if isinstance(features, Mapping):
        parts = list(features.values())
    else:
        given: Any = features
        several = isinstance(given, (list, tuple)) and len(given) > 0 and np.ndim(given[0]) == 2
        parts = list(given) if several else [given]
    arrays = [validation.as_array(part, name) for part in parts]
    if not arrays:
        raise InputError(f"{name} must hold at least one layer; there is none. Name some of model.layers.")
    for array in arrays:
        if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] == 0:
            raise InputError(
                f"{name} must be (n, F) numbers for each layer; one is {array.dtype} of shape {array.shape}. "
                "Pool maps over their places first, as driftcal.pooled_features does."
            )
        if len(array) != len(arrays[0]):
            raise InputError(
                f"{name} must have as many rows in every layer; there are {len(arrays[0])} and {len(array)}."
            )
        if not np.isfinite(array).all():
            raise InputError(
                f"{name} must be finite; a layer holds NaN or infinity. Look at overflow in half precision."
            )
    return np.concatenate([_unit(array) for array in arrays], axis=1), tuple(array.shape[1] for array in arrays)


def _unit(rows: Array) -> Array:
    """Rows of length 1; a row of zeros stays."""
    values = np.asarray(rows, np.float64)
    largest = np.abs(values).max(axis=1, keepdims=True)
    values = values / np.where(largest > 0, largest, 1.0)  # squares neither overflow nor vanish
    length = np.sqrt((values**2).sum(axis=1, keepdims=True))
    unit: Array = (values / np.where(length > 0, length, 1.0)).astype(np.float32)
    return unit


def row_losses(rows: LabelledLogits, temperatures: Float64) -> Float64:
    """For each row at its own temperature: weight, negative log-likelihood, squared error, its slope and bend in log T.

    The bend is Gauss's and Newton's, which is never negative.
    """
    out = np.zeros((rows.n, 5))

    def visit(logits: Logits, labels: Labels, weights: Weights, start: int) -> None:
        here = slice(start, start + len(labels))
        _row_losses(logits, labels, weights, temperatures[here], out[here])

    rows.for_each_block(visit)
    return out


@kernel
def _row_losses(logits: Logits, labels: Labels, weights: Weights, temperatures: Float64, out: Float64) -> None:
    """With p = softmax(x), x = d/T and m = Σp·x: dp/d(log T) = −p(x − m)."""
    for i in range(logits.shape[0]):
        if weights[i] == 0:  # such a row may hold anything
            continue
        row = logits[i]
        beta = 1.0 / temperatures[i]
        s0, s1, q0, q1, q2 = moments(row, beta)
        mean = s1 / s0
        own = max(beta * (np.float64(row[labels[i]]) - row_max(row)), MASKED)
        p = exp(own) / s0
        squares = q0 / (s0 * s0)
        out[i, 0] = weights[i]
        out[i, 1] = math.log(s0) - own
        out[i, 2] = squares - 2.0 * p + 1.0
        out[i, 3] = -2.0 * (q1 / (s0 * s0) - mean * squares - p * (own - mean))
        out[i, 4] = 2.0 * max((q2 - 2.0 * mean * q1) / (s0 * s0) + mean * mean * squares, 0.0)
