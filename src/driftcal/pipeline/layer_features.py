"""What a model shows of the rows of a ladder beside their logits, for calibrators that look at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, make_calibrator
from driftcal.models import pooled_features
from driftcal.pipeline.collect import Collector
from driftcal.shifts import get_shift
from driftcal.shifts.shift import Shift
from driftcal.types import AnyArray, Array


@dataclass(frozen=True, eq=False)
class CollectedFeatures:
    """Features of a ladder's rungs, layer by layer, the clean rung first; of training rows too, where there are any.

    >>> rung = {"early": np.eye(60)[:3]}
    >>> CollectedFeatures([rung, rung]).beside("md-ts", np.array([True, False, True]))["features"]["early"].shape
    (4, 60)
    >>> CollectedFeatures([rung]).methods, CollectedFeatures([rung], reference={"early": np.eye(60)}).methods, CollectedFeatures([rung]).beside("ts")
    (('md-ts',), ('dac', 'dac-pts', 'md-ts'), {})
    >>> CollectedFeatures([rung], reference=rung).why_not
    'DAC, DAC-PTS were left out: they compare inputs with 50 training inputs or more, and the reference has 3.'
    """

    by_level: Sequence[Mapping[str, Array]] = ()
    reference: Mapping[str, Array] | None = None

    @classmethod
    def of(
        cls, collector: Collector, noise: Shift | None, ladder: Mapping[str, Any] | None, layers: Sequence[str]
    ) -> CollectedFeatures:
        """Looks at the collector's source on every rung of the ladder, without one at the clean rows."""
        levels = [0.0] if ladder is None else [float(level["epsilon"]) for level in ladder["levels"]]
        return cls([collector.features(noise or get_shift("gaussian"), level, layers) for level in levels])

    def compared_with(self, collector: Collector, training: AnyArray) -> CollectedFeatures:
        """The same beside what the model shows of training inputs."""
        return CollectedFeatures(self.by_level, pooled_features(collector.model, training, list(self.by_level[0])))

    @property
    def methods(self) -> tuple[str, ...]:
        """The calibrators that look inside a model and can be fitted on this."""
        looking = [name for name, kind in CALIBRATORS.items() if kind.needs_features]
        return tuple(name for name in looking if self.by_level and _neighbours(name) <= self._training)

    @property
    def why_not(self) -> str:
        """In words, why others of them cannot; nothing where all can, or nobody looked."""
        others = {name: _neighbours(name) for name in CALIBRATORS if _neighbours(name) > self._training}
        if not self.by_level or not others:
            return ""
        have = "there is no reference" if self.reference is None else f"the reference has {self._training}"
        return (
            f"{', '.join(others).upper()} were left out: they compare inputs with {max(others.values())} training inputs or more, "
            f"and {have}."
        )

    @property
    def _training(self) -> int:
        return 0 if self.reference is None else len(next(iter(self.reference.values())))

    @property
    def clean(self) -> CollectedFeatures:
        """The clean rung alone."""
        return CollectedFeatures(self.by_level[:1], self.reference)

    def beside(self, method: str, chosen: Array | None = None) -> dict[str, Any]:
        """What `fit` of a method takes beside the logits of all rungs, of each only the `chosen` rows; most take nothing."""
        kind = CALIBRATORS[method]
        if not kind.needs_features:
            return {}
        pick: Any = slice(None) if chosen is None else chosen
        features = {
            layer: np.concatenate([level_data[layer][pick] for level_data in self.by_level])
            for layer in self.by_level[0]
        }
        return {"features": features, **({"reference": self.reference} if kind.needs_reference else {})}


def _neighbours(method: str) -> int:
    """How many training rows a method needs to compare with."""
    return int(make_calibrator(method).get_params()["k"]) if CALIBRATORS[method].needs_reference else 0
