"""Parameterized temperature scaling: a small network gives each sample its temperature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport, LogitCalibrator
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.sample_temperatures import ScaledByNetwork
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.samplewise.margins import MarginInputs, write_margins
from driftcal.calibrators.samplewise.network import (
    GROUP,
    add_outer_products,
    add_sample,
    check_network_params,
    initial_network,
    network_layers,
    network_loss,
    network_size,
    network_value,
    starting_betas,
    train_from_each,
)
from driftcal.calibrators.samplewise.sample_scaling import scale_rows
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.first_pass import checked_first_pass
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import MASKED, bits_of_float, kernel, row_argmax
from driftcal.core.optimize import Minimum, minimise_newton
from driftcal.core.validation import for_kernel
from driftcal.types import AnyArray, Float64, Labels, Logits, Weights

#: Training begins on a subsample of this size, then on one four times as large: their optima are a good start.
SUBSAMPLE = 6_000
#: The most steps of training. With few samples a thousand small ones may be needed.
MAX_STEPS = 5_000
_NAME = "parameterized temperature scaling"


class ParameterizedTemperatureScaling(LogitCalibrator):
    """A temperature per sample from its largest logits: T(z) = T₀·exp(g(z)), q = softmax(z / T(z)).

    g is a network with two hidden layers of `hidden` tanh units. Its inputs are the margins between the `top` largest
    logits, as logarithms, clipped to the range of the tuning samples. T₀ is the best single temperature by squared
    error. The network minimises the mean squared error against the labels plus (`decay`/n)·‖weights − start‖², where n
    is the sum of the sample weights.

    The start is drawn from `random_state` and has g = 0, so on its tuning samples the network is never worse than T₀.
    If T₀ saturates the softmax, the network is also trained from the T of temperature scaling. Training ends when a
    step is expected to lower the loss by less than the share `tol`. The fit raises `NoFiniteOptimum` if no temperature
    is best. Tomani, Cremers and Buettner 2022 (Parameterized temperature scaling), section 3.

    Parameters
    ----------
    top
        How many of the largest logits are read.
    hidden
        Units of each hidden layer.
    decay
        Weight of the penalty on the distance from the start.
    tol
        Training ends when a step is expected to lower the loss by less than this share.
    random_state
        The seed of the start.
    classes
        The class of each column of the logits. None: columns are classes.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(500, 4)) * 3
    >>> y = np.where(rng.random(500) < 0.6, logits.argmax(axis=1), rng.integers(0, 4, 500))
    >>> pts = ParameterizedTemperatureScaling().fit(logits, y)
    >>> pts.fit_report_.after < pts.fit_report_.before
    True
    """

    keeps_accuracy = True
    uses_sample_count = True
    fitted = {
        "temperature_": FittedArray(positive=True),
        "feature_scale_": FittedArray(positive=True),
        "feature_low_": FittedArray("inputs"),
        "feature_high_": FittedArray("inputs"),
        "feature_mean_": FittedArray("inputs"),
        "feature_std_": FittedArray("inputs", positive=True),
        "network_": FittedArray("weights"),
    }

    def __init__(
        self,
        *,
        top: int = 10,
        hidden: int = 5,
        decay: float = 1.0,
        tol: float = 1e-4,
        random_state: int = 0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.top = top
        self.hidden = hidden
        self.decay = decay
        self.tol = tol
        self.random_state = random_state
        self.classes = classes

    def _check_params(self) -> None:
        check_network_params(self.top, self.hidden, self.decay, self.tol)

    def _check_fitted(self) -> None:
        width, size = min(int(self.top), self.n_features_in_) - 1, len(self.network_)
        if len(self.feature_low_) != width or size != network_size(width, int(self.hidden)):
            raise ValueError(
                f"the network must have {width} inputs; it has {len(self.feature_low_)} and {size} weights"
            )

    def _fit(self, data: LabelledLogits) -> FitReport:
        first = checked_first_pass(data, None)
        single = fit_brier(data, first, None)
        inputs = MarginInputs.of(data, min(self.top, data.n_classes) - 1)
        start = initial_network(inputs.width, int(self.hidden), self.random_state)
        betas, beta_passes = starting_betas(data, single.beta)
        decay = self.decay / data.effective_n_samples
        trained = train_from_each(betas, partial(self._train, data, inputs, start), start, decay)
        self.network_, self.temperature_ = trained.network, 1 / trained.beta
        self.feature_scale_, self.feature_low_, self.feature_high_ = inputs.scale, inputs.low, inputs.high
        self.feature_mean_, self.feature_std_ = inputs.mean, inputs.std
        certify("squared error", first.brier, trained.loss)
        return FitReport("brier", first.brier, trained.loss, single.passes + beta_passes + trained.passes + 3)

    def _train(self, data: LabelledLogits, inputs: MarginInputs, start: Float64, beta: float) -> Minimum:
        """The network trained from the temperature 1/beta, its penalised loss, and the passes taken."""
        shape = (len(start) + 1, len(start) + 1)
        decay = self.decay * data.total_weight / data.effective_n_samples

        def sums_of(network: Float64, share: int) -> Float64:
            return data.reduce_sum(_network_sums, shape, beta, *inputs.arrays, int(self.hidden), network, share)

        loss = network_loss(partial(sums_of, share=1), start, decay)
        network, n_calls = start, 0
        for share in (data.n_samples // SUBSAMPLE, data.n_samples // (4 * SUBSAMPLE)):
            if share > 1:
                subsample_loss = network_loss(partial(sums_of, share=share), start, decay)
                on_subsample = minimise_newton(subsample_loss, network, _NAME, tol=10 * self.tol)
                network, n_calls = on_subsample.x, n_calls - (-on_subsample.n_calls // share)
        if n_calls and loss(network)[0] > loss(start)[0]:
            network = start
        best = minimise_newton(loss, network, _NAME, tol=self.tol, max_calls=MAX_STEPS)
        return replace(best, n_calls=n_calls + best.n_calls)

    def _proba_into(self, logits: Logits, out: Float64) -> None:
        scale_rows(logits, self._betas(logits), out, False)

    def _log_proba_into(self, logits: Logits, out: Float64) -> None:
        scale_rows(logits, self._betas(logits), out, True)

    def export_map(self) -> ExportMap:
        """softmax(z / T) with T from the network."""
        layers = network_layers(self.network_, len(self.feature_low_), int(self.hidden))
        return ExportMap(
            ScaledByNetwork(
                1 / self.temperature_, float(self.feature_scale_), self.feature_low_, self.feature_high_,
                self.feature_mean_, self.feature_std_, layers,
            )
        )  # fmt: skip

    def _betas(self, logits: Logits) -> Float64:
        betas = np.empty(len(logits))
        _sample_betas(
            logits, 1 / self.temperature_, self.feature_scale_, self.feature_low_, self.feature_high_, self.feature_mean_,
            self.feature_std_, int(self.hidden), self.network_, betas,
        )  # fmt: skip
        return betas

    def temperatures(self, logits: AnyArray) -> Float64:
        """The temperature of each sample."""
        scores, shape = self._checked(logits)
        return (1 / self._betas(for_kernel(scores))).reshape(shape)


@kernel
def _write_inputs(row: Any, scale: float, low: Float64, high: Float64, mean: Float64, std: Float64, x: Float64) -> None:
    """Write the inputs of the network for one sample."""
    write_margins(row, x)
    for j in range(x.shape[0]):
        x[j] = (min(max(math.log1p(x[j] / scale), low[j]), high[j]) - mean[j]) / std[j]


@kernel
def _network_sums(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    sums: Float64,
    beta: float,
    scale: float,
    low: Float64,
    high: Float64,
    mean: Float64,
    std: Float64,
    hidden: int,
    network: Float64,
    share: int,
) -> None:
    """Add every sample to `sums`; with `share` > 1 about one sample in `share`."""
    size = network.shape[0]
    x = np.empty(low.shape[0])
    first = np.empty(hidden)
    second = np.empty(hidden)
    gradients = np.zeros((GROUP, size))
    curvatures = np.zeros(GROUP)
    held = 0
    for i in range(logits.shape[0]):
        w = weights[i]
        row = logits[i]
        if w == 0 or (share > 1 and not _is_drawn(row, share)):
            continue
        _write_inputs(row, scale, low, high, mean, std, x)
        held = add_sample(row, labels[i], w, beta, x, hidden, network, first, second, gradients, curvatures, held, sums)
    curvatures[held:] = 0.0
    add_outer_products(gradients, curvatures, sums)


@kernel
def _is_drawn(row: Any, share: int) -> bool:
    """Whether a sample is in the subsample of one in `share`.

    The bits of its margins decide, not its index, so that the order of the samples changes nothing.
    """
    total = 0.0
    top = np.float64(row[row_argmax(row)])
    for c in range(row.shape[0]):
        total += max(np.float64(row[c]) - top, MASKED)
    mixed = bits_of_float(total) * 0x9E3779B97F4A7C1
    return bool(((mixed >> 33) ^ (mixed >> 21)) % share == 0)


@kernel
def _sample_betas(
    logits: Logits,
    beta: float,
    scale: float,
    low: Float64,
    high: Float64,
    mean: Float64,
    std: Float64,
    hidden: int,
    network: Float64,
    out: Float64,
) -> None:
    """Write 1/T of every sample."""
    x = np.empty(low.shape[0])
    first = np.empty(hidden)
    second = np.empty(hidden)
    for i in range(logits.shape[0]):
        _write_inputs(logits[i], scale, low, high, mean, std, x)
        out[i] = beta * math.exp(-network_value(x, hidden, network, first, second))
