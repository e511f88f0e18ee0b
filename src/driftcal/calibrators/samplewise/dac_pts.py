"""Parameterized temperature scaling with the distance of a sample to the training data as a further input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftcal.calibrators.base import FitReport
from driftcal.calibrators.certify import certify
from driftcal.calibrators.export_maps.export_map import ExportMap
from driftcal.calibrators.export_maps.sample_temperatures import Neighbours, ScaledByNetwork
from driftcal.calibrators.fitted_array import FittedArray
from driftcal.calibrators.samplewise.margins import MIN_STD, write_all_margins, write_margins
from driftcal.calibrators.samplewise.neighbours import NeighbourCalibrator
from driftcal.calibrators.samplewise.network import (
    GROUP,
    add_outer_products,
    add_sample,
    check_network_params,
    initial_network,
    network_layers,
    network_loss,
    network_size,
    network_values,
    starting_betas,
    train_from_each,
)
from driftcal.calibrators.scaling.ensemble_temperature import fit_brier
from driftcal.calibrators.scaling.first_pass import checked_first_pass
from driftcal.core.dataset import LabelledLogits
from driftcal.core.numerics import kernel
from driftcal.core.optimize import Minimum, minimise_newton
from driftcal.core.passes import add
from driftcal.core.validation import for_kernel
from driftcal.errors import InputError
from driftcal.types import AnyArray, Array, Float64, Labels, Logits, Weights


class DensityAwareNetwork(NeighbourCalibrator):
    """A temperature per sample from its largest logits and its distance to the training data: T = T₀·exp(g(z, s)).

    g is the network of parameterized temperature scaling (two hidden layers of `hidden` tanh units). Its inputs are the
    margins between the `top` largest logits, and the distances s_l of density-aware calibration. s_l is the distance
    from the sample's features in layer l to those of the `k`-th nearest sample of `reference`. All inputs are clipped
    to the range of the tuning samples. Margins measure the confidence of the model; distances measure how unusual an
    input is.

    The network minimises the mean squared error against the labels plus (`decay`/n)·‖weights − start‖², where n is the
    sum of the sample weights. The start is drawn from `random_state` and has g = 0, so on its tuning samples the
    network is never worse than T₀, the best single temperature. If T₀ saturates the softmax, the network is also
    trained from the T of temperature scaling. Training ends when a step is expected to lower the loss by less than the
    share `tol`. The reference is stored, at most 256 MB. The fit raises `NoFiniteOptimum` if no temperature is best.
    Inputs after Tomani et al. 2022 (section 3) and 2023 (section 3).

    Parameters
    ----------
    k
        Which nearest neighbour in the reference the distance is measured to.
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
    >>> training, near, far = (rng.normal(centre, 1, (300, 2)) for centre in ([5, 0], [5, 0], [0, 5]))
    >>> logits = rng.normal(size=(600, 3)) * 3
    >>> y = np.where(np.arange(600) < 270, logits.argmax(axis=1), rng.integers(0, 3, 600))  # incorrect far away
    >>> both = DensityAwareNetwork(k=10).fit(logits, y, features=np.vstack([near, far]), reference=training)
    >>> close, distant = both.temperatures([[5.0, 0.0], [0.0, 5.0]], logits[:1].repeat(2, axis=0))
    >>> bool(distant > 2 * close)
    True
    """

    uses_sample_count = True
    fitted = {
        "temperature_": FittedArray(positive=True),
        "margin_scale_": FittedArray(positive=True),
        "input_low_": FittedArray("inputs"),
        "input_high_": FittedArray("inputs"),
        "input_mean_": FittedArray("inputs"),
        "input_std_": FittedArray("inputs", positive=True),
        "network_": FittedArray("weights"),
        "widths_": FittedArray("layers", positive=True),
        "reference_": FittedArray("training", "features", dtype=np.float32),
    }

    def __init__(
        self,
        *,
        k: int = 50,
        top: int = 10,
        hidden: int = 5,
        decay: float = 1.0,
        tol: float = 1e-4,
        random_state: int = 0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.k = k
        self.top = top
        self.hidden = hidden
        self.decay = decay
        self.tol = tol
        self.random_state = random_state
        self.classes = classes

    def _check_params(self) -> None:
        super()._check_params()
        check_network_params(self.top, self.hidden, self.decay, self.tol)

    def _check_fitted(self) -> None:
        super()._check_fitted()
        inputs = self._n_margins(self.n_features_in_) + len(self.widths)
        if len(self.input_low_) != inputs or len(self.network_) != network_size(inputs, int(self.hidden)):
            raise ValueError(f"the network must have {inputs} inputs; it has {len(self.input_low_)}")

    def _n_margins(self, n_classes: int) -> int:
        return min(int(self.top), n_classes) - 1

    def _fit_features(
        self, data: LabelledLogits, features: Array, reference: Array | None, levels: AnyArray
    ) -> FitReport:
        self._set_reference(reference)
        first = checked_first_pass(data, None)
        single = fit_brier(data, first, None)
        inputs = self._fit_standardisation(data, features)
        start = initial_network(inputs.shape[1], int(self.hidden), self.random_state)
        betas, beta_passes = starting_betas(data, single.beta)
        zeros = np.zeros((len(start) + 1, len(start) + 1))

        def train(beta: float) -> Minimum:
            def sums_of(network: Float64) -> Array:
                args = (beta, int(self.hidden), network)
                return data.reduce(_network_sums, zeros, add, *args, per_sample=inputs)

            decay = self.decay * data.total_weight / data.effective_n_samples
            return minimise_newton(network_loss(sums_of, start, decay), start, "density-aware network", tol=self.tol)

        trained = train_from_each(betas, train, start, self.decay / data.effective_n_samples)
        self.network_, self.temperature_ = trained.network, 1 / trained.beta
        certify("squared error", first.brier, trained.loss)
        return FitReport("brier", first.brier, trained.loss, single.passes + beta_passes + trained.passes + 3)

    def _fit_standardisation(self, data: LabelledLogits, features: Array) -> Float64:
        """The inputs of the network for the tuning samples; sets their range, means and standard deviations."""
        width = self._n_margins(data.n_classes)
        table = data.map_samples(_margins_and_weight, width + 1)
        margins, weights = table[:, :width], table[:, width]
        finite = np.where(np.isfinite(margins[:, 0]), weights, 0)
        total = float(finite @ np.where(finite > 0, margins[:, 0], 0))
        self.margin_scale_ = total / float(finite.sum()) if total > 0 else 1.0
        raw = np.column_stack([np.log1p(margins / self.margin_scale_), self._distances(features)])
        counts = (weights[:, None] > 0) & np.isfinite(raw)  # masked classes do not count
        low, high = np.where(counts, raw, np.inf).min(axis=0), np.where(counts, raw, -np.inf).max(axis=0)
        self.input_low_, self.input_high_ = np.where(low <= high, low, 0.0), np.where(low <= high, high, 0.0)
        clipped = np.clip(raw, self.input_low_, self.input_high_)
        self.input_mean_ = np.average(clipped, axis=0, weights=weights)
        std = np.sqrt(np.average((clipped - self.input_mean_) ** 2, axis=0, weights=weights))
        self.input_std_ = np.where(std > MIN_STD, std, 1.0)
        return self._standardised(raw)

    def _standardised(self, raw: Float64) -> Float64:
        inputs: Float64 = (np.clip(raw, self.input_low_, self.input_high_) - self.input_mean_) / self.input_std_
        return inputs

    def _temperatures(self, features: Array, logits: Logits | None) -> Float64:
        if logits is None:
            raise InputError(
                "DensityAwareNetwork reads logits and features; there are no logits. Pass logits= of the same samples."
            )
        margins = np.empty((len(logits), self._n_margins(self.n_features_in_)))
        write_all_margins(for_kernel(logits), margins)
        raw = np.column_stack([np.log1p(margins / self.margin_scale_), self._distances(features)])
        values = np.empty(len(logits))
        network_values(self._standardised(raw), int(self.hidden), self.network_, values)
        temperatures: Float64 = self.temperature_ * np.exp(values)
        return temperatures

    def export_map(self) -> ExportMap:
        """softmax(z / T) with T from the network."""
        layers = network_layers(self.network_, len(self.input_low_), int(self.hidden))
        scores = ScaledByNetwork(
            1 / self.temperature_, float(self.margin_scale_), self.input_low_, self.input_high_, self.input_mean_,
            self.input_std_, layers, Neighbours(self._references(), int(self.k)),
        )  # fmt: skip
        return ExportMap(scores, layer_widths=self.widths)


@kernel
def _margins_and_weight(logits: Logits, labels: Labels, weights: Weights, out: Float64) -> None:
    """Write the margins of each sample, or 0 if its weight is 0, and the weight."""
    width = out.shape[1] - 1
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            write_margins(logits[i], out[i, :width])
        else:
            out[i, :width] = 0.0
        out[i, width] = weights[i]


@kernel
def _network_sums(
    logits: Logits,
    labels: Labels,
    weights: Weights,
    inputs: Float64,
    sums: Float64,
    beta: float,
    hidden: int,
    network: Float64,
) -> None:
    """Add every sample to `sums`."""
    first = np.empty(hidden)
    second = np.empty(hidden)
    gradients = np.zeros((GROUP, network.shape[0]))
    curvatures = np.zeros(GROUP)
    held = 0
    for i in range(logits.shape[0]):
        if weights[i] > 0:
            held = add_sample(
                logits[i], labels[i], weights[i], beta, inputs[i], hidden, network, first, second, gradients,
                curvatures, held, sums,
            )  # fmt: skip
    curvatures[held:] = 0.0
    add_outer_products(gradients, curvatures, sums)
