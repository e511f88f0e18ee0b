"""The calibrators that can read the layer features of a network, and the features that they are tuned on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftcal.calibrators import CALIBRATORS
from driftcal.errors import DataError
from driftcal.models import pooled_features
from driftcal.paper.experiment_context import ExperimentContext
from driftcal.paper.setups.setup import Setup
from driftcal.pipeline.collecting.layer_features import CollectedFeatures
from driftcal.shifts.shift import Shift
from driftcal.types import Array


@dataclass(frozen=True)
class AvailableFeatures:
    """The layers of a network, the features of its training images, and the `methods` that can be tuned with them.

    `unavailable` maps each other method that needs features to the reason why it cannot be tuned.
    """

    layers: tuple[str, ...] = ()
    reference: Mapping[str, Array] | None = None
    methods: tuple[str, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: ExperimentContext, setup: Setup) -> AvailableFeatures:
        """What is available for a setup; reads the training images if it has them."""
        methods = [name for name, kind in CALIBRATORS.items() if kind.needs_features]
        if not setup.layers:
            reason = f"it is a {setup.model.framework} model and the layers that end its stages are not known"
            return cls(unavailable=dict.fromkeys(methods, reason))
        if setup.training is None:
            return cls._without_reference(setup.layers, methods, "its training images are not known")
        try:
            training = setup.training()
        except DataError as error:
            return cls._without_reference(setup.layers, methods, f"its training images cannot be read: {error}")
        context.collector(setup, setup.validation)  # the first images decide the model's batch size
        reference = pooled_features(setup.model, training.inputs(), setup.layers)
        return cls(setup.layers, reference, tuple(methods))

    @classmethod
    def _without_reference(cls, layers: tuple[str, ...], methods: Sequence[str], reason: str) -> AvailableFeatures:
        available = tuple(name for name in methods if not CALIBRATORS[name].needs_reference)
        return cls(layers, None, available, {name: reason for name in methods if name not in available})

    def at_levels(
        self, context: ExperimentContext, setup: Setup, shift: Shift, levels: Mapping[str, Any]
    ) -> CollectedFeatures:
        """The features of the validation images at each perturbation level."""
        collector = context.collector(setup, setup.validation)
        by_level = [collector.features(shift, float(level["epsilon"]), self.layers) for level in levels["levels"]]
        return CollectedFeatures(by_level, self.reference)
