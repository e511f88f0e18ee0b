"""Calibrators that look inside a network, for experiments: their fits on a ladder, or the words for why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from driftcal.calibrators import CALIBRATORS
from driftcal.errors import DataError
from driftcal.models import pooled_features
from driftcal.paper.cases import Case
from driftcal.paper.workbench import Workbench
from driftcal.pipeline.layer_features import CollectedFeatures
from driftcal.shifts.shift import Shift
from driftcal.types import Array


@dataclass(frozen=True)
class Inside:
    """What there is to see in the network of a case: `methods` that can be tuned, and why the `others` cannot."""

    layers: tuple[str, ...] = ()
    reference: Mapping[str, Array] | None = None
    methods: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, bench: Workbench, case: Case) -> Inside:
        """Opens the training images, if the case says where they are."""
        looking = [name for name, kind in CALIBRATORS.items() if kind.needs_features]
        if not case.layers:
            why = f"a {case.model.framework} model of which nobody knows where its stages end gives no features"
            return cls(others=dict.fromkeys(looking, why))
        if case.training is None:
            return cls._without(case.layers, looking, "the images it learnt from are not known")
        try:
            training = case.training()
        except DataError as error:
            return cls._without(case.layers, looking, f"its training images cannot be read: {error}")
        bench.collector(case, case.validation)  # the first images settle the model's batches
        return cls(case.layers, pooled_features(case.model, training.inputs(), case.layers), tuple(looking))

    @classmethod
    def _without(cls, layers: tuple[str, ...], looking: Sequence[str], why: str) -> Inside:
        alone = tuple(name for name in looking if not CALIBRATORS[name].needs_reference)
        return cls(layers, None, alone, {name: why for name in looking if name not in alone})

    def on(self, bench: Workbench, case: Case, shift: Shift, ladder: Mapping[str, Any]) -> CollectedFeatures:
        """What there is to see on a ladder's rungs."""
        seen = CollectedFeatures.of(bench.collector(case, case.validation), shift, ladder, self.layers)
        return replace(seen, reference=self.reference)
