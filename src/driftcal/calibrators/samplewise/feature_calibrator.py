"""The protocol of calibrators that read logits and layer features, and the losses that they share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators.base import Calibrator, FitInputs, FitReport
from driftcal.calibrators.samplewise.sample_scaling import moments, scale_rows
from driftcal.core import validation
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, exp, kernel, row_max
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights

_WAY_OUT = "Pass {}=driftcal.pooled_features(model, inputs, layers)."


class FeatureCalibrator(Calibrator):
    """A calibrator that gives each sample a temperature by its layer features, and so keeps the accuracy.

    Features are one (n, F) array, a list of such arrays, one per layer, or a mapping from layer names to arrays, as
    :func:`driftcal.pooled_features` returns it. The calibrator scales the features of each layer to length 1.
    """

    keeps_accuracy = True
    needs_features = True

    widths_: Float64

    @abstractmethod
    def _fit_features(
        self, data: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        """Fit on labelled logits and their checked features, the layers concatenated."""

    @abstractmethod
    def _temperatures(self, features: Array, logits: Logits | None) -> Float64:
        """T of each sample from checked features, and from its logits if the calibrator reads them."""

    def _fit_inputs(self, data: LabelledLogits, inputs: FitInputs) -> FitReport:
        name = type(self).__name__
        if inputs.features is None:
            raise InputError(
                f"{name} needs the layer features of the tuning samples; there are none. " + _WAY_OUT.format("features")
            )
        if (inputs.reference is None) == self.needs_reference:
            raise InputError(
                f"{name} needs the layer features of training samples; there are none. " + _WAY_OUT.format("reference")
                if self.needs_reference
                else f"{name} does not compare with training samples; reference was given. Leave it out."
            )
        features, widths = unit_layers(inputs.features, "features")
        if len(features) != data.n_samples:
            raise InputError(
                f"features must have one row per sample; they have {len(features)}, the logits {data.n_samples}."
            )
        reference, reference_widths = None, widths
        if inputs.reference is not None:
            reference, reference_widths = unit_layers(inputs.reference, "reference")
        if reference_widths != widths:
            raise InputError(
                f"reference must have the layers of features, of widths {widths}; its widths are {reference_widths}. "
                "Take both from the same layers of the same model."
            )
        self.widths_ = np.array(widths, np.float64)
        return self._fit_features(data, features, reference, inputs.levels)

    def _predict(self, logits: Logits, features: AnyArray, *, log: bool) -> Float64:
        if features is None:
            raise InputError(
                f"{type(self).__name__} needs the layer features of the same samples; there are none. "
                + _WAY_OUT.format("features")
            )
        out = np.empty(logits.shape)
        scale_rows(validation.for_kernel(logits), 1 / self._checked_temperatures(features, logits), out, log)
        return out

    def temperatures(self, features: AnyArray, logits: AnyArray = None) -> Float64:
        """The temperature of each sample; some calibrators also need the logits of these samples."""
        return self._checked_temperatures(features, None if logits is None else self._checked(logits)[0])

    def _checked_temperatures(self, features: AnyArray, logits: Logits | None) -> Float64:
        layers, widths = unit_layers(features, "features")
        if widths != self.widths:
            raise InputError(
                f"features must have the layers of the fit, of widths {self.widths}; their widths are {widths}. "
                "Take them from the same layers, in the same order."
            )
        if logits is not None and len(layers) != len(logits):
            raise InputError(
                f"features must have one row per sample; they have {len(layers)}, the logits {len(logits)}."
            )
        return self._temperatures(layers, logits)

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of features of each layer."""
        return tuple(int(width) for width in self.widths_)


def unit_layers(features: AnyArray, name: str) -> tuple[Array, tuple[int, ...]]:
    """The layers concatenated as float32, with features of length 1 in each layer, and the widths of the layers.

    >>> unit_layers({"a": [[3.0, 4.0]], "b": [[2.0]]}, "features")
    (array([[0.6, 0.8, 1. ]], dtype=float32), (2, 1))
    """
    if isinstance(features, Mapping):
        parts = list(features.values())
    else:
        values: Any = features
        is_list_of_layers = isinstance(values, (list, tuple)) and len(values) > 0 and np.ndim(values[0]) == 2
        parts = list(values) if is_list_of_layers else [values]
    arrays = [validation.as_array(part, name) for part in parts]
    if not arrays:
        raise InputError(f"{name} must hold at least one layer; there is none. Name some of model.layers.")
    for array in arrays:
        if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] == 0:
            raise InputError(
                f"{name} must be (n, F) numbers for each layer; one is {array.dtype} of shape {array.shape}. "
                "Pool maps over their positions first, as driftcal.pooled_features does."
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


def _unit(features: Array) -> Array:
    """Features scaled to length 1; a sample of zeros stays zero."""
    values = np.asarray(features, np.float64)
    largest = np.abs(values).max(axis=1, keepdims=True)
    values = values / np.where(largest > 0, largest, 1.0)  # so squares cannot overflow or underflow
    length = np.sqrt((values**2).sum(axis=1, keepdims=True))
    unit: Array = (values / np.where(length > 0, length, 1.0)).astype(np.float32)
    return unit


#: Columns of the losses of a sample; see `SampleLosses`.
_WEIGHT, _NLL, _SQUARED_ERROR, _DERIVATIVE = range(4)


@dataclass(frozen=True, eq=False)
class SampleLosses:
    """Weight, negative log-likelihood and squared error of each sample, and the derivative of the latter in log T."""

    weights: Float64
    nll: Float64
    squared_error: Float64
    derivative: Float64


def sample_losses(data: LabelledLogits, temperatures: Float64) -> SampleLosses:
    """The losses of each sample at its temperature."""
    out = np.zeros((data.n_samples, 4))

    def visit(logits: Logits, labels: Labels, weights: Weights, start: int) -> None:
        block = slice(start, start + len(labels))
        _sample_losses(logits, labels, weights, temperatures[block], out[block])

    data.for_each_block(visit)
    return SampleLosses(out[:, _WEIGHT], out[:, _NLL], out[:, _SQUARED_ERROR], out[:, _DERIVATIVE])


@kernel
def _sample_losses(logits: Logits, labels: Labels, weights: Weights, temperatures: Float64, out: Float64) -> None:
    """Write the losses of each sample. With p = softmax(x), x = d/T and m = Σp·x: dp/d(log T) = −p(x − m)."""
    for i in range(logits.shape[0]):
        if weights[i] == 0:  # such a sample may hold anything
            continue
        row = logits[i]
        beta = 1.0 / temperatures[i]
        s0, s1, q0, q1, _ = moments(row, beta)
        mean = s1 / s0
        x_true = max(beta * (np.float64(row[labels[i]]) - row_max(row)), MASKED)
        p = exp(x_true) / s0
        squares = q0 / (s0 * s0)
        out[i, _WEIGHT] = weights[i]
        out[i, _NLL] = math.log(s0) - x_true
        out[i, _SQUARED_ERROR] = squares - 2.0 * p + 1.0
        out[i, _DERIVATIVE] = -2.0 * (q1 / (s0 * s0) - mean * squares - p * (x_true - mean))
