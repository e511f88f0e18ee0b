"""A tuning or an evaluation before it runs: what it will compute, about how long that takes, and then the run itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from driftcal.cache import LogitCache
from driftcal.calibrators.serialization import notes as artefact_notes
from driftcal.data import Source, open_source
from driftcal.engines import Engine
from driftcal.errors import InputError
from driftcal.io.paths import as_path
from driftcal.models import Model, open_model
from driftcal.pipeline.calibrated_model import CalibratedModel, as_store, evaluate, suite_for
from driftcal.pipeline.collect import Collector, OnProgress
from driftcal.pipeline.compare import compare_methods, ladder_conditions, validation_of
from driftcal.pipeline.results import Results
from driftcal.pipeline.tune import shift_for, tune
from driftcal.shifts.shift import Shift

Conditions = Sequence[tuple[Shift, float]]
Place = str | os.PathLike[str]


@dataclass(frozen=True)
class Part:
    """One data set of a plan: how many passes over its rows the model still has to make."""

    data: str
    rows: int
    conditions: int
    passes: float


@dataclass(frozen=True)
class Plan:
    """What a run would compute now. `seconds` reckons from one batch; what is stored already costs nothing.

    `passes` is exact where `at_most` is None. A search for levels stops as soon as it can: then `passes` is what it
    takes if every guess is right, and `at_most` what it takes if none is.
    """

    parts: Sequence[Part]
    seconds: float
    at_most: float | None = None

    @property
    def passes(self) -> float:
        """Model passes, each over all rows of its data set."""
        return sum(part.passes for part in self.parts)

    @property
    def inputs(self) -> int:
        """How many inputs the model will be asked about."""
        return sum(round(part.passes * part.rows) for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "passes": self.passes,
            "at_most": self.at_most,
            "inputs": self.inputs,
            "seconds": round(self.seconds, 1),
            "parts": [vars(part) for part in self.parts],
        }


@dataclass(frozen=True, eq=False)
class TuningRun:
    """`driftcal.tune`, to be planned before it is run; `options` are its keywords."""

    model: Model
    validation: Source
    options: Mapping[str, Any] = field(default_factory=dict)
    store: Place | None = None

    def plan(self, *, clock: bool = True) -> Plan:
        """The fewest and the most passes that Algorithm 1 can take."""
        source = self.validation.labelled()
        collector = Collector(self.model, source, store=_store_if_there(self.store), seed=self.options.get("seed", 0))
        wish, levels = self.options.get("shift", "gaussian"), self.options.get("levels", 10)
        if wish is None:
            known: Conditions = [(shift_for("gaussian", source), 0.0)]
            extra, most = 0.0, None
        else:
            shift = shift_for(wish, source, self.options.get("categorical", ()))
            searched = shift.levels is None
            known = [(shift, float(level)) for level in ((0,) if shift.levels is None else shift.levels)]
            extra = float(max(0, levels - 1 - _known_levels(collector, shift))) if searched else 0.0
            # each inner level may be tried 8 times (Nelder-Mead: 32), and the floor takes about as long as two of them
            tries = 32.0 if self.options.get("solver") == "nelder-mead" else 8.0
            most = 1.0 + tries * levels if searched else None
        passes = collector.missing(known) + extra
        parts = [Part(source.name, len(source), len(known) + round(extra), passes), *self._looks(collector, known)]
        each = _seconds_per_pass(collector, [known[-1]]) if clock else 0.0
        seconds = sum(part.passes * each * part.rows / len(source) for part in parts)
        return Plan(parts, seconds, None if most is None else most + sum(part.passes for part in parts[1:]))

    def _looks(self, collector: Collector, known: Conditions) -> list[Part]:
        """The passes that look inside the model: over every rung, and once over the training inputs."""
        layers, reference = self.options.get("layers", ()), self.options.get("reference")
        if not layers:
            return []
        shift, store = known[-1][0], collector.store
        searched = self.options.get("shift", "gaussian") is not None and shift.levels is None
        by_level = self.options.get("levels", 10) if searched else len(known)
        stored = sum(store is not None and collector.features_key(*one, layers) in store for one in known)
        stored += _known_levels(collector, shift, layers) if searched else 0
        passes = float(max(0, by_level - stored))
        looks = [Part(f"{collector.source.name}, features", len(collector.source), by_level, passes)]
        if reference is not None:
            looks.append(Part(f"{getattr(reference, 'name', 'reference')}, features", len(reference), 1, 1.0))
        return looks

    def run(self, *, on_progress: OnProgress | None = None, engine: Engine | None = None) -> CalibratedModel:
        """Algorithm 1 and the fit."""
        return tune(
            self.model, self.validation, store=self.store, on_progress=on_progress, engine=engine, **self.options
        )


@dataclass(frozen=True, eq=False)
class EvaluationRun:
    """`driftcal.evaluate`, to be planned before it is run; `methods` are compared when there are validation data."""

    tuned: CalibratedModel
    test: Source
    suite: str | None = None
    validation: Source | None = None
    methods: Sequence[str] = ()
    seed: int = 0
    n_bins: int = 15
    group: str | None = None
    t_max: float | None = None
    store: Place | None = None

    @classmethod
    def open(
        cls,
        model: Any,
        calibrator: Place,
        test: Any,
        *,
        validation: Any = None,
        methods: Sequence[str] = (),
        force: bool = False,
        model_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> EvaluationRun:
        """From a model, a saved calibrator and data, given as the command line names them."""
        if methods and validation is None:
            raise InputError(
                "comparing methods needs the validation data they are to be tuned on; there are none. Give the data of tune."
            )
        recorded = artefact_notes(calibrator)["notes"].get("model") or {}
        source = _with_groups(test, options.get("group"))
        wish = {key: recorded[key] for key in ("preprocessing", "outputs") if key in recorded}
        opened = open_model(model, **{**wish, **(model_options or {})})
        opened.prepare(source.inputs(source.indices[:16]))
        tuned = CalibratedModel.load(calibrator, opened, force=force)
        source = source.with_classes(tuned.class_names)
        data = None if validation is None else validation_of(tuned, open_source(validation))
        return cls(tuned, source.labelled(), validation=data, methods=tuple(methods), **options)

    def plan(self, *, clock: bool = True) -> Plan:
        """Exactly the passes that `run` will make now; with ``clock=False`` the model is not asked how long one takes."""
        store = self._opened if self.store is not None and _exists(self.store) else None
        suite = suite_for(self.suite, self.test, self.tuned.about.get("categorical", ()))
        conditions = [(shift, float(level)) for shift, level in suite]
        parts, seconds = [], 0.0
        work: list[tuple[Source, int, Conditions]] = [(self.test, self.seed, conditions)]
        if self._compares and self.validation is not None:
            known = ladder_conditions(self.tuned, self.validation)
            work.insert(0, (self.validation, int(self.tuned.about["seed"]), known))
        for source, seed, wanted in work:
            collector = Collector(self.tuned.model, source, store=store, seed=seed)
            passes = collector.missing(wanted)
            distinct = len({collector.key(shift, level).digest for shift, level in wanted})
            parts.append(Part(source.name, len(source), distinct, passes))
            seconds += passes * _seconds_per_pass(collector, wanted) if passes and clock else 0.0
        return Plan(parts, seconds)

    def run(
        self,
        *,
        on_progress: OnProgress | None = None,
        about: Mapping[str, Any] | None = None,
        engine: Engine | None = None,
    ) -> Results:
        """All candidates on all shifts and levels."""
        candidates = None
        if self._compares:
            candidates = compare_methods(
                self.tuned, self.validation, methods=self.methods, t_max=self.t_max, store=self._opened,
                on_progress=on_progress, engine=engine,
            )  # fmt: skip
        return evaluate(
            self.tuned, self.test, suite=self.suite, seed=self.seed, n_bins=self.n_bins, group=self.group,
            candidates=candidates, store=self._opened, on_progress=on_progress, engine=engine,
            about={**({"group": self.group} if self.group else {}), **(about or {})},
        )  # fmt: skip

    @cached_property
    def _opened(self) -> LogitCache | None:
        """The store, opened once: what it has checked it does not check again."""
        return as_store(self.store)

    @property
    def _compares(self) -> bool:
        """With validation data at hand, the method's clean-tuned twin is compared even when nothing else is."""
        return self.validation is not None


