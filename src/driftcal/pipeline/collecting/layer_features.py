"""Layer features of the samples at each perturbation level, for calibrators that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftcal.calibrators import CALIBRATORS, Calibrator, make_calibrator
from driftcal.data import Source
from driftcal.errors import InputError
from driftcal.models import pooled_features
from driftcal.pipeline.collecting.collect import Collector
from driftcal.pipeline.collecting.conditions import Condition
from driftcal.pipeline.collecting.source_inputs import as_inputs
from driftcal.types import AnyArray, Array


@dataclass(frozen=True, eq=False, repr=False)
class LayerFeatures:
    """The layers whose features a calibrator reads, and the training inputs to compare them with.

    Parameters
    ----------
    layers
        Names from ``driftcal.open_model(model).layers``.
    reference
        A few thousand training inputs: an array or a source. "dac" and "dac-pts" need them.
    """

    layers: Sequence[str]
    reference: AnyArray | Source = None

    def __repr__(self) -> str:
        reference: Any = self.reference
        return f"LayerFeatures({list(self.layers)}, {0 if reference is None else len(reference)} reference inputs)"

    def __post_init__(self) -> None:
        if isinstance(self.layers, str) or not len(self.layers):
            raise InputError(
                f"layers must be a list of layer names; it is {self.layers!r}. "
                "Take some of driftcal.open_model(model).layers."
            )
        object.__setattr__(self, "layers", tuple(self.layers))


@dataclass(frozen=True, eq=False)
class CollectedFeatures:
    """Layer features of each perturbation level, the clean level first, and of the training inputs, if there are any.

    >>> level = {"early": np.eye(60)[:3]}
    >>> CollectedFeatures([level, level]).for_method("md-ts", np.array([True, False, True]))["features"]["early"].shape
    (4, 60)
    >>> CollectedFeatures([level]).methods, CollectedFeatures([level], reference={"early": np.eye(60)}).methods
    (('md-ts',), ('dac', 'dac-pts', 'md-ts'))
    >>> CollectedFeatures([level]).for_method("ts")
    {}
    >>> CollectedFeatures([level], reference=level).why_left_out
    'DAC, DAC-PTS were left out: they compare with at least 50 training inputs, and the reference has 3.'
    """

    by_level: Sequence[Mapping[str, Array]] = ()
    reference: Mapping[str, Array] | None = None

    @classmethod
    def of(cls, collector: Collector, conditions: Sequence[Condition], features: LayerFeatures) -> CollectedFeatures:
        """The features of the collector's samples under each condition, and of the training inputs."""
        by_level = [collector.features(shift, level, features.layers) for shift, level in conditions]
        if features.reference is None:
            return cls(by_level)
        reference = features.reference
        inputs = reference.inputs() if isinstance(reference, Source) else as_inputs(reference)
        return cls(by_level, pooled_features(collector.model, inputs, list(features.layers)))

    @property
    def methods(self) -> tuple[str, ...]:
        """The calibrators that can be fitted on these features."""
        return tuple(
            name
            for name, kind in CALIBRATORS.items()
            if kind.needs_features and self.by_level and _n_neighbours(name) <= self._n_training
        )

    @property
    def why_left_out(self) -> str:
        """Why other calibrators cannot be fitted on these features; empty if all can, or without features."""
        others = {name: _n_neighbours(name) for name in CALIBRATORS if _n_neighbours(name) > self._n_training}
        if not self.by_level or not others:
            return ""
        fact = "there is no reference" if self.reference is None else f"the reference has {self._n_training}"
        return (
            f"{', '.join(others).upper()} were left out: they compare with at least {max(others.values())} training inputs, "
            f"and {fact}."
        )

    @property
    def _n_training(self) -> int:
        return 0 if self.reference is None else len(next(iter(self.reference.values())))

    @property
    def clean(self) -> CollectedFeatures:
        """The clean level alone."""
        return CollectedFeatures(self.by_level[:1], self.reference)

    def for_method(self, method: str | Calibrator, selected: Array | None = None) -> dict[str, Any]:
        """The further arguments of `fit` for a method: the features of all levels, of the `selected` samples only."""
        kind = CALIBRATORS[method] if isinstance(method, str) else type(method)
        if not kind.needs_features:
            return {}
        pick: Any = slice(None) if selected is None else selected
        features = {
            layer: np.concatenate([level[layer][pick] for level in self.by_level]) for layer in self.by_level[0]
        }
        return {"features": features, **({"reference": self.reference} if kind.needs_reference else {})}


def check_features(method: Calibrator | None, features: LayerFeatures | None) -> None:
    """Refuse features for a method that reads none, and a method that reads features without them.

    None is a selection among all methods: it takes features or leaves them.
    """
    if method is None:
        return
    name, readers = type(method).__name__, ", ".join(n for n, kind in CALIBRATORS.items() if kind.needs_features)
    if not method.needs_features:
        if features is not None:
            raise InputError(
                f"features are for methods that read them, {readers}; the method is {name}. Leave them out, or name another method."
            )
    elif features is None:
        raise InputError(
            f"{name} reads layer features; features is None. Pass features=driftcal.LayerFeatures(layers=[...], reference=...), "
            "with some of driftcal.open_model(model).layers."
        )
    elif (features.reference is None) == method.needs_reference:
        raise InputError(
            f"{name} compares features with those of training inputs; there are none. Pass LayerFeatures(layers, reference=inputs), "
            "a few thousand of them."
            if method.needs_reference
            else f"{name} does not compare with training inputs; a reference was given. Leave it out."
        )


def _n_neighbours(method: str) -> int:
    """How many training samples a method needs at least."""
    return int(make_calibrator(method).get_params()["k"]) if CALIBRATORS[method].needs_reference else 0
