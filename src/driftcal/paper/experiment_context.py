"""All cases of a run with what experiments share: ladders, tuned calibrators, sweeps. Each is computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from driftcal.cache import LogitCache
from driftcal.calibrators import make_calibrator
from driftcal.data import Source
from driftcal.errors import InputError
from driftcal.paper.cases import Case
from driftcal.paper.settings import AS_PUBLISHED, OURS, Settings
from driftcal.paper.sweep import Sweep, run_sweep
from driftcal.pipeline.collect import Collector, OnProgress
from driftcal.pipeline.evaluate import Candidate
from driftcal.pipeline.tune import climb, fit_or_identity
from driftcal.shifts import get_suite
from driftcal.types import Labels, Logits

T = TypeVar("T")

#: The five methods of the paper's tables, and its further baselines.
PAPER = ("ts", "ets", "ts-ir", "ir", "irm")
BASELINES = ("ps", "hb", "pbmc")
METHODS = (*PAPER, *BASELINES)
#: Suffix of a calibrator -> what it was tuned on.
TUNINGS = {"": "clean rows", "-p": "gaussian", "-h": "h-tuning"}


@dataclass(eq=False)
class Workbench:
    """The cases, the settings, and what was computed so far; `on_progress` hears of progress."""

    cases: Sequence[Case]
    settings: Settings = OURS
    store: LogitCache | None = None
    seed: int = 0
    draws: int = 200
    on_progress: OnProgress | None = None
    _known: dict[Any, Any] = field(default_factory=dict)

    @property
    def other(self) -> Settings:
        """The settings that were not chosen: table1 shows both."""
        return OURS if self.settings.name == AS_PUBLISHED.name else AS_PUBLISHED

    def collector(self, case: Case, source: Source) -> Collector:
        """The model's answers on a source."""
        found = self._once(
            (id(case.model), id(source)), lambda: Collector(case.model, source, store=self.store, seed=self.seed)
        )
        found.on_progress = self.on_progress  # whoever listens may have come later
        return found

    def known(self, case: Case) -> Source:
        """ObjectNet's images of classes that the network knows."""
        other = case.objectnet
        if other is None:
            raise InputError(f"{case.label} must come with ObjectNet; it does not. Give --data objectnet=DIR.")
        return self._once(("known", id(other)), other.labelled)

    def ladder(self, case: Case, settings: Settings | None = None) -> tuple[Mapping[str, Any], list[Logits]]:
        """Algorithm 1 on the validation images: its levels, and the logits of each, the clean ones first."""
        chosen = settings or self.settings
        noise = chosen.noise(case.data)

        def find() -> tuple[Mapping[str, Any], list[Logits]]:
            record, logits = climb(self.collector(case, case.validation), noise, levels=chosen.levels)
            return record or {}, logits

        return self._once(("ladder", id(case.validation), id(case.model), noise.clip, chosen.levels), find)

    def tuning_rows(self, case: Case, tuning: str, settings: Settings | None = None) -> tuple[Logits, Labels]:
        """The labelled logits that calibrators with this suffix are tuned on."""
        collector = self.collector(case, case.validation)
        if tuning == "-p":
            logits = self.ladder(case, settings)[1]
        elif tuning == "-h":
            # every corruption through all its severities, 0 included, as the suites are
            logits = [collector.logits(shift, level) for shift, level in get_suite("h-tuning")]
        else:
            logits = [collector.logits((settings or self.settings).noise(case.data), 0)]
        return np.concatenate(logits), np.tile(collector.labels, len(logits))

    def candidates(
        self, case: Case, methods: Sequence[str], tunings: Sequence[str] = ("", "-p"), settings: Settings | None = None
    ) -> list[Candidate]:
        """The model as it is, then every method with every tuning."""
        chosen = settings or self.settings
        n_classes = self.collector(case, case.validation).model.n_classes
        base = make_calibrator("base").fit(np.zeros((1, n_classes)), [0])
        return [
            Candidate("base", "base", base, "nothing"),
            *(self._contender(case, method, tuning, chosen) for tuning in tunings for method in methods),
        ]

    def _contender(self, case: Case, method: str, tuning: str, settings: Settings) -> Candidate:
        def fit() -> Candidate:
            logits, labels = self.tuning_rows(case, tuning, settings)
            calibrator, words = fit_or_identity(method, logits, labels, settings.t_max)
            return Candidate(f"{method}{tuning}", method, calibrator, TUNINGS[tuning], [words] if words else [])

        # bins decide nothing here, and clean rows know no noise
        key = (
            "fit",
            id(case.validation),
            id(case.model),
            method,
            tuning,
            settings.t_max,
            settings.clip or tuning != "-p",
        )
        return self._once(key, fit)

    def sweep(
        self,
        case: Case,
        methods: Sequence[str] = METHODS,
        tunings: Sequence[str] = ("", "-p"),
        settings: Settings | None = None,
    ) -> Sweep:
        """The calibrators on every shift and level of the suite; a sweep that holds them all already serves."""
        chosen = settings or self.settings
        wanted = {"base", *(f"{method}{tuning}" for method in methods for tuning in tunings)}
        sweeps: list[Sweep] = self._known.setdefault(("sweeps", id(case), chosen), [])
        for found in sweeps:
            if wanted <= set(found.names):
                return found
        sweep = run_sweep(
            self.collector(case, case.test),
            self.candidates(case, methods, tunings, chosen),
            case.shifts,
            suite=case.suite,
            n_bins=chosen.n_bins,
            left_out=case.left_out,
            draws=self.draws,
            about=case.describe(),
        )
        sweeps.append(sweep)
        return sweep

    def _once(self, key: Any, compute: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = compute()
        found: T = self._known[key]
        return found