def _known_levels(collector: Collector, shift: Shift, layers: Sequence[str] = ()) -> int:
    """How many levels of a shift the store knows for this model and source: a search will ask for them first.

    With `layers`, of how many it knows the features.
    """
    if collector.store is None:
        return 0
    own = (collector.features_key(shift, 1.0, layers) if layers else collector.key(shift, 1.0)).to_dict()
    same = ("model", "source", "shift", "seed", "batch_size", "extra")
    stored = [key.to_dict() for key in list(collector.store.keys())]
    return sum(all(key[name] == own[name] for name in same) for key in stored)


def _with_groups(test: Any, group: str | None) -> Source:
    """The test data; an .npz file may hold its groups under any name, such as ``site`` or ``camera``."""
    named = group not in (None, "class", "group") and isinstance(test, str) and test.endswith(".npz")
    return open_source(test, group=group) if named else open_source(test)


def _store_if_there(place: Place | None) -> LogitCache | None:
    """A plan writes nothing: a store that does not exist yet is an empty one."""
    return None if place is None or not _exists(place) else as_store(place)


def _exists(place: Place) -> bool:
    return (as_path(place) / "store.json").exists()


def _seconds_per_pass(collector: Collector, conditions: Iterable[tuple[Shift, float]]) -> float:
    """From one batch, through the model and through a few of the shifts."""
    source, model = collector.source, collector.model
    inputs, labels, indices = next(source.batches(model.batch_size))
    model.logits(inputs)
    listed = list(conditions)
    shifted = listed[:: max(1, len(listed) // 4)]
    for shift, level in shifted:  # the first call of a shift may compile it
        shift(inputs[:1], level, indices=indices[:1])
    begun = time.perf_counter()
    for shift, level in shifted:
        model.logits(shift(inputs, level, seed=collector.seed, indices=indices))
    return (time.perf_counter() - begun) / max(1, len(shifted)) * len(source) / len(labels)
